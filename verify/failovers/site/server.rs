//! A server process, and the operations on it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::Signal;

use super::STEP;
use tower_redlock_verify::ask::command;
use tower_redlock_verify::launch::{PATIENCE, launch, program};
use tower_redlock_verify::support::port::{self, Port};
use tower_redlock_verify::support::process::Process;
use tower_redlock_verify::support::resp::Resp;
use tower_redlock_verify::support::temp_dir::TempDir;

/// Timeout for a query about the state of a server.
const ANSWER: Duration = Duration::from_millis(300);

/// The process is declared first, as it must end before its directory is removed.
#[derive(Debug)]
pub(super) struct Server {
    process: Option<Process>,
    port: Port,
    dir: TempDir,
    /// Further arguments.
    extra: Vec<String>,
    launches: u32,
}

impl Server {
    /// Starts a blank server and waits until it answers.
    pub(super) fn start(extra: &[&str]) -> Result<Self, String> {
        let extra = extra.iter().copied().map(str::to_owned).collect();
        let mut server =
            Self { process: None, port: port::unused(), dir: TempDir::new(), extra, launches: 0 };
        let mut tries = 0;
        while let Err(problem) = server.launch() {
            tries += 1;
            if !problem.contains("Address already in use") || tries == 10 {
                return Err(problem);
            }
            server.port = port::unused();
        }
        Ok(server)
    }

    /// Starts a Sentinel with this configuration, apart from its port and directory.
    pub(super) fn start_sentinel(config: &str) -> Result<Self, String> {
        for _ in 0..10 {
            let (dir, port) = (TempDir::new(), port::unused());
            let file = dir.path().join("sentinel.conf");
            let place =
                format!("port {}\nbind 127.0.0.1\ndir {}\n", port.number(), dir.path().display());
            fs::write(&file, place + config)
                .map_err(|error| format!("{}: {error}", file.display()))?;
            let command = [program()?.to_owned(), file.display().to_string(), "--sentinel".into()];
            let process = Some(Process::spawn(&command, &dir.path().join("log-1")));
            let mut server = Self { process, port, dir, extra: Vec::new(), launches: 1 };
            let started = Instant::now();
            while !server.has_ended() && started.elapsed() < PATIENCE {
                if server.ask(&["PING"]).is_ok() {
                    return Ok(server);
                }
                thread::sleep(STEP);
            }
        }
        Err("no Sentinel starts".into())
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    pub(super) fn kill(&mut self) {
        self.process = None;
    }

    /// Restarts it after a kill, without its data. Its state as a member of its cluster is in a
    /// file, and stays.
    pub(super) fn start_again(&mut self) -> Result<(), String> {
        let started = Instant::now();
        while let Err(problem) = self.launch() {
            if !problem.contains("Address already in use") || started.elapsed() > PATIENCE {
                return Err(problem);
            }
        }
        Ok(())
    }

    pub(super) fn freeze(&self) -> Result<(), String> {
        self.signal(Signal::STOP)
    }

    pub(super) fn thaw(&self) -> Result<(), String> {
        self.signal(Signal::CONT)
    }

    /// A field of a section of `INFO`; `None` without an answer.
    pub(super) fn info(&self, section: &str, field: &str) -> Option<String> {
        let text = self.ask(&["INFO", section]).ok()?.text();
        let value = |line: &str| line.strip_prefix(field)?.strip_prefix(':').map(str::to_owned);
        text.lines().find_map(value)
    }

    /// Returns the reply to a query about its state; an error reply is an error.
    pub(super) fn ask(&self, args: &[&str]) -> Result<Resp, String> {
        command(self.addr(), ANSWER, args).map_err(|error| format!("{}: {error}", self.addr()))
    }

    /// Returns the reply to a command that must take effect; an error reply is an error.
    pub(super) fn order(&self, args: &[&str]) -> Result<Resp, String> {
        let problem = |error| format!("{}: {}: {error}", self.addr(), args.join(" "));
        command(self.addr(), PATIENCE, args).map_err(problem)
    }

    fn launch(&mut self) -> Result<(), String> {
        self.launches += 1;
        let log = self.dir.path().join(format!("log-{}", self.launches));
        let dir: &Path = self.dir.path();
        self.process = Some(launch(self.addr(), dir, &log, None, &[], &self.extra)?);
        Ok(())
    }

    fn has_ended(&mut self) -> bool {
        self.process.as_mut().is_none_or(Process::has_ended)
    }

    fn signal(&self, signal: Signal) -> Result<(), String> {
        let process = self.process.as_ref();
        let process = process.ok_or_else(|| format!("the server at {} is down", self.addr()))?;
        process.signal(signal);
        Ok(())
    }
}
