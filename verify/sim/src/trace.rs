//! The events of a run, as text.

use std::{
    fmt::{Display, Write},
    sync::{Arc, Mutex, PoisonError},
};

/// The events of a run, in order. Clones are the same trace.
#[derive(Clone, Debug, Default)]
pub struct Trace(Arc<Mutex<Log>>);

#[derive(Debug, Default)]
struct Log {
    lines: Vec<String>,
    /// A digest of all commands of servers with their times and replies, which are too many for
    /// separate lines.
    digest: u64,
    commands: u64,
    /// Number of commands with an argument that has one of these texts.
    watched: (&'static [&'static str], u64),
    shows_commands: bool,
}

impl Trace {
    /// Creates an empty trace, with commands of servers on separate lines or only in the digest.
    pub fn new(shows_commands: bool) -> Self {
        Self(Arc::new(Mutex::new(Log { shows_commands, ..Log::default() })))
    }

    /// Counts the commands with an argument that has one of these texts from now on.
    pub fn watch(&self, texts: &'static [&'static str]) {
        self.log().watched = (texts, 0);
    }

    /// The number of these commands.
    pub fn watched(&self) -> u64 {
        self.log().watched.1
    }

    /// Adds a line.
    pub fn event(&self, micros: u64, what: impl Display) {
        self.log().lines.push(format!("{} {what}", moment(micros)));
    }

    /// Adds a command of a server, with its reply.
    pub fn command(&self, micros: u64, server: usize, conn: u64, args: &[Vec<u8>], reply: &[u8]) {
        let mut log = self.log();
        log.commands += 1;
        let is_watched = |text: &&str| args.iter().any(|arg| has(arg, text));
        if log.watched.0.iter().any(is_watched) {
            log.watched.1 += 1;
        }
        let mut digest = log.digest ^ micros ^ ((server as u64) << 48) ^ (conn << 52);
        for bytes in args.iter().map(Vec::as_slice).chain([reply]) {
            for chunk in bytes.chunks(8) {
                let number = chunk.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
                digest = (digest ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
            }
        }
        log.digest = digest.rotate_left(5);
        if log.shows_commands {
            let mut line = format!("{} s{server} c{conn}:", moment(micros));
            for arg in args.iter().take(24) {
                // Writing into memory does not fail.
                let _ = write!(line, " {}", shown(arg, 48));
            }
            let _ = write!(line, " -> {}", shown(reply, 200));
            log.lines.push(line);
        }
    }

    /// The whole text, with the digest of all commands at the end.
    pub fn text(&self) -> String {
        let log = self.log();
        let mut text = log.lines.join("\n");
        let _ = write!(text, "\n{} commands, digest {:016x}\n", log.commands, log.digest);
        text
    }

    fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

fn moment(micros: u64) -> String {
    format!("{:>4}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

fn shown(bytes: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).into_owned();
    let text = text.replace("\r\n", " ").replace('\n', "\\n");
    if bytes.len() > most { format!("{text}…") } else { text }
}
