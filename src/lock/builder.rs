use std::{collections::HashSet, fmt, ops::RangeInclusive, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};

use super::{
    Redlock, Soundness,
    core::Core,
    settings::{MAX_DURATION, Settings},
    spawner::{Spawner, ThreadSpawner},
};
use crate::{
    error::BuildError,
    node::{
        EmbeddedNodes, Node,
        redis::{
            Connector, Credentials, Endpoint, EvictionGuard, Guards, Layout, NodeSet, RedisNode,
            RedisSettings, RestartGuard, SocketConnector, TlsOptions,
        },
    },
    quorum::rules,
    time::{AdjustedClock, Clock, SystemClock, Timers},
};

/// Builds a [`Redlock`]. [`build`](Self::build) checks everything and connects in the background.
#[must_use = "a builder does nothing until it is built"]
pub struct RedlockBuilder {
    urls: Vec<(Option<String>, String)>,
    nodes: Vec<Source>,
    ttl: Duration,
    max_ttl: Option<Duration>,
    wait: Duration,
    max_hold: Duration,
    node_timeout: Duration,
    drift_factor: f64,
    retry_delay: RangeInclusive<Duration>,
    max_attempts: Option<u32>,
    owner: Option<String>,
    key_prefix: String,
    fencing: bool,
    credentials: Option<Credentials>,
    tls: Option<TlsOptions>,
    guards: Guards,
    clock: Arc<dyn Clock>,
    connector: Arc<dyn Connector>,
    spawner: Option<Arc<dyn Spawner>>,
}

impl RedlockBuilder {
    pub(super) fn new() -> Self {
        Self {
            urls: Vec::new(),
            nodes: Vec::new(),
            ttl: Duration::from_secs(10),
            max_ttl: None,
            wait: Duration::ZERO,
            max_hold: Duration::from_secs(5 * 60),
            node_timeout: Duration::from_millis(50),
            drift_factor: 0.01,
            retry_delay: Duration::from_millis(5)..=Duration::from_millis(40),
            max_attempts: None,
            owner: None,
            key_prefix: "redlock".into(),
            fencing: true,
            credentials: None,
            tls: None,
            guards: Guards::default(),
            clock: Arc::new(SystemClock::new()),
            connector: Arc::new(SocketConnector::new()),
            spawner: None,
        }
    }

    /// Adds servers by URL: `redis://`, `rediss://` (TLS, feature `tls`) or `redis+unix://`, with
    /// user, password and database where needed.
    ///
    /// They must be independent of each other: no replicas, no cluster, not the same server twice.
    pub fn nodes<I>(mut self, urls: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.urls.extend(urls.into_iter().map(|url| (None, url.into())));
        self
    }

    /// Adds a server by URL, under a name of its own.
    ///
    /// Without one, a server's name is `host:port/database`. Clients that reach the same servers
    /// by different hosts have to give them the same names: they work together only where all of
    /// them name the same nodes.
    pub fn named_node(mut self, name: impl Into<String>, url: impl Into<String>) -> Self {
        self.urls.push((Some(name.into()), url.into()));
        self
    }

    /// Adds a node of any kind.
    pub fn node(mut self, node: impl Node) -> Self {
        self.nodes.push(Source::Node(Arc::new(node)));
        self
    }

    /// Adds all nodes of an embedded set, which other managers of this process may share.
    pub fn nodes_from(mut self, nodes: &EmbeddedNodes) -> Self {
        self.nodes.push(Source::Embedded(nodes.clone()));
        self
    }

    /// How long the servers keep a key without renewal. Default 10 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// The longest TTL that a request may ask for. Default: the TTL.
    pub fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.max_ttl = Some(max_ttl);
        self
    }

    /// How long a request tries. Default zero: one attempt.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// The longest time that a lock is held, renewals included. Default 5 min.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = max_hold;
        self
    }

    /// How long a node has for an answer. Default 50 ms; never above a tenth of the TTL.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = timeout;
        self
    }

    /// The share of the TTL that is set aside for clocks that run at different rates. Default 0.01;
    /// 2 ms are added.
    pub fn drift_factor(mut self, factor: f64) -> Self {
        self.drift_factor = factor;
        self
    }

    /// The pause between two attempts is drawn from this range. Default 5 to 40 ms.
    pub fn retry_delay(mut self, range: RangeInclusive<Duration>) -> Self {
        self.retry_delay = range;
        self
    }

    /// At most so many attempts for one request. Default: no limit but the wait.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// What people see of who holds a lock: stored with the key, and told in
    /// [`LockError::Held`](crate::LockError::Held). Default: `program@host:pid`.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// What the names of all keys on the servers begin with. Default `redlock`. Managers with
    /// different prefixes don't see each other's locks.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = prefix.into();
        self
    }

    /// Whether leases carry a fencing token. Default: yes.
    pub fn fencing(mut self, fencing: bool) -> Self {
        self.fencing = fencing;
        self
    }

    /// Credentials for all servers whose URL names none.
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// How `rediss://` servers are verified. Default: by the operating system's certificates.
    pub fn tls(mut self, options: TlsOptions) -> Self {
        self.tls = Some(options);
        self
    }

    /// What is done about servers that restart or lose their data. Default: they don't vote until
    /// every lock that they may have forgotten has expired.
    ///
    /// A set of servers that is new as a whole waits `max_ttl` once:
    /// [`Redlock::ready`](crate::Redlock::ready) waits for it, and
    /// [`NodeHealth`](crate::NodeHealth) tells for how long.
    pub fn restart_guard(mut self, guard: RestartGuard) -> Self {
        self.guards.restart = guard;
        self
    }

    /// For fleets whose wall clocks, those of servers and clients, differ pairwise by at most
    /// `within`: a server grants only while its clock is within that of the client's, keys outlive
    /// a server's clock that jumps forward, and validity shrinks by three times `within` and ends
    /// by the wall clock as well.
    ///
    /// Default: off. A jump of a server's clock is then noticed by its answers, within a second;
    /// one that was taken back between two answers is not. `within` has to leave room for the way
    /// of a message: 100 ms and more.
    ///
    /// A crashed holder's key stays on the servers for a day under this guard, although its lease
    /// is over after the TTL. It needs Redis 7.0 or Valkey 7.2, and leave to
    /// run `PEXPIREAT` and `PEXPIRETIME` there.
    pub fn clock_guard(mut self, within: Duration) -> Self {
        self.guards.clock = Some(within);
        self
    }

    /// What is done about servers that may evict keys. Default: a warning.
    pub fn eviction_guard(mut self, guard: EvictionGuard) -> Self {
        self.guards.eviction = guard;
        self
    }

    /// Where time is read. Default: the system's clock.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// How streams to servers are opened. Default: the system's sockets.
    pub fn connector(mut self, connector: impl Connector) -> Self {
        self.connector = Arc::new(connector);
        self
    }

    /// What runs connections and timers. Default: a thread.
    pub fn spawner(mut self, spawner: impl Spawner) -> Self {
        self.spawner = Some(Arc::new(spawner));
        self
    }

    /// Checks the settings, and starts to connect in the background. Servers that are down don't
    /// fail it: they are connected when they come up.
    ///
    /// # Errors
    ///
    /// [`BuildError`] says which setting is wrong, and why.
    pub fn build(self) -> Result<Redlock, BuildError> {
        let settings = self.settings()?;
        let endpoints = endpoints(&self.urls)?;
        if endpoints.is_empty() && self.nodes.iter().all(Source::is_empty) {
            return Err(BuildError::NoNodes);
        }
        check_prefix(&self.key_prefix)?;
        self.check_embedded()?;
        let clock = Arc::new(AdjustedClock::new(self.clock));
        let redis = RedisSettings {
            prefix: self.key_prefix.as_str().into(),
            guards: self.guards,
            max_ttl: settings.max_ttl,
            drift_factor: settings.drift_factor,
            node_timeout: settings.node_timeout,
            credentials: self.credentials,
            connector: self.connector,
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            #[cfg(feature = "tls")]
            tls: crate::node::redis::tls_config(self.tls.as_ref(), &endpoints)?,
        };
        #[cfg(not(feature = "tls"))]
        if self.tls.is_some() {
            let reason = "enable the feature `tls` of tower-redlock to use TLS options".into();
            return Err(BuildError::Tls { reason });
        }
        let system = |error| BuildError::System(Arc::new(error));
        let spawner = match self.spawner {
            Some(spawner) => spawner,
            None => Arc::new(ThreadSpawner::start().map_err(system)?),
        };
        let mut nodes: Vec<Arc<dyn Node>> = Vec::new();
        for source in self.nodes {
            match source {
                Source::Node(node) => nodes.push(node),
                Source::Embedded(set) => nodes.extend(set.nodes(&self.key_prefix)),
            }
        }
        let count = (nodes.len(), endpoints.len());
        let timers = Arc::new(Timers::new(Arc::clone(&clock) as Arc<dyn Clock>));
        let soundness = Arc::new(Soundness::new(count.0 + count.1, Arc::clone(&timers)));
        let mut set = None;
        if !endpoints.is_empty() {
            let names: Vec<_> = endpoints.iter().map(|at| Arc::clone(&at.name)).collect();
            let layout = Layout::new(&names, &self.key_prefix, &self.guards);
            let shared = NodeSet::new(layout, redis, clock, Arc::clone(&soundness), count);
            // One task for all connections: the requests of an attempt wake it once, not once a
            // node.
            let connections = FuturesUnordered::new();
            for (node, supervisor) in RedisNode::set(endpoints, &shared) {
                connections.push(supervisor.run());
                nodes.push(Arc::new(node));
            }
            let keeper = Arc::clone(&shared).run();
            spawner.spawn(Box::pin(async move {
                tokio::join!(connections.collect::<()>(), keeper);
            }));
            set = Some(shared);
        }
        Ok(Redlock::new(Core::new(settings, nodes, set, (timers, soundness), spawner)))
    }

    /// Embedded nodes forget with the process what servers keep, and one set is one set of voters.
    fn check_embedded(&self) -> Result<(), BuildError> {
        let mut sets = self.nodes.iter().filter(|source| matches!(source, Source::Embedded(_)));
        let (first, second) = (sets.next(), sets.next());
        if first.is_some() && (second.is_some() || !self.urls.is_empty()) {
            let reason = "an embedded set is used alone: not twice, and not beside servers";
            return Err(BuildError::setting("nodes", reason));
        }
        Ok(())
    }

    fn check_clock_guard(&self, drift: Duration) -> Result<(), BuildError> {
        let Some(within) = self.guards.clock else { return Ok(()) };
        let margin = rules::margin(Some(within));
        if within.is_zero() || drift.saturating_add(margin) >= self.ttl {
            let reason = format!(
                "the TTL of {:?} has to be longer than three times {within:?}, which must not be zero, and the drift of {drift:?}",
                self.ttl
            );
            return Err(BuildError::setting("clock_guard", reason));
        }
        Ok(())
    }

    fn settings(&self) -> Result<Settings, BuildError> {
        let setting = |name, reason: String| BuildError::setting(name, reason);
        if !(0.0..1.0).contains(&self.drift_factor) {
            let reason = format!("{} is not between 0 and 1", self.drift_factor);
            return Err(setting("drift_factor", reason));
        }
        let max_ttl = self.max_ttl.unwrap_or(self.ttl);
        let durations = [
            ("ttl", self.ttl),
            ("max_ttl", max_ttl),
            ("max_hold", self.max_hold),
            ("node_timeout", self.node_timeout),
        ];
        if let Some((name, _)) = durations.iter().find(|(_, value)| value.is_zero()) {
            return Err(setting(name, "it is zero".into()));
        }
        let waits = [("wait", self.wait), ("retry_delay", *self.retry_delay.end())];
        let too_long = durations.iter().chain(&waits).find(|(_, value)| *value > MAX_DURATION);
        if let Some((name, value)) = too_long {
            return Err(setting(name, format!("{value:?} is longer than {MAX_DURATION:?}")));
        }
        if max_ttl < self.ttl {
            let reason = format!("{max_ttl:?} is less than the TTL of {:?}", self.ttl);
            return Err(setting("max_ttl", reason));
        }
        let drift = rules::drift(self.ttl, self.drift_factor);
        if drift >= self.ttl {
            return Err(BuildError::TtlUnderDrift { ttl: self.ttl, drift });
        }
        self.check_clock_guard(drift)?;
        if self.retry_delay.is_empty() {
            return Err(setting("retry_delay", "the range is empty".into()));
        }
        if self.max_attempts == Some(0) {
            return Err(setting("max_attempts", "it is zero".into()));
        }
        Ok(Settings {
            ttl: self.ttl,
            max_ttl,
            wait: self.wait,
            max_hold: self.max_hold,
            node_timeout: self.node_timeout,
            drift_factor: self.drift_factor,
            clock_guard: self.guards.clock,
            retry_delay: self.retry_delay.clone(),
            max_attempts: self.max_attempts,
            owner: owner(self.owner.as_deref())?,
            fencing: self.fencing,
        })
    }
}

impl fmt::Debug for RedlockBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // URLs may hold passwords: only how many there are is shown.
        f.debug_struct("RedlockBuilder")
            .field("nodes", &(self.urls.len() + self.nodes.len()))
            .field("ttl", &self.ttl)
            .field("wait", &self.wait)
            .field("node_timeout", &self.node_timeout)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

/// Where nodes come from that are not servers.
enum Source {
    Node(Arc<dyn Node>),
    Embedded(EmbeddedNodes),
}

impl Source {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Embedded(set) if set.is_empty())
    }
}

const MAX_OWNER_BYTES: usize = 128;
const MAX_PREFIX_BYTES: usize = 64;

fn owner(given: Option<&str>) -> Result<Arc<str>, BuildError> {
    let Some(owner) = given else { return Ok(default_owner().into()) };
    if owner.is_empty() || owner.len() > MAX_OWNER_BYTES || owner.chars().any(char::is_control) {
        let reason = format!("it must have 1 to {MAX_OWNER_BYTES} bytes and no control characters");
        return Err(BuildError::setting("owner", reason));
    }
    Ok(owner.into())
}

/// `program@host:pid`, of what the system tells.
fn default_owner() -> String {
    let program = std::env::current_exe()
        .ok()
        .and_then(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .unwrap_or_else(|| "unknown".into());
    #[cfg(unix)]
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    let host = std::env::var("COMPUTERNAME").unwrap_or_else(|_| "unknown".into());
    let clean = |text: String, most: usize| -> String {
        text.chars().filter(|c| !c.is_control()).take(most).collect()
    };
    format!("{}@{}:{}", clean(program, 24), clean(host, 64), std::process::id())
}

fn check_name(name: &str) -> Result<(), BuildError> {
    if name.is_empty() || name.len() > MAX_OWNER_BYTES || name.chars().any(char::is_control) {
        let reason =
            format!("a name must have 1 to {MAX_OWNER_BYTES} bytes and no control characters");
        return Err(BuildError::setting("nodes", reason));
    }
    Ok(())
}

fn check_prefix(prefix: &str) -> Result<(), BuildError> {
    if prefix.is_empty() || prefix.len() > MAX_PREFIX_BYTES || prefix.chars().any(char::is_control)
    {
        let reason =
            format!("it must have 1 to {MAX_PREFIX_BYTES} bytes and no control characters");
        return Err(BuildError::setting("key_prefix", reason));
    }
    // `a` and `a:lock:b` would share keys: a name may contain anything.
    if format!("{prefix}:").contains(":lock:") {
        let reason = "it must not have a part `:lock`, which stands between prefix and name";
        return Err(BuildError::setting("key_prefix", reason));
    }
    Ok(())
}

fn endpoints(urls: &[(Option<String>, String)]) -> Result<Vec<Endpoint>, BuildError> {
    let (mut seen, mut names) = (HashSet::new(), HashSet::new());
    let mut endpoints = Vec::with_capacity(urls.len());
    for (name, url) in urls {
        let mut endpoint = Endpoint::parse(url)?;
        // Another database is the same server.
        if !seen.insert(endpoint.address.clone()) {
            return Err(BuildError::DuplicateNode { node: endpoint.address.to_string() });
        }
        if let Some(name) = name {
            check_name(name)?;
            endpoint.name = name.as_str().into();
        }
        if !names.insert(Arc::clone(&endpoint.name)) {
            return Err(BuildError::DuplicateNode { node: endpoint.name.to_string() });
        }
        endpoints.push(endpoint);
    }
    Ok(endpoints)
}
