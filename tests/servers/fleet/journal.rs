//! The file to which all replicas write lines.

use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{Read, Write},
    path::Path,
    str::FromStr,
};

use tower_redlock::time::{Clock, SystemClock, Timestamp};

/// One run of the job, and the replica that writes the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    pub(super) token: u64,
    pub(super) tick: u64,
    pub(super) attempt: u32,
    pub(super) replica: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    /// A replica's scheduler was started.
    Up,
    /// The work's first and last line.
    Start,
    End,
    /// A poll of the work, with its begin and end.
    Poll,
    /// A poll that began after the end of the lock.
    LatePoll,
}

/// All times are of a clock that the processes of a machine share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) what: LineKind,
    pub(super) run: Run,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
}

pub(super) fn now() -> Timestamp {
    SystemClock::new().now()
}

impl Line {
    pub(super) fn at(what: LineKind, run: Run, moment: Timestamp) -> Self {
        Self { what, run, from: moment, to: moment }
    }
}

pub(super) struct Writer(File);

impl Writer {
    pub(super) fn open(path: &Path) -> Self {
        Self(OpenOptions::new().append(true).create(true).open(path).unwrap())
    }

    /// Uses one system call, so that a line is written completely or not at all.
    pub(super) fn write(&self, line: Line) {
        (&self.0).write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

/// Reads new lines.
pub(super) struct Reader {
    file: File,
    rest: String,
    lines: Vec<Line>,
}

impl Reader {
    pub(super) fn open(path: &Path) -> Self {
        Self { file: File::open(path).unwrap(), rest: String::new(), lines: Vec::new() }
    }

    /// All lines so far.
    pub(super) fn lines(&mut self) -> &[Line] {
        self.file.read_to_string(&mut self.rest).unwrap();
        if let Some(end) = self.rest.rfind('\n') {
            let rest = self.rest.split_off(end + 1);
            self.lines.extend(self.rest.lines().map(|line| line.parse::<Line>().unwrap()));
            self.rest = rest;
        }
        &self.lines
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Run { token, tick, attempt, replica } = self.run;
        let (from, to) = (self.from.as_nanos(), self.to.as_nanos());
        write!(f, "{:?} {token} {tick} {attempt} {replica} {from} {to}", self.what)
    }
}

impl FromStr for Line {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let strange = || format!("a strange line: {line:?}");
        let (what, numbers) = line.split_once(' ').ok_or_else(strange)?;
        let what = match what {
            "Up" => LineKind::Up,
            "Start" => LineKind::Start,
            "End" => LineKind::End,
            "Poll" => LineKind::Poll,
            "LatePoll" => LineKind::LatePoll,
            _ => return Err(strange()),
        };
        let numbers: Option<Vec<u64>> = numbers.split(' ').map(|n| n.parse().ok()).collect();
        let Some([token, tick, attempt, replica, from, to]) = numbers.as_deref() else {
            return Err(strange());
        };
        let (attempt, replica) = (u32::try_from(*attempt), usize::try_from(*replica));
        let (Ok(attempt), Ok(replica)) = (attempt, replica) else { return Err(strange()) };
        let run = Run { token: *token, tick: *tick, attempt, replica };
        Ok(Self { what, run, from: Timestamp::from_nanos(*from), to: Timestamp::from_nanos(*to) })
    }
}
