//! The servers of a run.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures_util::future::join_all;
use tokio::runtime::Runtime;
use tower_redlock::Redlock;

use crate::{
    contestants::votes,
    distance::Distance,
    support::{Proxy, RedisServer, eventually},
};

/// Servers of one set, on this machine.
#[derive(Debug)]
pub(crate) struct Servers {
    running: Vec<RedisServer>,
    /// Before the last ones that run.
    proxies: Vec<Proxy>,
    /// Before all of them, or none.
    distances: Vec<Distance>,
    /// Keeps its port, where nobody listens.
    killed: Option<RedisServer>,
    /// Whether the servers are reached over a distance.
    is_away: AtomicBool,
}

impl Servers {
    /// Sets of so many servers each, all of which vote.
    pub(crate) fn start<const N: usize>(counts: [usize; N]) -> [Self; N] {
        let sets = counts.map(Self::start_one);
        vote(&sets);
        sets
    }

    /// Five servers, the last of which are behind a proxy each.
    pub(crate) fn start_proxied(proxies: usize) -> Self {
        let mut set = Self::start_one(5);
        let behind = &set.running[5 - proxies..];
        set.proxies = behind.iter().map(|server| Proxy::start(server.addr())).collect();
        vote(std::slice::from_ref(&set));
        set
    }

    /// Five servers, each of which can be moved away.
    pub(crate) fn start_distant() -> Self {
        let mut set = Self::start_one(5);
        set.distances = set.running.iter().map(|server| Distance::start(server.addr())).collect();
        vote(std::slice::from_ref(&set));
        set
    }

    fn start_one(count: usize) -> Self {
        let running = RedisServer::start_n(count);
        Self {
            running,
            proxies: Vec::new(),
            distances: Vec::new(),
            killed: None,
            is_away: AtomicBool::new(false),
        }
    }

    /// For the default user: the other contestants' keys have no prefix that a user could be
    /// restricted to.
    pub(crate) fn urls(&self) -> Vec<String> {
        let mut urls: Vec<_> = self.running.iter().map(RedisServer::plain_url).collect();
        let direct = urls.len() - self.proxies.len();
        urls.splice(direct.., self.proxies.iter().map(|proxy| format!("redis://{}", proxy.addr())));
        if !self.distances.is_empty() && self.is_away.load(Ordering::Relaxed) {
            let away = self.distances.iter().map(|distance| format!("redis://{}", distance.addr()));
            urls = away.collect();
        }
        urls.extend(self.killed.iter().map(RedisServer::plain_url));
        urls
    }

    /// How many are not killed.
    pub(crate) fn alive(&self) -> usize {
        self.running.len()
    }

    /// Name and version, as a server tells them.
    pub(crate) fn version(&self) -> String {
        let info = self.running[0].cli(&["INFO", "server"]).text();
        let field = |name| info.lines().find_map(|line: &str| line.strip_prefix(name));
        match (field("valkey_version:"), field("redis_version:")) {
            (Some(version), _) => format!("valkey {version}"),
            (None, version) => format!("redis {}", version.unwrap_or("of unknown version")),
        }
    }

    /// Stops the last server until the answer is dropped.
    pub(crate) fn freeze_one(&self) -> Frozen<'_> {
        let server = self.running.last().expect("there are some");
        server.freeze();
        Frozen(server)
    }

    /// Stops a majority of the servers until the returned guard is dropped.
    pub(crate) fn freeze_most(&self) -> Vec<Frozen<'_>> {
        let most = &self.running[..=self.running.len() / 2];
        most.iter().for_each(RedisServer::freeze);
        most.iter().map(Frozen).collect()
    }

    /// For how many names somebody listens on each server, at the least.
    pub(crate) fn fewest_channels(&self) -> usize {
        let channels = |server: &RedisServer| {
            let channels = server.info("stats", "pubsub_channels")?;
            channels.parse().ok()
        };
        self.running.iter().filter_map(channels).min().unwrap_or(0)
    }

    /// The last server is gone for good.
    pub(crate) fn kill_one(&mut self) {
        let mut server = self.running.pop().expect("there are some");
        server.kill();
        self.killed = Some(server);
    }

    /// What servers behind a proxy say is so late from now on.
    pub(crate) fn slow(&self, by: Duration) {
        self.proxies.iter().for_each(|proxy| proxy.set_delay(by));
    }

    /// Sets the round trip to all servers, and that of the last one to so many times as much. Without a
    /// distance, the servers are reached directly from then on.
    pub(crate) fn set_distance(&self, round_trip: Duration, times_of_last: u32) {
        self.is_away.store(!round_trip.is_zero(), Ordering::Relaxed);
        self.distances.iter().for_each(|distance| distance.set(round_trip));
        self.distances.last().expect("they can be moved").set(round_trip * times_of_last);
    }

    /// Waits until all that was sent is worked off and every connection is closed.
    pub(crate) fn settle(&self) {
        for server in &self.running {
            eventually("the server has no other client", || {
                // A connection that was closed counts until everything that it sent was run.
                let info = server.cli(&["INFO", "clients"]).text();
                info.lines().any(|line| line == "connected_clients:1")
            });
        }
    }
}

/// A new set of servers votes after a while; several do at once.
fn vote(sets: &[Servers]) {
    Runtime::new().expect("the system gives threads").block_on(join_all(sets.iter().map(
        async |set| {
            let redlock = Redlock::builder().nodes(set.urls()).build().expect("valid settings");
            votes(&redlock, set.alive()).await;
            redlock.shutdown().await;
        },
    )));
}

pub(crate) struct Frozen<'a>(&'a RedisServer);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        self.0.thaw();
    }
}
