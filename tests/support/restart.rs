//! Restarts of servers, with or without their data.

use std::fs;
use std::time::Instant;

use super::resp::Resp;
use super::server::RedisServer;
use super::wait::{HANG_GUARD, eventually};

/// The file that a server loads when it starts, by default.
const FILE: &str = "dump.rdb";

/// The data of a server at some moment.
#[derive(Clone, Debug)]
pub struct Snapshot(Vec<u8>);

impl RedisServer {
    /// Starts a blank server on the same port and with the same arguments. Kills the running server
    /// before that.
    pub fn restart(&mut self) {
        self.kill();
        self.home.wipe();
        self.start_again();
    }

    /// Does the same, but the server loads the data on its disk: everything that it acknowledged if
    /// it has `--appendonly yes`, or else the data of the last `SAVE`.
    pub fn restart_keeping_data(&mut self) {
        self.kill();
        self.start_again();
    }

    /// Does the same, but the server loads the snapshot, which may come from another server. The
    /// server must not have `--appendonly yes`, which makes it ignore snapshots.
    pub fn restart_from(&mut self, snapshot: &Snapshot) {
        let appends = self.args.windows(2).any(|pair| pair == ["--appendonly", "yes"]);
        assert!(!appends, "{} would ignore the snapshot", self.addr());
        self.kill();
        self.home.wipe();
        fs::write(self.home.data().join(FILE), &snapshot.0).expect("the directory is ours");
        self.start_again();
    }

    /// Saves the server's data as a snapshot.
    pub fn save_snapshot(&self) -> Snapshot {
        eventually("the server saves", || match self.cli(&["SAVE"]) {
            Resp::Simple(_) => true,
            Resp::Error(said) if said.contains("save already in progress") => false,
            other => panic!("{} does not save: {other:?}", self.addr()),
        });
        Snapshot(fs::read(self.home.data().join(FILE)).expect("it was just saved"))
    }

    /// The port is still reserved, but another program may use it for a moment.
    fn start_again(&mut self) {
        let started = Instant::now();
        while self.launch().is_err() {
            assert!(started.elapsed() < HANG_GUARD, "{} is taken", self.addr());
        }
    }
}
