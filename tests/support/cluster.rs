//! A Redis Cluster of three masters and three replicas.

use super::port::{self, Port};
use super::resp::Resp;
use super::server::RedisServer;
use super::wait::eventually;

/// Time without an answer after which nodes take another one for dead, in milliseconds.
const NODE_TIMEOUT: &str = "1000";

#[derive(Debug)]
pub struct Cluster {
    /// The masters, and then the replica of each.
    pub servers: Vec<RedisServer>,
    _buses: Vec<Port>,
}

impl Cluster {
    /// Starts it, and waits until every server knows that it is complete.
    pub fn start() -> Self {
        let buses: Vec<_> = (0..6).map(|_| port::unused()).collect();
        let servers: Vec<_> = buses
            .iter()
            .map(|bus| {
                RedisServer::with(&[
                    "--cluster-enabled",
                    "yes",
                    "--cluster-port",
                    &bus.number().to_string(),
                    "--cluster-node-timeout",
                    NODE_TIMEOUT,
                    // A replica of a master that is gone for long may take its place.
                    "--cluster-replica-validity-factor",
                    "0",
                    "--repl-diskless-sync-delay",
                    "0",
                ])
            })
            .collect();
        let ids: Vec<_> = servers.iter().map(|it| it.cli(&["CLUSTER", "MYID"]).text()).collect();
        for (master, slots) in ["0 5460", "5461 10922", "10923 16383"].into_iter().enumerate() {
            let (first, last) = slots.split_once(' ').expect("two");
            servers[master].order(&["CLUSTER", "ADDSLOTSRANGE", first, last]);
            servers[master].order(&["CLUSTER", "SET-CONFIG-EPOCH", &(master + 1).to_string()]);
        }
        for (server, bus) in servers.iter().zip(&buses).skip(1) {
            let (port, bus) = (server.port().to_string(), bus.number().to_string());
            servers[0].order(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        for (replica, server) in servers.iter().enumerate().skip(3) {
            let master = &ids[replica - 3];
            eventually("the replica knows its master", || {
                server.cli(&["CLUSTER", "NODES"]).text().contains(master)
            });
            server.order(&["CLUSTER", "REPLICATE", master]);
        }
        let started = Self { servers, _buses: buses };
        eventually("the cluster is complete", || {
            started.servers.iter().enumerate().all(|(at, server)| {
                let is_whole = server.cli(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok");
                let nodes = server.cli(&["CLUSTER", "NODES"]).text();
                let is_synced = at < 3
                    || server.info("replication", "master_link_status").as_deref() == Some("up");
                is_whole
                    && is_synced
                    && nodes.matches(" slave ").count() + nodes.matches(",slave ").count() == 3
            })
        });
        started
    }

    /// The URL of the node, by the first of the masters and by the last of the replicas.
    pub fn url(&self) -> String {
        format!("redis+cluster://{},{}", self.servers[0].addr(), self.servers[5].addr())
    }

    /// Gives a slot, with its keys, to another master.
    pub fn move_slot(&self, slot: i64, from: usize, to: usize) {
        let slot = slot.to_string();
        let id = |server: usize| self.servers[server].cli(&["CLUSTER", "MYID"]).text();
        let set = |server: usize, state: &str, other: usize| {
            self.servers[server].order(&["CLUSTER", "SETSLOT", &slot, state, &id(other)]);
        };
        set(to, "IMPORTING", from);
        set(from, "MIGRATING", to);
        // Keys may be added meanwhile.
        eventually("the slot is empty", || {
            let keys = self.servers[from].cli(&["CLUSTER", "GETKEYSINSLOT", &slot, "1000"]);
            let keys: Vec<_> = keys.items().into_iter().map(Resp::text).collect();
            let port = self.servers[to].port().to_string();
            let command = ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            let command: Vec<_> =
                command.into_iter().chain(keys.iter().map(String::as_str)).collect();
            if !keys.is_empty() {
                self.servers[from].cli(&command);
            }
            let moved = self.servers[to].cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &id(to)]);
            moved == Resp::Simple("OK".into())
                && self.servers[from].cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &id(to)])
                    == Resp::Simple("OK".into())
        });
    }

    /// The servers that have a key: the master, and its replica.
    pub fn shard_of(&self, key: &str) -> (usize, usize) {
        let slot = self.slot_of(key);
        let master = match slot {
            0..=5460 => 0,
            5461..=10922 => 1,
            _ => 2,
        };
        (master, master + 3)
    }

    pub fn slot_of(&self, key: &str) -> i64 {
        self.servers[0].cli(&["CLUSTER", "KEYSLOT", key]).int()
    }

    /// Whether a server says that it is a master.
    pub fn is_master(&self, server: usize) -> bool {
        self.servers[server].info("replication", "role").as_deref() == Some("master")
    }
}
