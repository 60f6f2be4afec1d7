use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

/// What one node said to one question of one lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Vote {
    /// The node: `host:port/db`, or the name that it was given. Never a password.
    pub node: Arc<str>,
    /// What it said.
    pub outcome: VoteOutcome,
}

impl Vote {
    pub(crate) fn new(node: Arc<str>, outcome: VoteOutcome) -> Self {
        Self { node, outcome }
    }
}

/// How a node's vote came out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VoteOutcome {
    /// The node stored (or renewed) the key for us.
    Granted,
    /// The node keeps the key for someone else.
    Held {
        /// Who, as the holder calls itself; `None` if the key was not written by this crate.
        owner: Option<Arc<str>>,
        /// For how long still; `None` if the key has no TTL.
        remaining: Option<Duration>,
    },
    /// The vote does not count, and why.
    NotCounted(Reason),
}

impl fmt::Display for Vote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.node)?;
        match &self.outcome {
            VoteOutcome::Granted => f.write_str("granted"),
            VoteOutcome::Held { owner, remaining } => {
                write!(f, "held by {}", owner.as_deref().unwrap_or("a foreign key"))?;
                match remaining {
                    Some(left) => write!(f, " for {left:.1?}"),
                    None => f.write_str(" without a TTL"),
                }
            }
            VoteOutcome::NotCounted(reason) => write!(f, "{reason}"),
        }
    }
}

/// Why a node's vote did not count.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// No answer within the node timeout. The operation may have run.
    TimedOut,
    /// It was decided without this node, before its answer was due. The operation may have run.
    NotAwaited,
    /// The connection broke before the answer came. The operation may have run.
    Disconnected,
    /// The node's driver gave the operation up without an answer. It may have run.
    Unknown,
    /// There is no connection; nothing was sent. The text says what the last try ran into.
    NotConnected(Arc<str>),
    /// Its attempt was over before it could be sent; nothing was sent.
    Stale,
    /// Too many operations wait for this node already, or too many attempts are under way in this
    /// process; nothing was sent.
    Overloaded,
    /// The server wants credentials, or refused those that it was given.
    Auth(Arc<str>),
    /// The credentials lack the permission for a command or a key (`NOPERM`).
    NoPermission(Arc<str>),
    /// The server is a replica (`READONLY`), and replicas don't vote.
    ReadOnly,
    /// The server is at `maxmemory` (`OOM`).
    OutOfMemory,
    /// The server is busy with someone's script (`BUSY`).
    Busy,
    /// The server is loading its data (`LOADING`).
    Loading,
    /// The server refuses writes until its persistence works again (`MISCONF`).
    PersistenceFailing,
    /// The node has forgotten its enrolment, or just went through a new one: it is looked at now.
    WrongTag {
        /// The tag that the node stores; empty if none.
        found: Arc<str>,
    },
    /// The node may have forgotten locks, and does not vote until all of them have expired.
    Probation {
        /// For how long still; zero where it waits for enough other nodes to vote.
        remaining: Duration,
    },
    /// The node belongs to a set of other nodes, another prefix or other guards: its votes would
    /// not add up with ours.
    OtherLayout {
        /// The set that it belongs to.
        found: Arc<str>,
        /// The set that we are configured with.
        ours: Arc<str>,
    },
    /// The servers take each other's names for those of other servers, as a name leads to another
    /// server than before: their answers don't count together.
    NamesDiffer,
    /// Another server was enrolled under this node's name since: this one has no vote under it.
    Displaced,
    /// Another node's name leads to the same server: it would vote twice.
    SameServer {
        /// The other node's name.
        other: Arc<str>,
    },
    /// The server's clock jumped: it may have dropped keys too early, and grants nothing for
    /// `max_ttl`.
    ClockJumped {
        /// By so many microseconds; negative for a jump back.
        by_micros: i64,
    },
    /// Under the strict clock guard: the server's wall clock differs from ours by more than is
    /// allowed.
    ClockOff,
    /// The server may evict keys, and the eviction guard refuses such servers.
    Evicts {
        /// Its `maxmemory-policy`.
        policy: Arc<str>,
    },
    /// The TTL is longer than the node's `max_ttl`, which is raised once a quorum votes.
    TtlTooLong,
    /// The node's `max_ttl` was not lowered, or was raised again: a client asks for longer TTLs.
    MaxTtlRaised {
        /// The longest TTL that counts.
        to: Duration,
    },
    /// The release was acknowledged, but an operation whose answer is missing may still reach the
    /// server behind it; it is released again.
    Unsettled,
    /// The operation reached the server after its deadline, and the server refused to run it.
    Late,
    /// The proposed fencing token lies more than 60 s ahead of the node's clock: that is behind the
    /// clocks of the others, or one that was ahead has raised the fences; or ours is ahead, where the
    /// nodes' clocks were not known yet.
    TokenAhead,
    /// The key is not ours any more: it expired, was deleted or was overwritten.
    KeyGone,
    /// The node granted the key, but its fence is above every token that was proposed.
    FenceAhead,
    /// A greater fencing token was promised for the job's claim: somebody else has its lock now.
    Superseded,
    /// The node has forgotten its records, and has not taken over all of them from the others yet.
    Incomplete,
    /// The node keeps claims of as many jobs as it may.
    TooManyJobs,
    /// The server answered with another error; the text is the server's.
    Server(Arc<str>),
    /// The node answered something that this crate does not understand.
    Protocol(Cow<'static, str>),
}

impl Reason {
    /// Whether the operation may have run on the node all the same.
    ///
    /// False only where it is certain that it did not: nothing was sent, or the server turned the
    /// command away before it ran.
    pub fn may_have_run(&self) -> bool {
        !matches!(
            self,
            Self::NotConnected(_)
                | Self::Stale
                | Self::Overloaded
                | Self::Auth(_)
                | Self::ReadOnly
                | Self::Busy
                | Self::Loading
                | Self::WrongTag { .. }
                | Self::Probation { .. }
                | Self::OtherLayout { .. }
                | Self::SameServer { .. }
                | Self::Displaced
                | Self::ClockOff
                | Self::Evicts { .. }
                | Self::TtlTooLong
                | Self::Late
                | Self::TokenAhead
                | Self::Superseded
                | Self::TooManyJobs
                | Self::Incomplete
        )
    }

    /// Whether the connection is of no use any more on which a server said so: its address may lead to
    /// another server by now, and a new connection logs in anew.
    pub(crate) const fn ends_connection(&self) -> bool {
        matches!(self, Self::ReadOnly | Self::Loading | Self::Auth(_))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("timed out"),
            Self::NotAwaited => f.write_str("not awaited: decided without it"),
            Self::Disconnected => f.write_str("connection lost before the answer"),
            Self::Unknown => f.write_str("given up without an answer"),
            Self::NotConnected(why) => write!(f, "not connected ({why})"),
            Self::Stale => f.write_str("the attempt was over before it could be sent"),
            Self::Overloaded => f.write_str("too many operations or attempts are under way"),
            Self::Auth(text) => write!(f, "authentication failed: {text}"),
            Self::NoPermission(text) => write!(f, "permission denied: {text}"),
            Self::ReadOnly => f.write_str("read-only: the server is a replica"),
            Self::OutOfMemory => f.write_str("out of memory: the server is at maxmemory"),
            Self::Busy => f.write_str("busy: the server is running a script"),
            Self::Loading => f.write_str("loading: the server is reading its data"),
            Self::PersistenceFailing => {
                f.write_str("writes refused: the server cannot persist (MISCONF)")
            }
            Self::WrongTag { found } if found.is_empty() => f.write_str("not enrolled"),
            Self::WrongTag { .. } => f.write_str("its enrolment changed; looking again"),
            Self::Probation { remaining } if remaining.is_zero() => {
                f.write_str("in probation: waiting until enough other nodes vote")
            }
            Self::Probation { remaining } => {
                write!(f, "in probation: it may have forgotten locks, and votes in {remaining:.1?}")
            }
            Self::OtherLayout { found, ours } => write!(
                f,
                "belongs to another set of nodes: it is enrolled for [{found}], we are configured for [{ours}]; give all clients the same nodes, names, prefix and guards, or move the set with adopt"
            ),
            Self::NamesDiffer => f.write_str(
                "its vote does not count with the others': they take another server for the owner of its name, or it of theirs; looking again",
            ),
            Self::Displaced => f.write_str(
                "another server was enrolled under its name since: check that its address leads all clients to one server",
            ),
            Self::SameServer { other } => {
                write!(f, "is the same server as {other}, and one server must not vote twice")
            }
            Self::ClockJumped { by_micros } => {
                let by = Duration::from_micros(by_micros.unsigned_abs());
                let way = if *by_micros < 0 { "back" } else { "forward" };
                write!(f, "its clock jumped {way} by {by:.1?}: no votes for max_ttl")
            }
            Self::ClockOff => f.write_str(
                "its wall clock differs from ours by more than the clock guard allows; check both",
            ),
            Self::Evicts { policy } => {
                write!(f, "may evict locks (maxmemory-policy {policy}); set noeviction")
            }
            Self::TtlTooLong => f.write_str("the TTL is above the node's max_ttl"),
            Self::MaxTtlRaised { to } => write!(
                f,
                "a client asked for locks of up to {to:?} meanwhile: lower ttl and max_ttl in the configuration of all clients first"
            ),
            Self::Unsettled => {
                f.write_str("released, but an unanswered operation may still come behind it")
            }
            Self::Late => f.write_str("reached the server after its deadline"),
            Self::TokenAhead => {
                f.write_str(
                    "the fencing token would be more than 60 s ahead of the node's clock: that is behind the other nodes', or a clock that was ahead (another node's, or ours) has raised the fences",
                )
            }
            Self::Superseded => {
                f.write_str("another client has claimed the job with a newer fencing token")
            }
            Self::Incomplete => f.write_str(
                "has forgotten its records, and is taking them over from the other nodes",
            ),
            Self::TooManyJobs => f.write_str(
                "keeps claims of as many jobs as it may: remove those of jobs that run no more from its marks hash",
            ),
            Self::KeyGone => f.write_str("the key is gone"),
            Self::FenceAhead => f.write_str("granted, but its fence is above our tokens"),
            Self::Server(text) => write!(f, "server error: {text}"),
            Self::Protocol(text) => write!(f, "unexpected answer: {text}"),
        }
    }
}

/// Every node's vote, in the order in which the nodes were configured.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Votes(Arc<[Vote]>);

impl Votes {
    pub(crate) fn new(votes: impl IntoIterator<Item = Vote>) -> Self {
        Self(votes.into_iter().collect())
    }
}

impl std::ops::Deref for Votes {
    type Target = [Vote];

    fn deref(&self) -> &[Vote] {
        &self.0
    }
}

impl fmt::Debug for Votes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Display for Votes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, vote) in self.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{vote}")?;
        }
        Ok(())
    }
}
