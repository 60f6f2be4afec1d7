//! Servers that replicate others.

use super::server::RedisServer;
use super::wait::eventually;

impl RedisServer {
    /// Makes the server a replica, and waits until it is in sync. It is one until it is promoted or
    /// restarted.
    #[track_caller]
    pub fn replica_of(&self, master: &RedisServer) {
        // Otherwise the master would wait 5 s for further replicas.
        master.set_config("repl-diskless-sync-delay", "0");
        if let Some(password) = master.password() {
            self.set_config("masterauth", password);
        }
        let at = master.addr();
        self.order(&["REPLICAOF", &at.ip().to_string(), &at.port().to_string()]);
        self.catch_up_with(master);
    }

    /// Waits until the replica has all writes of its master.
    #[track_caller]
    pub fn catch_up_with(&self, master: &RedisServer) {
        let offset = |server: &RedisServer, field| -> i64 {
            server.info("replication", field).map_or(-1, |text| text.parse().expect("a number"))
        };
        let told = offset(master, "master_repl_offset");
        eventually("the replica is in sync", || {
            self.info("replication", "master_link_status").as_deref() == Some("up")
                && offset(self, "slave_repl_offset") >= told
        });
    }

    /// Makes a replica a master, with the data that it has by now.
    #[track_caller]
    pub fn promote(&self) {
        self.order(&["REPLICAOF", "NO", "ONE"]);
        assert_eq!(self.info("replication", "role").as_deref(), Some("master"));
    }
}
