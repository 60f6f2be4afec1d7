//! The settings of a manager.

use std::{fmt, ops::RangeInclusive, sync::Arc, time::Duration};

use super::{
    LockOptions, Overrun, option_setters, quota::RecordBounds, settings::LineBounds,
    spawner::Spawner,
};
use crate::{
    node::{
        EmbeddedNodes, Node,
        redis::{
            AccessOptions, Connector, Credentials, EvictionGuard, Guards, NodeAddress,
            RestartGuard, TlsOptions,
        },
    },
    time::{Clock, SystemClock},
};

/// Builds a [`Redlock`](crate::Redlock). [`build`](Self::build) checks everything and connects in
/// the background.
#[must_use = "a builder does nothing until it is built"]
pub struct RedlockBuilder {
    pub(super) servers: Vec<(Option<String>, NodeAddress)>,
    pub(super) nodes: Vec<NodeSource>,
    /// Defaults of requests.
    pub(super) options: LockOptions,
    pub(super) max_ttl: Option<Duration>,
    pub(super) node_timeout: Duration,
    pub(super) drift_factor: f64,
    pub(super) retry_delay: RangeInclusive<Duration>,
    pub(super) wakeups: bool,
    pub(super) owner: Option<String>,
    pub(super) key_prefix: String,
    pub(super) fencing: bool,
    pub(super) access: AccessOptions,
    pub(super) guards: Guards,
    pub(super) stop_margin: Option<Duration>,
    pub(super) line: LineBounds,
    pub(super) records: RecordBounds,
    pub(super) waiting_body_bytes: usize,
    pub(super) handoff_limit: u32,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) spawner: Option<Arc<dyn Spawner>>,
}

/// Nodes that are not servers.
pub(super) enum NodeSource {
    Node(Arc<dyn Node>),
    Embedded(EmbeddedNodes),
}

/// # Servers
impl RedlockBuilder {
    pub(super) fn new() -> Self {
        Self {
            servers: Vec::new(),
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
            access: AccessOptions::default(),
            guards: Guards::default(),
            stop_margin: None,
            line: LineBounds { per_name: 1_000, total: 10_000 },
            records: RecordBounds::default(),
            waiting_body_bytes: 64 << 20,
            handoff_limit: 20,
            clock: Arc::new(SystemClock::new()),
            spawner: None,
        }
    }

    /// Adds servers by URL: `redis://`, `rediss://` (TLS, feature `tls`) or `redis+unix://`, with
    /// user, password and database where needed.
    ///
    /// `redis+sentinel://host,host/service` and `redis+cluster://host,host` (and with `rediss+`)
    /// are nodes whose server is the one that Sentinels or a Cluster currently report: see
    /// [docs/failovers.md](https://github.com/tower-redlock/tower-redlock/blob/main/docs/failovers.md#sentinel-and-cluster).
    ///
    /// With the feature `redis-1`, a `redis::ConnectionInfo` or a `redis::Client` is accepted in place of
    /// a URL. A live connection is not: [`NodeAddress`] says why.
    ///
    /// They must be independent of each other: no replicas, no two nodes in one cluster, no server
    /// twice.
    pub fn nodes<I>(mut self, addresses: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<NodeAddress>,
    {
        self.servers.extend(addresses.into_iter().map(|address| (None, address.into())));
        self
    }

    /// Adds a server by URL or [`NodeAddress`], under a name of its own. Default name:
    /// `host:port/database`.
    ///
    /// Clients that reach the same servers under different hosts have to give them the same names:
    /// only clients with the same names share locks. A name belongs to a server, not to a place in
    /// a list: if clients give the names of a set to other servers while former clients still run,
    /// both may hold a lock.
    pub fn named_node(mut self, name: impl Into<String>, address: impl Into<NodeAddress>) -> Self {
        self.servers.push((Some(name.into()), address.into()));
        self
    }

    /// Adds a node of any kind. Not allowed beside servers with the restart guard, which counts
    /// servers only.
    pub fn node(mut self, node: impl Node) -> Self {
        self.nodes.push(NodeSource::Node(Arc::new(node)));
        self
    }

    /// Adds all nodes of an embedded set, which other managers of this process may share.
    pub fn nodes_from(mut self, nodes: &EmbeddedNodes) -> Self {
        self.nodes.push(NodeSource::Embedded(nodes.clone()));
        self
    }

    /// Credentials for all servers whose URL has none. For those that end, such as cloud identity
    /// tokens: [`Credentials::callback`].
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.access.credentials = Some(credentials);
        self
    }

    /// Sets how `rediss://` servers are verified. Default: by the operating system's certificates.
    pub fn tls(mut self, options: TlsOptions) -> Self {
        self.access.tls = Some(options);
        self
    }
}

/// # Defaults of requests
impl RedlockBuilder {
    /// Sets defaults of all requests: each option that is set in `options`. The others keep their
    /// values.
    ///
    /// `stall_limit` and `heartbeat_within` depend on the work. Setting them here is an error of
    /// [`build`](Self::build).
    pub fn options(mut self, options: LockOptions) -> Self {
        self.options = options.or(self.options);
        self
    }

    /// See [`LockOptions::ttl`]. Default: 10 s.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.options(LockOptions::new().ttl(ttl))
    }

    /// Maximum TTL of a request. Default: the TTL.
    ///
    /// The servers store the maximum over all their clients, and a restarted server stays in
    /// probation for that time. So keep it short.
    /// [`lower_max_ttl`](crate::Redlock::lower_max_ttl) lowers it.
    pub fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.max_ttl = Some(max_ttl);
        self
    }

    option_setters! {
        /// See [`LockOptions::wait`]. Default: zero, one attempt.
        pub fn wait(self, wait: Duration) -> Self;

        /// See [`LockOptions::wait_without_quorum`]. Default: requests of layers do not, others do.
        pub fn wait_without_quorum(self, wait: bool) -> Self;

        /// See [`LockOptions::max_hold`]. Default: 5 min.
        pub fn max_hold(self, max_hold: Duration) -> Self;

        /// See [`LockOptions::linger`]. Default: zero, locks go back to the servers at once.
        pub fn linger(self, linger: Duration) -> Self;

        /// See [`LockOptions::max_attempts`]. Default: no limit but the wait.
        pub fn max_attempts(self, attempts: u32) -> Self;

        /// See [`LockOptions::overrun`]. Default: a warning.
        pub fn overrun(self, overrun: Overrun) -> Self;
    }
}

/// # Locks
impl RedlockBuilder {
    /// Name of the holder for people: stored with the key, and shown in
    /// [`LockError::Held`](crate::LockError::Held). Default: `program@host:pid`.
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Prefix of all keys on the servers. Default `redlock`. Managers with different prefixes do
    /// not share locks.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = prefix.into();
        self
    }

    /// Sets whether leases have a fencing token. Default: yes.
    pub fn fencing(mut self, fencing: bool) -> Self {
        self.fencing = fencing;
        self
    }

    /// Time before the hard stop at which guarded work has to stop, if no renewal succeeded; see
    /// [`LockContext::stopping`](crate::LockContext::stopping). Default: a tenth of the validity, and
    /// at most half of it.
    pub fn stop_margin(mut self, margin: Duration) -> Self {
        self.stop_margin = Some(margin);
        self
    }
}

/// # Guards
impl RedlockBuilder {
    /// Sets how servers that restart or lose their data are handled. Default: they do not vote
    /// until every lock that they may have forgotten has expired.
    ///
    /// A set of servers that is new as a whole waits `max_ttl` once:
    /// [`Redlock::ready`](crate::Redlock::ready) waits for it, and
    /// [`NodeHealth`](crate::node::NodeHealth) has the remaining time.
    pub fn restart_guard(mut self, guard: RestartGuard) -> Self {
        self.guards.restart = guard;
        self
    }

    /// Takes the servers as new if none of them has a record of a vote: they vote at once, in place of
    /// waiting for `max_ttl`. **For tests** that start fresh servers. Default: they wait.
    ///
    /// A server that lost all its data looks like a new one. Where locks may be held, two holders are
    /// possible. So this is reported at WARN, and refused, with the usual wait, if any server of the set
    /// has ever voted, as far as it remembers, belonged to another set, or can't be reached. It makes
    /// no difference with [`RestartGuard::Off`].
    pub fn assume_new_servers(mut self) -> Self {
        self.guards.assumes_new_servers = true;
        self
    }

    /// Says that a set of one or two servers is intended. Default: such a set is reported at WARN by
    /// [`build`](Self::build). It has all other guards in both cases.
    pub fn accept_few_servers(mut self) -> Self {
        self.guards.accepts_few_servers = true;
        self
    }

    /// Sets how servers that may evict keys are handled. Default: a warning.
    pub fn eviction_guard(mut self, guard: EvictionGuard) -> Self {
        self.guards.eviction = guard;
        self
    }
}

/// # Time between this process and the servers
impl RedlockBuilder {
    /// Timeout for an answer of a node. Default 50 ms, and at most a tenth of the TTL.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = timeout;
        self
    }

    /// Share of the TTL that is subtracted for clocks that run at different rates or are stepped, over
    /// servers at least this share of 3 s. Default 0.01; 2 ms are added. All clients need the same
    /// factor.
    pub fn drift_factor(mut self, factor: f64) -> Self {
        self.drift_factor = factor;
        self
    }

    /// Range of the random pause between two attempts. Default 5 to 40 ms.
    ///
    /// While another process holds the name, and the nodes would report its release (see
    /// [`wakeups`](Self::wakeups)), the next attempt follows when the holder's TTL is over, or after
    /// 1 s or a third of the TTL, whichever comes first.
    pub fn retry_delay(mut self, range: RangeInclusive<Duration>) -> Self {
        self.retry_delay = range;
        self
    }

    /// Sets whether a release by another process wakes requests that wait for the name. Default:
    /// yes.
    ///
    /// While requests wait for names that other processes hold, and for 3 s more, each server has
    /// one more connection from this manager, over which it reports releases. The waiting process
    /// needs permission for `SUBSCRIBE` on the channels `{key_prefix}:free:*`, the holder for
    /// `PUBLISH` on them and for `PUBSUB|NUMSUB`. Without them, and while fewer than a quorum of
    /// nodes would report, requests retry at [`retry_delay`](Self::retry_delay).
    pub fn wakeups(mut self, wakeups: bool) -> Self {
        self.wakeups = wakeups;
        self
    }
}

/// # Limits
impl RedlockBuilder {
    /// Maximum number of requests of this process that wait for one name. Further ones fail with
    /// [`Held`](crate::LockError::Held) at once, whatever their wait. Default: 1,000.
    pub fn max_waiters(mut self, waiters: usize) -> Self {
        self.line.per_name = waiters;
        self
    }

    /// As [`max_waiters`](Self::max_waiters), for all names together, including those that other
    /// processes hold. The first request for a name fails with the error of its first attempt.
    /// Default: 10,000.
    pub fn max_waiters_in_total(mut self, waiters: usize) -> Self {
        self.line.total = waiters;
        self
    }

    /// Maximum number of consecutive hand-offs of a released lock to the next waiting task of this
    /// process, without a message to the nodes. Default: 20; zero disables hand-offs.
    ///
    /// After that, or when the process has held the lock for 100 ms in a row, it returns to the
    /// nodes, which report whether other processes wait. Neither applies to a lock that may
    /// [linger](LockOptions::linger), until another process asks for it. Once this process has
    /// known of them for 5 ms, it hands nothing on, and its next task pauses before its attempt.
    ///
    /// A lock also returns to the nodes if the next task wants another set of names or another TTL,
    /// less than half of the validity is left, a server's clock has jumped, or the 256 fencing
    /// tokens of a lease (up to 4,096 if it may linger) are used up; and
    /// [`once`](mod@crate::once) always asks the nodes. A hand-off is a grant like any other: with a
    /// greater fencing token, and its own `max_hold`.
    pub fn handoff_limit(mut self, limit: u32) -> Self {
        self.handoff_limit = limit;
        self
    }

    /// Maximum number of bytes of requests' bodies in memory, over all layers of this manager that
    /// read bodies before they acquire a lock
    /// ([`OnceLayer::by_body`](crate::OnceLayer::by_body),
    /// [`OnceLayer::idempotency`](crate::OnceLayer::idempotency),
    /// [`RedlockLayer::read_body_first`](crate::RedlockLayer::read_body_first)). Above zero. Default:
    /// 64 MiB.
    ///
    /// A body counts from its first byte until the handler reads it or drops it, also while its
    /// request waits. A request that exceeds the limit is refused with 503, `too-many-bodies`, and
    /// `Retry-After`: before its body is read if its length is known, else when it exceeds the
    /// limit. A WARN, at most one a minute, has their number. A single body is accepted up to its
    /// layer's own limit.
    pub fn max_waiting_body_bytes(mut self, bytes: usize) -> Self {
        self.waiting_body_bytes = bytes;
        self
    }

    /// Maximum number of records of work that is done [once](mod@crate::once), at a time. Above
    /// zero. Default: 4 million, and at most what takes half of the servers' `maxmemory` without
    /// answers. A record takes about 224 bytes, its name and the owner.
    ///
    /// Beyond it, new work fails before it runs with
    /// [`LockError::TooManyRecords`](crate::LockError::TooManyRecords); finished work is still
    /// found. A record counts until its `retain` is over, by up to a 32nd of that longer, even if
    /// it is forgotten earlier. Other managers, and this one before a restart, count separately:
    /// leave room for them.
    pub fn max_records(mut self, records: usize) -> Self {
        self.records.records = Some(records as u64);
        self
    }

    /// Maximum number of bytes of each server's memory for the answers stored with this manager's
    /// records, counted as for [`max_records`](Self::max_records). Default: 64 MiB, and at most a
    /// quarter of the servers' `maxmemory`. With zero, no answers are stored.
    ///
    /// A request beyond it runs, and is recorded without its answer: repetitions get 409,
    /// `response-not-kept`, behind [`OnceLayer::idempotency`](crate::OnceLayer::idempotency). A
    /// WARN, at most one a minute, has their number. Independently, an answer above 1 KiB is stored
    /// only while a quarter of the `maxmemory` of a quorum of servers is free, so that answers
    /// leave room for locks. This is checked once a second while the manager is in use; between
    /// two checks, answers take at most an eighth of the room above that.
    pub fn max_stored_response_bytes(mut self, bytes: usize) -> Self {
        self.records.response_bytes = Some(bytes as u64);
        self
    }
}

/// # Environment
impl RedlockBuilder {
    /// Sets the clock. Default: the system's.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = clock.into_kept();
        self
    }

    /// Sets how streams to servers are opened. Default: the system's sockets.
    pub fn connector(mut self, connector: impl Connector) -> Self {
        self.access.connector = Arc::new(connector);
        self
    }

    /// Sets what runs connections and timers. Default: a thread of its own
    /// ([`ThreadSpawner`](crate::lock::ThreadSpawner));
    /// [`RuntimeSpawner`](crate::lock::RuntimeSpawner) is the application's runtime, and says what that costs.
    pub fn spawner(mut self, spawner: impl Spawner) -> Self {
        self.spawner = Some(Arc::new(spawner));
        self
    }
}

impl fmt::Debug for RedlockBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the URLs: they may contain passwords.
        f.debug_struct("RedlockBuilder")
            .field("nodes", &(self.servers.len() + self.nodes.len()))
            .field("options", &self.options)
            .field("node_timeout", &self.node_timeout)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}
