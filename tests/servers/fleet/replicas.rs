//! Replicas that are started, killed, frozen and stopped.

use std::{fs, path::PathBuf, thread, time::Duration};

use rustix::process::Signal;
use tower_redlock::time::Timestamp;

use crate::fixture::{Process, RedisServer, TempDir, eventually};

use super::{
    journal::{Line, LineKind, Reader, Writer, now},
    replica::{Plan, ReplicaOptions},
};

pub(super) struct Fleet {
    plan: Plan,
    servers: Vec<RedisServer>,
    replicas: Vec<Option<Process>>,
    pub(super) journal: Reader,
    /// Dropped last.
    dir: TempDir,
}

/// A replica paused from after `from` until after `to`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Freeze {
    pub(super) replica: usize,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
}

impl Fleet {
    /// The servers and the running replicas.
    pub(super) fn start(plan: Plan, servers: usize, replicas: usize) -> Self {
        Self::over(plan, RedisServer::start_n(servers), replicas)
    }

    pub(super) fn over(plan: Plan, servers: Vec<RedisServer>, replicas: usize) -> Self {
        let dir = TempDir::new();
        let path = dir.path().join("journal");
        drop(Writer::open(&path));
        let mut fleet = Self {
            plan,
            servers,
            replicas: (0..replicas).map(|_| None).collect(),
            journal: Reader::open(&path),
            dir,
        };
        for replica in 0..replicas {
            fleet.start_replica(replica);
        }
        for replica in 0..replicas {
            fleet.is_up(replica, Timestamp::ZERO);
        }
        fleet
    }

    pub(super) fn start_replica(&mut self, replica: usize) {
        let options = ReplicaOptions {
            replica,
            plan: self.plan,
            journal: self.dir.path().join("journal"),
            urls: self.urls(),
        };
        let process = Process::spawn(&options.command(), &self.output(replica));
        self.replicas[replica] = Some(process);
    }

    /// Waits until a replica has started after a moment.
    pub(super) fn is_up(&mut self, replica: usize, after: Timestamp) {
        let up = |line: &Line| {
            line.what == LineKind::Up && line.run.replica == replica && line.from > after
        };
        eventually("the replica is up", || self.journal.lines().iter().any(up));
    }

    pub(super) fn urls(&self) -> Vec<String> {
        self.servers.iter().map(RedisServer::url).collect()
    }

    /// Kills all servers, and starts them with what they had written.
    pub(super) fn restart_servers(&mut self) {
        for server in &mut self.servers {
            server.kill();
        }
        for server in &mut self.servers {
            server.restart_keeping_data();
        }
    }

    /// Sends SIGKILL, and returns the moment.
    pub(super) fn kill(&mut self, replica: usize) -> Timestamp {
        let at = now();
        self.replicas[replica] = None;
        at
    }

    /// Waits for a run that starts after this call.
    pub(super) fn next_run(&mut self, what: &str, is_wanted: impl Fn(&Line) -> bool) -> Line {
        let seen = self.journal.lines().len();
        self.run_since(seen, what, is_wanted)
    }

    /// The same, after a number of lines.
    pub(super) fn run_since(
        &mut self,
        seen: usize,
        what: &str,
        is_wanted: impl Fn(&Line) -> bool,
    ) -> Line {
        let mut found = None;
        eventually(what, || {
            let lines = self.journal.lines();
            let start = |line: &&Line| line.what == LineKind::Start && is_wanted(line);
            found = lines[seen..].iter().find(start).copied();
            found.is_some()
        });
        found.expect("a run")
    }

    /// Sends SIGSTOP to the replica of a run that has just begun, and SIGCONT after `time`. Returns
    /// `None`, without such a pause, if the run had ended before.
    pub(super) fn freeze_in(&mut self, run: &Line, time: Duration) -> Option<Freeze> {
        let replica = run.run.replica;
        let process = self.replicas[replica].as_ref().expect("it runs");
        let from = now();
        process.signal(Signal::STOP);
        // A poll in progress is logged by then; otherwise the run counts as frozen in its last
        // poll.
        thread::sleep(Duration::from_millis(20));
        let lines = self.journal.lines();
        let is_late = lines.iter().any(|line| line.what == LineKind::End && line.run == run.run);
        if !is_late {
            // The duration of the freeze.
            thread::sleep(time);
        }
        let to = now();
        process.signal(Signal::CONT);
        (!is_late).then_some(Freeze { replica, from, to })
    }

    /// Sends SIGTERM to all, waits until they have ended and no lock is left, and returns the
    /// journal.
    pub(super) fn stop(mut self) -> Vec<Line> {
        for process in self.replicas.iter().flatten() {
            process.signal(Signal::TERM);
        }
        for replica in 0..self.replicas.len() {
            let Some(mut process) = self.replicas[replica].take() else { continue };
            eventually("the replica ends", || process.has_ended());
            let output = fs::read_to_string(self.output(replica)).unwrap();
            assert!(output.contains("1 passed"), "replica {replica}:\n{output}");
        }
        // The lock of a killed replica expires.
        eventually("no lock is left", || {
            self.servers.iter().all(|server| server.keys("redlock:lock:*").is_empty())
        });
        self.journal.lines().to_vec()
    }

    fn output(&self, replica: usize) -> PathBuf {
        self.dir.path().join(format!("replica-{replica}.log"))
    }
}
