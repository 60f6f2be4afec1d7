//! The servers: a node behind Sentinels, one in a Cluster, and a fixed one.

mod cluster;
mod sentinels;

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::plan::Kind;
use cluster::Cluster;
use sentinels::Sentinels;
use tower_redlock_verify::server::{Server, ServerOptions};

pub(crate) use sentinels::master_by;

/// The prefix of the locks' keys.
pub(crate) const PREFIX: &str = "{failovers}";

/// Time after which an awaited event counts as missing. A Sentinel that detected a jump of its own
/// clock, as on a machine without processor time, begins no failover for 30 s.
pub(crate) const EVENT_TIMEOUT: Duration = Duration::from_secs(100);

/// Time for which a lagging replica receives nothing before its master is killed.
const LAG: Duration = Duration::from_millis(300);

/// Interval between two checks.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// A node that can fail over. The number is its index in the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    Sentinel = 0,
    Cluster = 1,
}

impl Name {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Sentinel => "Sentinel",
            Self::Cluster => "Cluster",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Servers {
    sentinels: Sentinels,
    cluster: Cluster,
    fixed: Server,
}

impl Servers {
    pub(crate) fn start() -> Result<Self, String> {
        Ok(Self {
            sentinels: Sentinels::start()?,
            cluster: Cluster::start(&format!("{PREFIX}:meta"))?,
            fixed: Server::start(ServerOptions::default())?,
        })
    }

    /// The URLs of the set, in the order of [`Name`], and then the fixed server's.
    pub(crate) fn urls(&self) -> [String; 3] {
        [self.sentinels.url(), self.cluster.url(), format!("redis://{}", self.fixed.addr())]
    }

    /// The addresses of the Sentinels.
    pub(crate) fn sentinels(&self) -> Vec<SocketAddr> {
        self.sentinels.addrs()
    }

    /// Returns the server of a node that the directory reports as its master, by each reporting
    /// server.
    pub(crate) fn named(&self, name: Name) -> Vec<usize> {
        match name {
            Name::Sentinel => self.sentinels.named(),
            Name::Cluster => self.cluster.named(),
        }
    }

    /// Returns whether the directory detects no failure, and the replica is in sync.
    pub(crate) fn is_settled(&self, name: Name) -> bool {
        match name {
            Name::Sentinel => self.sentinels.is_settled(),
            Name::Cluster => self.cluster.is_settled(),
        }
    }

    /// The run id of a server of a node; `None` without an answer.
    pub(crate) fn run_id(&self, name: Name, server: usize) -> Option<String> {
        self.servers(name)[server].info("server", "run_id")
    }

    /// Causes a failover of the node, whose master is `master`. Returns the time that `now` gives
    /// at that moment.
    pub(crate) fn strike<T>(
        &mut self,
        name: Name,
        kind: Kind,
        master: usize,
        now: impl Fn() -> T,
    ) -> Result<T, String> {
        let replica = 1 - master;
        if kind == Kind::KillLagging {
            let servers = self.servers(name);
            // The replica does not get later writes of the master: its connection is closed, and
            // while it is stopped it opens no new one.
            servers[replica].signal(Signal::STOP)?;
            servers[master].command(&["CLIENT", "KILL", "TYPE", "replica"])?;
            thread::sleep(LAG);
        }
        let at = now();
        match kind {
            Kind::Kill => self.servers_mut(name)[master].kill(),
            Kind::KillLagging => {
                self.servers_mut(name)[master].kill();
                self.servers(name)[replica].signal(Signal::CONT)?;
            }
            Kind::Stop => self.servers(name)[master].signal(Signal::STOP)?,
            Kind::Order => match name {
                Name::Sentinel => self.sentinels.order(replica)?,
                Name::Cluster => self.cluster.order(replica)?,
            },
        }
        Ok(at)
    }

    /// Brings the former master back: started again without data, or continued.
    pub(crate) fn revive(&mut self, name: Name, kind: Kind, former: usize) -> Result<(), String> {
        match kind {
            Kind::Kill | Kind::KillLagging => self.servers_mut(name)[former].restart(),
            Kind::Stop => self.servers(name)[former].signal(Signal::CONT),
            Kind::Order => Ok(()),
        }
    }

    fn servers(&self, name: Name) -> &[Server] {
        match name {
            Name::Sentinel => &self.sentinels.servers,
            Name::Cluster => &self.cluster.servers,
        }
    }

    fn servers_mut(&mut self, name: Name) -> &mut [Server] {
        match name {
            Name::Sentinel => &mut self.sentinels.servers,
            Name::Cluster => &mut self.cluster.servers,
        }
    }
}

/// Waits for an event.
pub(crate) fn await_that(what: &str, mut has_happened: impl FnMut() -> bool) -> Result<(), String> {
    let started = Instant::now();
    while !has_happened() {
        if started.elapsed() > EVENT_TIMEOUT {
            return Err(format!("still waiting after {EVENT_TIMEOUT:?}: {what}"));
        }
        thread::sleep(CHECK_INTERVAL);
    }
    Ok(())
}

fn role(server: &Server) -> Option<String> {
    server.info("replication", "role")
}
