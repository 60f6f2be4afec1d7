//! Replicas that are started, killed, frozen and stopped.

use std::{fs, path::PathBuf, thread, time::Duration};

use rustix::process::Signal;
use tower_redlock::time::Timestamp;

use super::{
    journal::{Line, LineKind, Reader, Writer, now},
    replica::{Plan, ReplicaOptions},
};
use crate::support::{Process, RedisServer, TempDir, eventually};

pub(super) struct Fleet {
    plan: Plan,
    servers: Vec<RedisServer>,
    replicas: Vec<Option<Process>>,
    pub(super) journal: Reader,
    /// Removed last.
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
    /// Servers, and replicas of which each is up.
    pub(super) fn start(plan: Plan, servers: usize, replicas: usize) -> Self {
        let dir = TempDir::new();
        let path = dir.path().join("journal");
        drop(Writer::open(&path));
        let mut fleet = Self {
            plan,
            servers: RedisServer::start_n(servers),
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
            urls: self.servers.iter().map(RedisServer::url).collect(),
        };
        let process = Process::spawn(&options.command(), &self.output(replica));
        self.replicas[replica] = Some(process);
    }

    /// Waits until a replica came up after a moment.
    pub(super) fn is_up(&mut self, replica: usize, after: Timestamp) {
        let up = |line: &Line| {
            line.what == LineKind::Up && line.run.replica == replica && line.from > after
        };
        eventually("the replica is up", || self.journal.lines().iter().any(up));
    }

    /// SIGKILL; returns when it was sent.
    pub(super) fn kill(&mut self, replica: usize) -> Timestamp {
        let at = now();
        self.replicas[replica] = None;
        at
    }

    /// Waits for a run that starts after this call, up to the test's timeout.
    pub(super) fn next_run(&mut self, what: &str, is_it: impl Fn(&Line) -> bool) -> Line {
        let seen = self.journal.lines().len();
        self.run_since(seen, what, is_it)
    }

    /// The same, after so many lines.
    pub(super) fn run_since(
        &mut self,
        seen: usize,
        what: &str,
        is_it: impl Fn(&Line) -> bool,
    ) -> Line {
        let mut found = None;
        eventually(what, || {
            let lines = self.journal.lines();
            let start = |line: &&Line| line.what == LineKind::Start && is_it(line);
            found = lines[seen..].iter().find(start).copied();
            found.is_some()
        });
        found.expect("it was waited for")
    }

    /// SIGSTOP to the replica of a run that has just begun, and SIGCONT after `time`. `None`, and no
    /// such pause, if the run had ended before.
    pub(super) fn freeze_in(&mut self, run: &Line, time: Duration) -> Option<Freeze> {
        let replica = run.run.replica;
        let process = self.replicas[replica].as_ref().expect("it runs");
        let from = now();
        process.signal(Signal::STOP);
        // What was under way is written by then. If not, the run counts as frozen in its last poll.
        thread::sleep(Duration::from_millis(20));
        let lines = self.journal.lines();
        let is_late = lines.iter().any(|line| line.what == LineKind::End && line.run == run.run);
        if !is_late {
            thread::sleep(time);
        }
        let to = now();
        process.signal(Signal::CONT);
        (!is_late).then_some(Freeze { replica, from, to })
    }

    /// SIGTERM to all: each ends by itself, and no lock is left. Returns what was written.
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
        // That of a replica that was killed is left to its TTL.
        eventually("no lock is left", || {
            self.servers.iter().all(|server| server.keys("redlock:lock:*").is_empty())
        });
        self.journal.lines().to_vec()
    }

    fn output(&self, replica: usize) -> PathBuf {
        self.dir.path().join(format!("replica-{replica}.log"))
    }
}
