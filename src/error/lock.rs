use std::{error::Error, fmt, sync::Arc, time::Duration};

use super::{ReleaseError, Vote, VoteOutcome, Votes};
use crate::resource::ResourceError;

/// Why a lock was not acquired, not extended, or not kept.
///
/// The variants tell apart what calls for different reactions: [`Held`](Self::Held) means try
/// again later, [`NoQuorum`](Self::NoQuorum) and [`TooSlow`](Self::TooSlow) mean look at the
/// servers, [`Lost`](Self::Lost) means that the outcome of the work is unknown.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum LockError {
    /// Someone else holds the resource: at least one node said so, and the nodes that granted
    /// and those that said "held" reach a quorum together.
    Held {
        /// When to try again: an estimate from the usual time for which this process has held
        /// names like this one and from how many others want it, with jitter; about a second where
        /// nothing is known. At most 30 s, unless
        /// [`RedlockLayer::retry_after`](crate::RedlockLayer::retry_after) sets another limit.
        /// `None` in what is said of a single attempt, in logs.
        retry_after: Option<Duration>,
        /// When a quorum of nodes would be free if nobody renewed: an upper bound for a holder that
        /// crashed. `None` if the keys that block have no TTL, or it is not known.
        expires_in: Option<Duration>,
        /// Who holds it, as the holder calls itself.
        owner: Option<Arc<str>>,
        /// What each node said; empty where this process holds the resource itself, so that no node
        /// was asked.
        votes: Votes,
    },
    /// Too few votes count: the lock can't be had, nor is it known to be held.
    NoQuorum {
        /// What each node said, or why its vote did not count.
        votes: Votes,
    },
    /// A quorum granted, but the validity had run out when the votes were counted, or when the
    /// task that asked came to fetch the lock. Nothing ran under it.
    TooSlow {
        /// From sending the request until then.
        elapsed: Duration,
        /// The validity that the lease would have had.
        validity: Duration,
        /// What each node said last.
        votes: Votes,
    },
    /// The wait is over; `last` is what the last attempt met.
    WaitTimedOut {
        /// How long the request waited.
        waited: Duration,
        /// The error of the last attempt, or what the local queue knew of the holder.
        last: Box<LockError>,
    },
    /// The lock was held and is not any more. Work under it was stopped; its outcome is unknown.
    Lost {
        /// Why.
        cause: LossCause,
    },
    /// The resource is not one. Nothing was sent.
    InvalidResource(ResourceError),
    /// The request's settings do not fit together; the text says which. Nothing was sent.
    InvalidRequest(Arc<str>),
    /// As many records of work that is done are kept for this manager as
    /// [`max_records`](crate::RedlockBuilder::max_records) allows, and work that is to be done
    /// [once](mod@crate::once) needs one more. Nothing ran. Raise that setting, or keep records for less
    /// time: [`OnceLayer::retain`](crate::OnceLayer::retain).
    TooManyRecords {
        /// How many there may be, by the setting or by the servers' memory.
        limit: u64,
        /// When the next of them expire.
        retry_after: Option<Duration>,
    },
    /// [`Redlock::shutdown`](crate::Redlock::shutdown) was called. Nothing more was sent.
    Closed,
    /// This process is a fork of the one that built the manager, and has no part in its connections
    /// and timers. Nothing was sent. Build a manager after the fork.
    Forked {
        /// The id of the process that built it.
        built_in: u32,
    },
    /// The operating system gave no random numbers for a nonce; the text is its own. Nothing was
    /// sent.
    NoRandomness(Arc<str>),
}

impl LockError {
    /// Returns what stood in the way: the error itself, or for
    /// [`WaitTimedOut`](Self::WaitTimedOut) what the last attempt met.
    ///
    /// Match on this, not on the error itself: with a wait, each refusal comes as `WaitTimedOut`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_redlock::LockError;
    ///
    /// /// When a retry policy tries again; `None` for never.
    /// fn retry_in(error: &LockError) -> Option<Duration> {
    ///     match error.root() {
    ///         LockError::Held { retry_after, .. } => Some(retry_after.unwrap_or_default()),
    ///         LockError::NoQuorum { .. } | LockError::TooSlow { .. } => Some(Duration::from_secs(1)),
    ///         // The work ran to some point, or the same request fails again.
    ///         _ => None,
    ///     }
    /// }
    /// # let last = Box::new(LockError::Closed);
    /// # assert_eq!(retry_in(&LockError::WaitTimedOut { waited: Duration::ZERO, last }), None);
    /// ```
    pub fn root(&self) -> &Self {
        match self {
            Self::WaitTimedOut { last, .. } => last.root(),
            other => other,
        }
    }

    /// Sets when to try again, where someone else holds the resource; `after` is told when the
    /// holder's lease ends.
    pub(crate) fn set_retry_after(&mut self, after: impl FnOnce(Option<Duration>) -> Duration) {
        match self {
            Self::WaitTimedOut { last, .. } => last.set_retry_after(after),
            Self::Held { retry_after, expires_in, .. } => *retry_after = Some(after(*expires_in)),
            _ => {}
        }
    }

    pub(crate) fn lost(cause: LossCause) -> Self {
        Self::Lost { cause }
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { expires_in, owner, votes, .. } => {
                write!(f, "held by {}", owner.as_deref().unwrap_or("another client"))?;
                let said_so = |vote: &&Vote| matches!(vote.outcome, VoteOutcome::Held { .. });
                for (i, vote) in votes.iter().filter(said_so).enumerate() {
                    write!(f, "{}{}", if i == 0 { " on " } else { ", " }, vote.node)?;
                }
                match expires_in {
                    Some(after) => write!(f, ", free in {after:.1?} unless renewed"),
                    None => Ok(()),
                }
            }
            Self::NoQuorum { votes } => write!(f, "too few votes count ({votes})"),
            Self::TooSlow { elapsed, validity, votes } => {
                write!(f, "granted after {elapsed:.1?}, beyond its validity of {validity:.1?}")?;
                if votes.is_empty() { Ok(()) } else { write!(f, " ({votes})") }
            }
            Self::WaitTimedOut { waited, last } => {
                write!(f, "gave up after waiting {waited:.1?}; last seen: {last}")
            }
            Self::Lost { cause } => write!(f, "the lock was lost while it was held: {cause}"),
            Self::InvalidResource(error) => write!(f, "invalid resource: {error}"),
            Self::InvalidRequest(reason) => write!(f, "invalid lock request: {reason}"),
            Self::NoRandomness(error) => write!(f, "no random numbers for a nonce: {error}"),
            Self::TooManyRecords { limit, .. } => write!(
                f,
                "{limit} records of work that is done are kept for this manager, as many as \
                 max_records allows: raise it, or keep records for less time (retain); nothing ran"
            ),
            Self::Closed => f.write_str("the lock manager is shut down"),
            Self::Forked { built_in } => write!(
                f,
                "the lock manager was built in process {built_in}, of which this one is a fork: build one after the fork"
            ),
        }
    }
}

impl Error for LockError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::WaitTimedOut { last, .. } => Some(&**last),
            Self::InvalidResource(error) => Some(error),
            _ => None,
        }
    }
}

impl From<ResourceError> for LockError {
    fn from(error: ResourceError) -> Self {
        Self::InvalidResource(error)
    }
}

/// For `?` where a lock is acquired and released: too few acknowledgements are
/// [`NoQuorum`](LockError::NoQuorum), a key of another program is [`Held`](LockError::Held) by a
/// client without a name.
impl From<ReleaseError> for LockError {
    fn from(error: ReleaseError) -> Self {
        match error {
            ReleaseError::NoQuorum { votes } => Self::NoQuorum { votes },
            ReleaseError::InvalidResource(error) => Self::InvalidResource(error),
            ReleaseError::Foreign => Self::Held {
                retry_after: None,
                expires_in: None,
                owner: None,
                votes: Votes::default(),
            },
        }
    }
}

/// Why a lock that was held is not held any more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossCause {
    /// The validity ran out. With automatic renewal this means that no renewal reached a quorum
    /// in time; `votes` is what the nodes said last.
    Expired {
        /// The nodes' answers to the last renewals.
        votes: Votes,
    },
    /// A quorum of nodes keeps the key for someone else.
    Stolen {
        /// Who, as the other calls itself.
        owner: Option<Arc<str>>,
    },
    /// Servers' clocks jumped, so they may have dropped the key too early, and too few sound ones
    /// are left.
    ClockJumped {
        /// What each node said last.
        votes: Votes,
    },
    /// The lock was held for as long as `max_hold` allows.
    MaxHold {
        /// The limit.
        limit: Duration,
    },
    /// One poll of the work went on for as long as its `stall_limit`, or the runtime of a job did not
    /// poll its work for that long; so the lock was not renewed any more, and its validity ran out.
    Stalled {
        /// The limit.
        limit: Duration,
    },
    /// The work gave no heartbeat for as long as it may, so the lock was not renewed any more, and
    /// its validity ran out.
    NoHeartbeat {
        /// The limit.
        limit: Duration,
    },
    /// The holder gave the lock back itself.
    Released,
}

impl fmt::Display for LossCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired { votes } => write!(f, "its validity ran out ({votes})"),
            Self::Stolen { owner } => write!(
                f,
                "a quorum of nodes keeps the key for {}",
                owner.as_deref().unwrap_or("someone else")
            ),
            Self::ClockJumped { votes } => {
                write!(f, "servers' clocks jumped, and too few sound ones are left ({votes})")
            }
            Self::MaxHold { limit } => write!(f, "it reached max_hold ({limit:?})"),
            Self::Stalled { limit } => {
                write!(
                    f,
                    "its work, or the runtime that polls it, hung for {limit:?}, so it was not renewed"
                )
            }
            Self::NoHeartbeat { limit } => {
                write!(f, "its work gave no heartbeat for {limit:?}, so it was not renewed")
            }
            Self::Released => f.write_str("it was released"),
        }
    }
}
