//! A Redis Cluster of three masters and three replicas.

use super::{await_that, role};
use tower_redlock_verify::server::{Server, ServerOptions};
use tower_redlock_verify::support::port::{self, Port};

/// Time without an answer after which nodes consider another one dead, in milliseconds.
const NODE_TIMEOUT: &str = "1000";

/// The slots of the masters.
const SLOTS: [(u16, u16); 3] = [(0, 5_460), (5_461, 10_922), (10_923, 16_383)];

#[derive(Debug)]
pub(super) struct Cluster {
    /// The servers of the shard that has the locks, and then the others.
    pub(super) servers: Vec<Server>,
    /// First slot of this shard.
    slot: u16,
    _buses: Vec<Port>,
}

impl Cluster {
    /// Starts it, and waits until every server knows that it is complete. `key` is one of the
    /// locks' keys there.
    pub(super) fn start(key: &str) -> Result<Self, String> {
        let buses: Vec<_> = (0..6).map(|_| port::unused()).collect();
        let mut servers = Vec::new();
        for bus in &buses {
            let bus = bus.number().to_string();
            let args = [
                "--cluster-enabled",
                "yes",
                "--cluster-port",
                &bus,
                "--cluster-node-timeout",
                NODE_TIMEOUT,
                // The replica of a master that was down for a long time may still be promoted.
                "--cluster-replica-validity-factor",
                "0",
            ];
            let args = args.map(str::to_owned).to_vec();
            servers.push(Server::start(ServerOptions { args, ..ServerOptions::default() })?);
        }
        let mut ids = Vec::new();
        for server in &servers {
            ids.push(server.command(&["CLUSTER", "MYID"])?.text());
        }
        for (at, (first, last)) in SLOTS.iter().enumerate() {
            let (first, last) = (first.to_string(), last.to_string());
            servers[at].command(&["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
            servers[at].command(&["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()])?;
        }
        for (server, bus) in servers.iter().zip(&buses).skip(1) {
            let (port, bus) = (server.addr().port().to_string(), bus.number().to_string());
            servers[0].command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus])?;
        }
        for (replica, server) in servers.iter().enumerate().skip(3) {
            let master = &ids[replica - 3];
            await_that("the replica knows its master", || {
                nodes(server).is_some_and(|table| table.contains(master))
            })?;
            server.command(&["CLUSTER", "REPLICATE", master])?;
        }
        let slot = servers[0].command(&["CLUSTER", "KEYSLOT", key])?.int();
        let shard = SLOTS.iter().position(|&(_, last)| slot <= i64::from(last)).unwrap_or(0);
        // Moves the shard to the front.
        servers.swap(0, shard);
        servers.swap(1, shard + 3);
        let started = Self { servers, slot: SLOTS[shard].0, _buses: buses };
        await_that("the cluster is complete", || started.is_settled())?;
        Ok(started)
    }

    pub(super) fn url(&self) -> String {
        // One of them is in the shard. A former master that returns is queried, and is wrong.
        format!("redis+cluster://{},{}", self.servers[0].addr(), self.servers[5].addr())
    }

    /// Returns the server of the shard that each other server reports as its master, without
    /// servers that do not answer.
    pub(super) fn named(&self) -> Vec<usize> {
        self.servers[2..].iter().filter_map(|server| self.master_by(server)).collect()
    }

    /// Makes the replica request its promotion.
    pub(super) fn order(&self, replica: usize) -> Result<(), String> {
        self.servers[replica].command(&["CLUSTER", "FAILOVER"]).map(|_| ())
    }

    /// Returns whether all servers agree on the master and detect no failure, and its replica is in
    /// sync.
    pub(super) fn is_settled(&self) -> bool {
        let Some(master) = self.master_by(&self.servers[2]) else { return false };
        let replica = &self.servers[1 - master];
        role(&self.servers[master]).as_deref() == Some("master")
            && role(replica).as_deref() == Some("slave")
            && replica.info("replication", "master_link_status").as_deref() == Some("up")
            && self.servers.iter().all(|server| {
                let is_whole = server
                    .query(&["CLUSTER", "INFO"])
                    .is_ok_and(|info| info.text().contains("cluster_state:ok"));
                let replicas = nodes(server).map_or(0, |table| {
                    let is_sound = !table.contains("fail") && !table.contains("handshake");
                    if is_sound { table.matches("slave ").count() } else { 0 }
                });
                is_whole && replicas == 3 && self.master_by(server) == Some(master)
            })
    }

    /// Returns the server of the shard that has its slots, as reported by `server`.
    fn master_by(&self, server: &Server) -> Option<usize> {
        let table = nodes(server)?;
        let slots = format!("{}-", self.slot);
        let owner = table
            .lines()
            .find(|line| line.split(' ').skip(8).any(|range| range.starts_with(&slots)))?;
        let address = owner.split(' ').nth(1)?.split('@').next()?;
        let address = address.parse().ok()?;
        self.servers[..2].iter().position(|server| server.addr() == address)
    }
}

fn nodes(server: &Server) -> Option<String> {
    Some(server.query(&["CLUSTER", "NODES"]).ok()?.text())
}
