//! The servers of a run.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures_util::future::join_all;
use tokio::runtime::Runtime;
use tower_redlock::Redlock;

use crate::{
    contestants::votes,
    forwarder::Forwarder,
    processor,
    support::{Proxy, RedisServer, eventually},
};

/// Servers of one set, on this machine.
#[derive(Debug)]
pub(crate) struct Servers {
    running: Vec<RedisServer>,
    /// The proxies in front of the last of the running servers.
    proxies: Vec<Proxy>,
    /// The forwarders, in front of all servers or none.
    forwarders: Vec<Forwarder>,
    /// The killed server, which keeps its port reserved.
    killed: Option<RedisServer>,
    /// Whether the servers are reached over a distance.
    is_away: AtomicBool,
}

impl Servers {
    /// Starts sets of these sizes, all of which vote.
    pub(crate) fn start<const N: usize>(counts: [usize; N]) -> [Self; N] {
        let sets = counts.map(Self::start_one);
        vote(&sets);
        sets
    }

    /// Starts five servers, the last `proxies` of which are behind a proxy each.
    pub(crate) fn start_proxied(proxies: usize) -> Self {
        let mut set = Self::start_one(5);
        let behind = &set.running[5 - proxies..];
        set.proxies = behind.iter().map(|server| Proxy::start(server.addr())).collect();
        vote(std::slice::from_ref(&set));
        set
    }

    /// Starts five servers, each behind a forwarder that can delay its answers.
    pub(crate) fn start_distant() -> Self {
        let mut set = Self::start_one(5);
        set.forwarders = set.running.iter().map(|server| Forwarder::start(server.addr())).collect();
        vote(std::slice::from_ref(&set));
        set
    }

    /// Starts five servers that are this far away from the beginning. Clients at another distance
    /// use other names for them, as another set.
    pub(crate) fn start_away(round_trip: Duration) -> Self {
        let mut set = Self::start_one(5);
        set.forwarders = set.running.iter().map(|server| Forwarder::start(server.addr())).collect();
        set.set_distance(round_trip, 1);
        vote(std::slice::from_ref(&set));
        set
    }

    fn start_one(count: usize) -> Self {
        let running = RedisServer::start_n(count);
        Self {
            running,
            proxies: Vec::new(),
            forwarders: Vec::new(),
            killed: None,
            is_away: AtomicBool::new(false),
        }
    }

    /// Returns the URLs of the default user, as the other contestants' keys have no prefix that a
    /// user could be restricted to.
    pub(crate) fn urls(&self) -> Vec<String> {
        let mut urls: Vec<_> = self.running.iter().map(RedisServer::plain_url).collect();
        let direct = urls.len() - self.proxies.len();
        urls.splice(direct.., self.proxies.iter().map(|proxy| format!("redis://{}", proxy.addr())));
        if !self.forwarders.is_empty() && self.is_away.load(Ordering::Relaxed) {
            let away =
                self.forwarders.iter().map(|forwarder| format!("redis://{}", forwarder.addr()));
            urls = away.collect();
        }
        urls.extend(self.killed.iter().map(RedisServer::plain_url));
        urls
    }

    /// Returns the processor time of all running servers, if the system reports it.
    pub(crate) fn processor_time(&self) -> Option<Duration> {
        self.running.iter().map(|server| processor::of(server.pid())).sum()
    }

    /// Returns how often the servers, together, have run a command.
    pub(crate) fn calls(&self, command: &str) -> f64 {
        let calls = |server: &RedisServer| {
            let line = server.info("commandstats", &format!("cmdstat_{command}"));
            let calls =
                line.as_deref().and_then(|line| line.strip_prefix("calls=")?.split(',').next());
            calls.map_or(0.0, |calls| calls.parse().expect("a number"))
        };
        self.running.iter().map(calls).sum()
    }

    /// Returns the number of commands that the servers, together, have run.
    pub(crate) fn commands(&self) -> f64 {
        let run = |server: &RedisServer| {
            let count = server.info("stats", "total_commands_processed").expect("it is reported");
            count.parse::<f64>().expect("a number")
        };
        self.running.iter().map(run).sum()
    }

    /// Returns the memory in use by all running servers, in bytes.
    pub(crate) fn memory(&self) -> f64 {
        let used = |server: &RedisServer| {
            let bytes = server.info("memory", "used_memory").expect("it is reported");
            bytes.parse::<f64>().expect("a number of bytes")
        };
        self.running.iter().map(used).sum()
    }

    /// Returns the number of running servers, as a divisor.
    pub(crate) fn count(&self) -> f64 {
        f64::from(u32::try_from(self.running.len()).expect("a few"))
    }

    /// Returns the number of servers that are not killed.
    pub(crate) fn alive(&self) -> usize {
        self.running.len()
    }

    /// Returns name and version, as reported by a server.
    pub(crate) fn version(&self) -> String {
        let info = self.running[0].cli(&["INFO", "server"]).text();
        let field = |name| info.lines().find_map(|line: &str| line.strip_prefix(name));
        match (field("valkey_version:"), field("redis_version:")) {
            (Some(version), _) => format!("valkey {version}"),
            (None, version) => format!("redis {}", version.unwrap_or("of unknown version")),
        }
    }

    /// Stops the last server until the returned guard is dropped.
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

    /// Returns the minimum, over the servers, of the number of names with a listener.
    pub(crate) fn fewest_channels(&self) -> usize {
        let channels = |server: &RedisServer| {
            let channels = server.info("stats", "pubsub_channels")?;
            channels.parse().ok()
        };
        self.running.iter().filter_map(channels).min().unwrap_or(0)
    }

    /// Kills the last server permanently.
    pub(crate) fn kill_one(&mut self) {
        let mut server = self.running.pop().expect("there are some");
        server.kill();
        self.killed = Some(server);
    }

    /// Kills the last server, and starts it again without its data.
    pub(crate) fn restart_last(&mut self) {
        self.running.last_mut().expect("there are some").restart();
    }

    /// Returns the addresses of all servers but the last one.
    pub(crate) fn addresses_but_last(&self) -> Vec<SocketAddr> {
        let but_last = &self.running[..self.running.len() - 1];
        but_last.iter().map(RedisServer::addr).collect()
    }

    /// Sets the delay of answers of servers behind a proxy.
    pub(crate) fn slow(&self, by: Duration) {
        self.proxies.iter().for_each(|proxy| proxy.set_delay(by));
    }

    /// Sets the round trip to all servers, and to the last one as a multiple of it. If it is zero,
    /// clients that connect afterwards reach the servers directly.
    pub(crate) fn set_distance(&self, round_trip: Duration, times_of_last: u32) {
        self.is_away.store(!round_trip.is_zero(), Ordering::Relaxed);
        self.forwarders.iter().for_each(|forwarder| forwarder.set(round_trip));
        self.forwarders.last().expect("they have forwarders").set(round_trip * times_of_last);
    }

    /// Returns the delay of each piece of the forwarders since the last call, in seconds.
    pub(crate) fn take_lateness(&self) -> Vec<f64> {
        self.forwarders.iter().flat_map(Forwarder::take_lateness).collect()
    }

    /// Waits until all commands are processed and every connection is closed.
    pub(crate) fn settle(&self) {
        for server in &self.running {
            eventually("the server has no other client", || {
                // A closed connection counts until all of its commands were run.
                let info = server.cli(&["INFO", "clients"]).text();
                info.lines().any(|line| line == "connected_clients:1")
            });
        }
    }
}

/// Waits until new sets of servers vote, which takes a while; several wait in parallel.
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
