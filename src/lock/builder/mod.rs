mod bounds;
mod check;

use std::{fmt, ops::RangeInclusive, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};

use self::check::{check_prefix, endpoints};
use super::{
    LockOptions, Overrun, Redlock,
    core::Core,
    quota::RecordBounds,
    settings::LineBounds,
    spawner::{Spawner, ThreadSpawner},
};
use crate::{
    error::BuildError,
    node::{
        ClockJumps, EmbeddedNodes, Node,
        redis::{
            Access, Connector, Credentials, EvictionGuard, Guards, Layout, NodeSet, RedisNode,
            RedisSettings, RestartGuard, SocketConnector, TlsOptions,
        },
    },
    time::{AdjustedClock, Clock, SystemClock, Timers},
};

/// Builds a [`Redlock`]. [`build`](Self::build) checks everything and connects in the background.
#[must_use = "a builder does nothing until it is built"]
pub struct RedlockBuilder {
    urls: Vec<(Option<String>, String)>,
    nodes: Vec<Source>,
    /// Defaults of requests.
    options: LockOptions,
    max_ttl: Option<Duration>,
    node_timeout: Duration,
    drift_factor: f64,
    retry_delay: RangeInclusive<Duration>,
    wakeups: bool,
    owner: Option<String>,
    key_prefix: String,
    fencing: bool,
    credentials: Option<Credentials>,
    tls: Option<TlsOptions>,
    guards: Guards,
    stop_margin: Option<Duration>,
    line: LineBounds,
    records: RecordBounds,
    waiting_body_bytes: usize,
    handoff_limit: u32,
    clock: Arc<dyn Clock>,
    connector: Arc<dyn Connector>,
    spawner: Option<Arc<dyn Spawner>>,
}

impl RedlockBuilder {
    pub(super) fn new() -> Self {
        Self {
            urls: Vec::new(),
            nodes: Vec::new(),
            options: LockOptions::new(),
            max_ttl: None,
            node_timeout: Duration::from_millis(50),
            drift_factor: 0.01,
            retry_delay: Duration::from_millis(5)..=Duration::from_millis(40),
            wakeups: true,
            owner: None,
            key_prefix: "redlock".into(),
            fencing: true,
            credentials: None,
            tls: None,
            guards: Guards::default(),
            stop_margin: None,
            line: LineBounds { per_name: 1_000, total: 10_000 },
            records: RecordBounds::default(),
            waiting_body_bytes: 64 << 20,
            handoff_limit: 20,
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

    /// Adds a node of any kind. Not beside servers with the restart guard, which counts servers
    /// alone.
    pub fn node(mut self, node: impl Node) -> Self {
        self.nodes.push(Source::Node(Arc::new(node)));
        self
    }

    /// Adds all nodes of an embedded set, which other managers of this process may share.
    pub fn nodes_from(mut self, nodes: &EmbeddedNodes) -> Self {
        self.nodes.push(Source::Embedded(nodes.clone()));
        self
    }

    /// Defaults for all requests: sets all that is set in `options`; what was set before and is not
    /// set there stays.
    ///
    /// `stall_limit` and `heartbeat_within` depend on the work, and are set where it is. Here they
    /// are an error of [`build`](Self::build).
    pub fn options(mut self, options: LockOptions) -> Self {
        self.options = options.or(self.options);
        self
    }

    /// See [`LockOptions::ttl`]. Default: 10 s.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.options(LockOptions::new().ttl(ttl))
    }

    /// The longest TTL that a request may ask for. Default: the TTL.
    ///
    /// It is stored on the servers, which take the longest of all their clients: a server that
    /// restarts stays in probation for so long. So keep it short.
    /// [`lower_max_ttl`](crate::Redlock::lower_max_ttl) makes it shorter again.
    pub fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.max_ttl = Some(max_ttl);
        self
    }

    /// See [`LockOptions::wait`]. Default: zero, one attempt.
    pub fn wait(self, wait: Duration) -> Self {
        self.options(LockOptions::new().wait(wait))
    }

    /// See [`LockOptions::max_hold`]. Default: 5 min.
    pub fn max_hold(self, max_hold: Duration) -> Self {
        self.options(LockOptions::new().max_hold(max_hold))
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
    ///
    /// While another process holds the name, and a [wake-up](Self::wakeups) would tell of its
    /// release, the next attempt is made when the holder's TTL is over, or after 1 s or a third of
    /// the TTL, whichever comes first.
    pub fn retry_delay(mut self, range: RangeInclusive<Duration>) -> Self {
        self.retry_delay = range;
        self
    }

    /// Whether a release by another process wakes who waits for the name here. Default: yes.
    ///
    /// While somebody waits for a name that another process holds, and for 3 s more, each server has
    /// one more connection from this manager, by which it tells of the release. That takes leave to
    /// run `SUBSCRIBE`, and for the channels `{key_prefix}:free:*`; the holder's releases take leave
    /// for `PUBLISH` on them and `PUBSUB|NUMSUB`. Without it, and while fewer than a quorum of nodes
    /// would tell, who waits tries again and again, as the [`retry_delay`](Self::retry_delay) says.
    pub fn wakeups(mut self, wakeups: bool) -> Self {
        self.wakeups = wakeups;
        self
    }

    /// See [`LockOptions::max_attempts`]. Default: no limit but the wait.
    pub fn max_attempts(self, attempts: u32) -> Self {
        self.options(LockOptions::new().max_attempts(attempts))
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

    /// How long before the hard stop guarded work is asked to stop, by
    /// [`LockContext::stopping`](crate::LockContext::stopping), where no renewal has worked.
    /// Default: a tenth of the validity. Of a lock with a short TTL it is half the validity at the
    /// most.
    pub fn stop_margin(mut self, margin: Duration) -> Self {
        self.stop_margin = Some(margin);
        self
    }

    /// See [`LockOptions::on_overrun`]. Default: a warning.
    pub fn on_overrun(self, overrun: Overrun) -> Self {
        self.options(LockOptions::new().on_overrun(overrun))
    }

    /// How many requests of this process may wait for one name; the next one is told
    /// [`Held`](crate::LockError::Held) at once, whatever its wait. Default: 1,000.
    pub fn max_waiters(mut self, waiters: usize) -> Self {
        self.line.per_name = waiters;
        self
    }

    /// How many requests of this process may wait, for all names together, those that other
    /// processes hold included; as [`max_waiters`](Self::max_waiters). The first that waits for a name
    /// is told what its first attempt met. Default: 10,000.
    pub fn max_waiters_in_total(mut self, waiters: usize) -> Self {
        self.line.total = waiters;
        self
    }

    /// How often in a row a lock that is given back is handed on to the next task of this process
    /// that waits for it, without a word to the nodes. Default: 20; zero switches it off.
    ///
    /// After that, or when the process has held the lock for 100 ms in a row, it goes back to the
    /// nodes, which tell whether other processes wait. Those get their turn when this process has
    /// known of them for 5 ms: nothing is handed on then, and the next task pauses before it asks.
    ///
    /// A lock goes back as well where the next task wants another set of names or another TTL, less
    /// than half of the validity is left, a server's clock has jumped, or the 256 fencing tokens of a
    /// lease are used up; and [`once`](mod@crate::once) always asks the nodes. To whom it is handed
    /// on, it is a grant like any other: with a greater fencing token and a `max_hold` of its own.
    pub fn handoff_limit(mut self, limit: u32) -> Self {
        self.handoff_limit = limit;
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
        self.check_guarded()?;
        if let Some(Err(reason)) = self.credentials.as_ref().map(Credentials::check) {
            return Err(BuildError::setting("credentials", &*reason));
        }
        let clock = Arc::new(AdjustedClock::new(self.clock));
        let redis = RedisSettings {
            prefix: self.key_prefix.as_str().into(),
            guards: self.guards,
            max_ttl: settings.max_ttl,
            drift_factor: settings.drift_factor,
            node_timeout: settings.node_timeout,
            access: Access {
                credentials: self.credentials,
                connector: self.connector,
                #[cfg(feature = "tls")]
                tls: crate::node::redis::tls_config(self.tls.as_ref(), &endpoints)?,
            },
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
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
        let clock_jumps = Arc::new(ClockJumps::new(count.0 + count.1, Arc::clone(&timers)));
        let mut set = None;
        self::check::tell_of_few_nodes(endpoints.len(), &self.guards);
        if !endpoints.is_empty() {
            let names: Vec<_> = endpoints.iter().map(|at| Arc::clone(&at.name)).collect();
            let layout = Layout::new(&names, &self.key_prefix, &self.guards);
            let shared = NodeSet::new(layout, redis, clock, Arc::clone(&clock_jumps), count);
            // One task for all connections: the requests of an attempt wake it once, not once a
            // node.
            let connections = FuturesUnordered::new();
            let listeners = FuturesUnordered::new();
            for (node, supervisor, listener) in RedisNode::set(endpoints, &shared) {
                connections.push(supervisor.run());
                listeners.push(listener.run());
                nodes.push(Arc::new(node));
            }
            let keeper = Arc::clone(&shared).run();
            spawner.spawn(Box::pin(async move {
                tokio::join!(connections.collect::<()>(), listeners.collect::<()>(), keeper);
            }));
            set = Some(shared);
        }
        Ok(Redlock::new(Core::new(settings, nodes, set, (timers, clock_jumps), spawner)))
    }
}

impl fmt::Debug for RedlockBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // URLs may hold passwords: only how many there are is shown.
        f.debug_struct("RedlockBuilder")
            .field("nodes", &(self.urls.len() + self.nodes.len()))
            .field("options", &self.options)
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
