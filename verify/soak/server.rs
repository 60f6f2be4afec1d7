//! A server, and the operations on it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::Signal;

use crate::fault::{Fault, LONGEST_COPY};
use tower_redlock_verify::ask::command;
use tower_redlock_verify::clocks;
use tower_redlock_verify::launch::{PATIENCE, launch};
use tower_redlock_verify::support::port::{self, Port};
use tower_redlock_verify::support::process::Process;
use tower_redlock_verify::support::resp::Resp;
use tower_redlock_verify::support::server_clock::Clock;
use tower_redlock_verify::support::temp_dir::TempDir;

const SNAPSHOTS: usize = 5;

/// The process is declared first, as it must end before its directory is removed.
#[derive(Debug)]
pub(crate) struct Server {
    process: Option<Process>,
    port: Port,
    dir: TempDir,
    clock: Option<Clock>,
    launches: u32,
    /// The snapshots, oldest first.
    snapshots: Vec<PathBuf>,
    saved: u32,
}

impl Server {
    pub(crate) fn start(has_clock: bool) -> Result<Self, String> {
        let dir = TempDir::new();
        let clock = has_clock.then(|| Clock::new(dir.path().join("clock")));
        let mut server = Self {
            process: None,
            port: port::unused(),
            dir,
            clock,
            launches: 0,
            snapshots: Vec::new(),
            saved: 0,
        };
        let mut tries = 0;
        while let Err(problem) = server.launch() {
            tries += 1;
            if !problem.contains("Address already in use") || tries == 10 {
                return Err(problem);
            }
            server.port = port::unused();
        }
        server.check_clock()?;
        Ok(server)
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// Returns when the fault is over. `others` are the addresses of all servers.
    pub(crate) fn strike(&mut self, fault: &Fault, others: &[SocketAddr]) -> Result<(), String> {
        match *fault {
            Fault::Blank { down } => self.restart(None, down),
            Fault::Restore { down, choice } => {
                let len = u64::try_from(self.snapshots.len()).expect("a small number");
                let index = usize::try_from(choice % len.max(1)).expect("a small number");
                self.restart(self.snapshots.get(index).cloned().as_deref(), down)
            }
            Fault::Flush => self.command(&["FLUSHALL"]),
            Fault::Freeze { lasts } => {
                self.signal(Signal::STOP)?;
                thread::sleep(lasts);
                self.signal(Signal::CONT)
            }
            Fault::Excursion { by, lasts } => {
                self.set_clock(by);
                thread::sleep(lasts);
                self.set_clock(0);
                Ok(())
            }
            Fault::Copy { from } => self.copy(others[from]),
            Fault::Disconnect => self.command(&["CLIENT", "KILL", "TYPE", "normal"]),
        }
    }

    /// Saves the current data, for a later restart from it.
    pub(crate) fn take_snapshot(&mut self) -> Result<(), String> {
        self.command(&["SAVE"])?;
        self.saved += 1;
        let kept = self.dir.path().join(format!("snapshot-{}.rdb", self.saved));
        fs::copy(self.dump(), &kept).map_err(|error| format!("{}: {error}", kept.display()))?;
        self.snapshots.push(kept);
        if self.snapshots.len() > SNAPSHOTS {
            let _ = fs::remove_file(self.snapshots.remove(0));
        }
        Ok(())
    }

    fn restart(&mut self, snapshot: Option<&Path>, down: Duration) -> Result<(), String> {
        self.process = None;
        let _ = fs::remove_file(self.dump());
        if let Some(snapshot) = snapshot {
            let copied = fs::copy(snapshot, self.dump());
            copied.map_err(|error| format!("{}: {error}", snapshot.display()))?;
        }
        thread::sleep(down);
        let started = Instant::now();
        while let Err(problem) = self.launch() {
            if !problem.contains("Address already in use") || started.elapsed() > PATIENCE {
                return Err(problem);
            }
        }
        Ok(())
    }

    fn launch(&mut self) -> Result<(), String> {
        self.launches += 1;
        let log = self.dir.path().join(format!("log-{}", self.launches));
        let process = launch(self.addr(), self.dir.path(), &log, self.clock.as_ref(), &[], &[])?;
        self.process = Some(process);
        Ok(())
    }

    /// Copies the other server's data; a server that is not itself sound is not a source.
    fn copy(&self, other: SocketAddr) -> Result<(), String> {
        let (host, port) = (other.ip().to_string(), other.port().to_string());
        self.command(&["REPLICAOF", &host, &port])?;
        let started = Instant::now();
        let mut copied = false;
        while !copied && started.elapsed() < LONGEST_COPY {
            thread::sleep(Duration::from_millis(5));
            copied = self.info("replication")?.contains("master_link_status:up");
        }
        self.command(&["REPLICAOF", "NO", "ONE"])?;
        if copied { Ok(()) } else { Err(format!("no copy from {other}")) }
    }

    /// Sets its clock `ahead` seconds ahead of the correct time.
    fn set_clock(&self, ahead: i32) {
        if let Some(clock) = &self.clock {
            clock.set(f64::from(ahead));
        }
    }

    fn check_clock(&self) -> Result<(), String> {
        let checked = self.clock.as_ref().map_or(Ok(()), |clock| clocks::check(self.addr(), clock));
        checked
            .map_err(|problem| format!("{problem}. Leave these faults out: --without clock-faults"))
    }

    fn info(&self, section: &str) -> Result<String, String> {
        Ok(self.ask(&["INFO", section])?.text())
    }

    fn ask(&self, args: &[&str]) -> Result<Resp, String> {
        command(self.addr(), PATIENCE, args).map_err(|error| format!("{}: {error}", self.addr()))
    }

    fn command(&self, args: &[&str]) -> Result<(), String> {
        self.ask(args).map(|_| ())
    }

    fn signal(&mut self, signal: Signal) -> Result<(), String> {
        let addr = self.addr();
        let ended = || format!("the server at {addr} has ended");
        let process = self.process.as_mut().ok_or_else(ended)?;
        if process.has_ended() {
            return Err(ended());
        }
        process.signal(signal);
        Ok(())
    }

    fn dump(&self) -> PathBuf {
        self.dir.path().join("dump.rdb")
    }
}
