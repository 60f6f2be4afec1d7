//! The health of a node.

use std::{fmt, sync::Arc, time::Duration};

use crate::error::Reason;

/// How one node is doing, as last seen from this process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeHealth {
    /// The node's name: `host:port/db`, or what it was given.
    pub name: Arc<str>,
    /// Whether it votes.
    pub state: NodeState,
    /// The latest round trip, if one was measured.
    pub round_trip: Option<Duration>,
    /// The server's version, as it calls itself.
    pub version: Option<Arc<str>>,
    /// Names the run of the server process.
    pub run_id: Option<Arc<str>>,
    /// Names the run, and the history of the data: changes where the server may have forgotten.
    pub incarnation: Option<Arc<str>>,
    /// The server's wall clock, compared with ours.
    pub clock: Option<ClockOffset>,
    /// The server's memory limit and eviction policy.
    pub memory: Option<Memory>,
    /// What the server keeps when it restarts.
    pub persistence: Option<Persistence>,
    /// The longest TTL that the node grants.
    pub max_ttl: Option<Duration>,
    /// Commands that the server denies to our user, of those that the README lists under
    /// "Permissions": as they are named in ACL rules, in alphabetical order. Found out with each
    /// connection; `subscribe` and `unsubscribe` when a request first waits for another process.
    pub denied: Arc<[Arc<str>]>,
    /// Records of work that is done are being copied to the node, which forgot them.
    pub copying: Option<CopyProgress>,
    /// How many operations wait for an answer of this node.
    pub in_flight: usize,
    /// The longest time for which an operation waited in this process before it was written to the
    /// node, in about the last second. Zero while there is no connection.
    pub queue_delay: Duration,
    /// How many releases of given-back leases it has not acknowledged.
    pub pending_releases: usize,
    /// What an operator should know, though it keeps the node from nothing at present.
    pub findings: Vec<Finding>,
}

impl NodeHealth {
    /// A node that votes, and of which nothing else is known.
    pub fn voting(name: &str) -> Self {
        Self {
            name: name.into(),
            state: NodeState::Voting,
            round_trip: None,
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
            pending_releases: 0,
            findings: Vec::new(),
        }
    }

    /// Whether its votes count at present.
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

/// What a server is among its replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// It takes writes, and may vote.
    Master,
    /// It replicates another server and never votes.
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

/// By how much a server's wall clock is ahead of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockOffset {
    /// Microseconds; negative where it is behind.
    pub ahead_micros: i64,
    /// The most by which that may be wrong: half a round trip.
    pub uncertainty: Duration,
}

impl ClockOffset {
    pub(crate) const fn new(ahead_micros: i64, uncertainty: Duration) -> Self {
        Self { ahead_micros, uncertainty }
    }
}

/// What was found out about a node, or about this process by its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// This process's wall clock is off by more than 60 s from those of a quorum of servers. Told
    /// with each of its nodes.
    ///
    /// Locks and fencing tokens don't depend on it; dates, schedules and `clock_guard` do.
    OwnClock {
        /// By how many microseconds it is ahead; negative where it is behind.
        ahead_micros: i64,
    },
    /// The server's wall clock is off by more than 60 s from those of a quorum of servers. Where it
    /// is behind, it refuses their fencing tokens; where it is ahead, only its own vote suffers.
    ServerClock {
        /// By how many microseconds it is ahead; negative where it is behind.
        ahead_micros: i64,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whose, micros) = match self {
            Self::OwnClock { ahead_micros } => ("this process's", ahead_micros),
            Self::ServerClock { ahead_micros } => ("its", ahead_micros),
        };
        let off = Duration::from_micros(micros.unsigned_abs());
        let way = if *micros < 0 { "behind" } else { "ahead of" };
        write!(f, "{whose} wall clock is {off:.1?} {way} those of a quorum of servers")
    }
}

/// A server's memory limit, and what it does when that is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    /// `maxmemory` in bytes; zero means no limit.
    pub limit: u64,
    /// `maxmemory-policy`.
    pub policy: Arc<str>,
    /// Memory in use at the last look, in bytes (`used_memory`); looks are a second apart.
    pub used: u64,
}

impl Memory {
    pub(crate) const fn new(limit: u64, policy: Arc<str>, used: u64) -> Self {
        Self { limit, policy, used }
    }

    /// Whether the server has the same limit and policy.
    pub(crate) fn is_set_as(&self, other: &Self) -> bool {
        self.limit == other.limit && self.policy == other.policy
    }

    /// Whether the server may delete locks to make room.
    pub fn evicts(&self) -> bool {
        self.limit > 0 && &*self.policy != "noeviction"
    }
}

/// What a server keeps when it restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Persistence {
    /// The append-only file is on.
    pub aof: bool,
    /// Snapshots are on; `None` where the server does not tell.
    pub snapshots: Option<bool>,
}

impl Persistence {
    pub(crate) const fn new(aof: bool, snapshots: Option<bool>) -> Self {
        Self { aof, snapshots }
    }
}

/// How far the copying of records to a node is.
///
/// The node votes meanwhile, and does not say of any key that there is no record. One client at a
/// time copies, over connections of its own, at most 10 MB a second; the others see its progress
/// within 2 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyProgress {
    /// Number of records that the client which copies has stored on the node.
    pub records: u64,
    /// Their bytes, keys included.
    pub bytes: u64,
    /// For how long this process has seen the node copy.
    pub since: Duration,
}

impl CopyProgress {
    pub(crate) const fn new(records: u64, bytes: u64, since: Duration) -> Self {
        Self { records, bytes, since }
    }
}

/// Whether a node votes, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeState {
    /// Connected, and nothing speaks against its votes: the last ones counted, if there were any.
    Voting,
    /// The first connection is being opened; operations wait for it.
    Connecting,
    /// Connected, and may have forgotten locks: it does not vote until all of them have expired.
    Probation {
        /// For how long still, on our own clock; zero where it waits for other nodes.
        remaining: Duration,
        /// For how long it has been so.
        since: Duration,
        /// What the last try to end it ran into; `None` before the first try.
        blocked: Option<Blocked>,
    },
    /// Connected, and its votes are refused, until one counts; while it refuses, one a second is
    /// tried. Renewals may still work.
    Refusing {
        /// What it said last.
        reason: Reason,
        /// For how long.
        since: Duration,
    },
    /// Not usable at present; operations fail at once.
    Down {
        /// What the last try ran into.
        reason: Reason,
        /// For how long.
        since: Duration,
    },
}

/// Why a node's probation can't be ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blocked {
    /// The node that answered; possibly another one, whose state has to be learnt first.
    pub asked: Arc<str>,
    /// What it answered.
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
                write!(f, "in probation, which can't be ended: {blocked}")
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
