//! Servers that come back, with or without what they knew.

use std::fs;
use std::time::Instant;

use super::resp::Resp;
use super::server::RedisServer;
use super::wait::{HANG_GUARD, eventually};

/// The name that a server looks for when it starts, unless told otherwise.
const FILE: &str = "dump.rdb";

/// What a server knew at some moment.
#[derive(Clone, Debug)]
pub struct Snapshot(Vec<u8>);

impl RedisServer {
    /// Starts a blank server on the same port and with the same arguments, after a kill where it is
    /// still running.
    pub fn restart(&mut self) {
        self.kill();
        self.home.wipe();
        self.start_again();
    }

    /// The same, but the server finds what it had written to its disk: everything that it answered
    /// if it has `--appendonly yes`, or else what the last `SAVE` saw.
    pub fn restart_keeping_data(&mut self) {
        self.kill();
        self.start_again();
    }

    /// The same, but the server finds the snapshot, which may be another server's. It must not have
    /// `--appendonly yes`: such a server doesn't look at snapshots.
    pub fn restart_from(&mut self, snapshot: &Snapshot) {
        let appends = self.args.windows(2).any(|pair| pair == ["--appendonly", "yes"]);
        assert!(!appends, "{} would ignore the snapshot", self.addr());
        self.kill();
        self.home.wipe();
        fs::write(self.home.data().join(FILE), &snapshot.0).expect("the directory is ours");
        self.start_again();
    }

    /// Saves what the server knows, and sets it aside.
    pub fn save_snapshot(&self) -> Snapshot {
        eventually("the server saves", || match self.cli(&["SAVE"]) {
            Resp::Simple(_) => true,
            Resp::Error(said) if said.contains("save already in progress") => false,
            other => panic!("{} does not save: {other:?}", self.addr()),
        });
        Snapshot(fs::read(self.home.data().join(FILE)).expect("it was just saved"))
    }

    /// The port is still ours, but a stranger may have it for a moment.
    fn start_again(&mut self) {
        let started = Instant::now();
        while self.launch().is_err() {
            assert!(started.elapsed() < HANG_GUARD, "{} is taken", self.addr());
        }
    }
}
