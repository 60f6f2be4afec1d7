//! The health of a node.

use std::{fmt, sync::Arc, time::Duration};

use crate::error::Reason;

/// The health of one node, as last seen from this process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeHealth {
    /// The node's name: `host:port/db`, or a given name.
    pub name: Arc<str>,
    /// Address of the server, now or when it was last connected: `host:port`, or the path of a
    /// socket. Changes with each failover of a node that is located by Sentinels or a Cluster.
    pub address: Option<Arc<str>>,
    /// Whether the node votes.
    pub state: NodeState,
    /// The latest round trip, if one was measured.
    pub round_trip: Option<Duration>,
    /// The kind of the server, as far as the server reports it.
    pub kind: Option<ServerKind>,
    /// The version that the server reports.
    pub version: Option<Arc<str>>,
    /// Identifies the run of the server process.
    pub run_id: Option<Arc<str>>,
    /// Identifies the run and the history of the data. Changes when the server may have forgotten data.
    pub incarnation: Option<Arc<str>>,
    /// The server's wall clock, compared with the local one.
    pub clock: Option<ClockOffset>,
    /// The server's memory limit and eviction policy.
    pub memory: Option<Memory>,
    /// What the server persists across a restart.
    pub persistence: Option<Persistence>,
    /// The longest TTL that the node grants.
    pub max_ttl: Option<Duration>,
    /// Commands that the server is known to deny to this client's user, of those listed under
    /// "Permissions" in docs/security.md. They are named as in ACL rules, in alphabetical order. The
    /// list has the commands that the latest [diagnosis](crate::Redlock::diagnosis) found to be
    /// denied; those that the server named when it refused the connection or an operation, until an
    /// operation of the same kind succeeds; and `subscribe` and `unsubscribe`, which are sent when
    /// a request waits for another process.
    pub denied: Arc<[Arc<str>]>,
    /// Progress of copying records of finished work to the node, which lost its own; `None` if
    /// nothing is copied.
    pub copying: Option<CopyProgress>,
    /// Number of operations that wait for an answer of this node.
    pub in_flight: usize,
    /// Maximum time for which an operation waited in this process before it was written to the node,
    /// within about the last second. Zero while there is no connection.
    pub queue_delay: Duration,
    /// Number of releases, and of other ends, that the node has not acknowledged. Each is sent again until
    /// it is acknowledged, or no client can depend on it any more.
    pub unacknowledged: usize,
    /// Problems that an operator should know and that do not affect the node's votes at present.
    pub findings: Vec<Finding>,
}

impl NodeHealth {
    /// Creates the health of a node that votes, without any other information.
    pub fn voting(name: &str) -> Self {
        Self {
            name: name.into(),
            address: None,
            state: NodeState::Voting,
            round_trip: None,
            kind: None,
            version: None,
            run_id: None,
            incarnation: None,
            clock: None,
            memory: None,
            persistence: None,
            max_ttl: None,
            denied: Arc::default(),
            copying: None,
            in_flight: 0,
            queue_delay: Duration::ZERO,
            unacknowledged: 0,
            findings: Vec::new(),
        }
    }

    /// Returns whether the node's votes count at present.
    pub fn is_voting(&self) -> bool {
        self.state == NodeState::Voting
    }

    /// Returns the server's role; `None` while the server is down or connecting.
    pub fn role(&self) -> Option<Role> {
        match self.state {
            NodeState::Down { reason: Reason::ReadOnly, .. } => Some(Role::Replica),
            NodeState::Down { .. } | NodeState::Connecting => None,
            NodeState::Voting | NodeState::Probation { .. } | NodeState::Refusing { .. } => {
                Some(Role::Master)
            }
        }
    }
}

/// The replication role of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// The server accepts writes, and may vote.
    Master,
    /// The server replicates another one and never votes.
    Replica,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Master => "master",
            Self::Replica => "replica",
        })
    }
}

/// The difference between a server's wall clock and the local one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockOffset {
    /// Microseconds by which the server's clock is ahead; negative if it is behind.
    pub ahead_micros: i64,
    /// Maximum error: half a round trip.
    pub uncertainty: Duration,
}

impl ClockOffset {
    pub(crate) const fn new(ahead_micros: i64, uncertainty: Duration) -> Self {
        Self { ahead_micros, uncertainty }
    }
}

/// The kind of a server, as reported by INFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerKind {
    /// Redis, or a service that reports itself as Redis.
    Redis,
    /// Valkey.
    Valkey,
    /// `KeyDB`, a fork of Redis.
    KeyDb,
    /// Dragonfly.
    Dragonfly,
    /// Garnet.
    Garnet,
    /// The server reports no version.
    Other,
}

impl fmt::Display for ServerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Redis => "Redis",
            Self::Valkey => "Valkey",
            Self::KeyDb => "KeyDB",
            Self::Dragonfly => "Dragonfly",
            Self::Garnet => "Garnet",
            Self::Other => "unknown server",
        })
    }
}

/// A problem of a node, or of this process as measured by its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// This process's wall clock differs by more than 60 s from the wall clocks of a quorum of
    /// servers. Reported for each of its nodes.
    ///
    /// Locks and fencing tokens don't depend on it; dates and schedules do.
    OwnClock {
        /// Microseconds by which it is ahead; negative if it is behind.
        ahead_micros: i64,
    },
    /// The server's wall clock differs by more than 60 s from the wall clocks of a quorum of
    /// servers. If it is behind, the server refuses their fencing tokens. If it is ahead, only its
    /// own votes are affected.
    ServerClock {
        /// Microseconds by which it is ahead; negative if it is behind.
        ahead_micros: i64,
    },
    /// The server reports no run id. Two names of one server would vote twice, undetected.
    NoRunId,
    /// Connections to the server break repeatedly: at least three did within the last minute. The
    /// server votes while it is connected.
    UnstableConnection {
        /// Number of connections that broke within the last minute, at most 100.
        broken: usize,
        /// Why the latest one broke.
        reason: Reason,
    },
    /// The connection by which the server reports releases to waiters breaks repeatedly while the
    /// server is up. Waiters for a lock of another process retry at intervals instead.
    UnstableWakeUps {
        /// Number of connections that broke, or were not opened, within the last minute; at most 100.
        broken: usize,
        /// Why the latest one broke.
        reason: Reason,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whose, micros) = match self {
            Self::OwnClock { ahead_micros } => ("this process's", ahead_micros),
            Self::ServerClock { ahead_micros } => ("its", ahead_micros),
            Self::NoRunId => {
                return f.write_str(
                    "it reports no run id, so two names of one server would not be detected",
                );
            }
            Self::UnstableConnection { broken, reason } => {
                return write!(f, "its connection broke {broken} times within a minute: {reason}");
            }
            Self::UnstableWakeUps { broken, reason } => {
                return write!(
                    f,
                    "its connection for wake-ups broke {broken} times within a minute: {reason}"
                );
            }
        };
        let off = Duration::from_micros(micros.unsigned_abs());
        let way = if *micros < 0 { "behind" } else { "ahead of" };
        write!(f, "{whose} wall clock is {off:.1?} {way} the clocks of a quorum of servers")
    }
}

/// A server's memory limit and eviction policy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    /// `maxmemory` in bytes; zero means no limit.
    pub limit: u64,
    /// `maxmemory-policy`.
    pub policy: Arc<str>,
    /// Memory in use, in bytes (`used_memory`), read at each health check.
    pub used: u64,
    /// Memory in use that does not count towards the limit, in bytes.
    pub(crate) uncounted: u64,
}

impl Memory {
    pub(crate) const fn new(limit: u64, policy: Arc<str>, used: u64) -> Self {
        Self { limit, policy, used, uncounted: 0 }
    }

    /// Returns whether both servers have the same limit and policy.
    pub(crate) fn is_set_as(&self, other: &Self) -> bool {
        self.limit == other.limit && self.policy == other.policy
    }

    /// Returns whether the server has reached its limit.
    pub(crate) fn is_full(&self) -> bool {
        self.limit > 0 && self.used.saturating_sub(self.uncounted) > self.limit
    }

    /// Returns whether the server may delete locks to free memory.
    pub fn evicts(&self) -> bool {
        self.limit > 0 && &*self.policy != "noeviction"
    }
}

/// The persistence of a server's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Persistence {
    /// Whether the append-only file is enabled.
    pub aof: bool,
    /// Whether snapshots are enabled; `None` if the server does not report it.
    pub snapshots: Option<bool>,
}

impl Persistence {
    pub(crate) const fn new(aof: bool, snapshots: Option<bool>) -> Self {
        Self { aof, snapshots }
    }
}

/// The progress of copying records to a node.
///
/// The node votes meanwhile, but does not confirm that a key has no record. One client at a time
/// copies, over separate connections and at most 10 MB a second. The other clients see its progress
/// within 2 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyProgress {
    /// Number of records that the copying client has stored on the node.
    pub records: u64,
    /// Total size of these records in bytes, keys included.
    pub bytes: u64,
    /// Time for which this process has seen the copying.
    pub since: Duration,
}

impl CopyProgress {
    pub(crate) const fn new(records: u64, bytes: u64, since: Duration) -> Self {
        Self { records, bytes, since }
    }
}

/// Whether a node votes, and why it does not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeState {
    /// Connected; the latest votes, if any, counted.
    Voting,
    /// The first connection is being opened; operations wait for it.
    Connecting,
    /// Connected; does not vote until all locks that the node may have forgotten have expired.
    Probation {
        /// Remaining time, by the local clock; zero while the node waits for other nodes.
        remaining: Duration,
        /// Time since the probation began.
        since: Duration,
        /// The failure of the latest attempt to end the probation; `None` before the first one.
        blocked: Option<Blocked>,
    },
    /// Connected, but the node refused a vote. Requests are still sent to it. The state ends with
    /// the next vote that counts, with a health check that shows that the cause has ended, or 1 s
    /// after the latest refusal, unless the server is full. Renewals may still succeed.
    Refusing {
        /// The latest reason.
        reason: Reason,
        /// Time since the first refusal.
        since: Duration,
    },
    /// Not usable at present; operations fail at once.
    Down {
        /// The failure of the latest attempt to connect.
        reason: Reason,
        /// Time since the node went down.
        since: Duration,
    },
}

/// The reason why a node's probation can't end yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blocked {
    /// The node that answered: this node, or another one that has to report its state first.
    pub asked: Arc<str>,
    /// Its answer.
    pub reason: Reason,
}

impl Blocked {
    pub(crate) const fn new(asked: Arc<str>, reason: Reason) -> Self {
        Self { asked, reason }
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.asked, self.reason)
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Voting => f.write_str("voting"),
            Self::Connecting => f.write_str("connecting"),
            Self::Probation { blocked: Some(blocked), .. } => {
                write!(f, "in probation, which can't end yet: {blocked}")
            }
            Self::Probation { remaining, .. } if remaining.is_zero() => {
                f.write_str("in probation until enough other nodes vote")
            }
            Self::Probation { remaining, .. } => {
                write!(f, "in probation for another {remaining:.1?}")
            }
            Self::Refusing { reason, since } => write!(f, "refusing for {since:.1?}: {reason}"),
            Self::Down { reason, since } => write!(f, "down for {since:.1?}: {reason}"),
        }
    }
}

impl fmt::Display for NodeHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.state)?;
        if !self.denied.is_empty() {
            write!(f, "; its user is denied {}", self.denied.join(" "))?;
        }
        if let Some(CopyProgress { records, bytes, since }) = &self.copying {
            write!(f, ", {records} records ({bytes} bytes) copied to it in {since:.1?}")?;
        }
        self.findings.iter().try_for_each(|finding| write!(f, "; {finding}"))
    }
}
