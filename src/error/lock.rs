//! Errors of locks: why one was not acquired, was lost, or was not released.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use super::{ServerText, Vote, VoteOutcome, Votes, refusals::Refusals};
use crate::resource::ResourceError;

/// Why a lock was not acquired, not extended, or not kept.
///
/// After [`Held`](Self::Held), try again later. After [`NoQuorum`](Self::NoQuorum) and
/// [`TooSlow`](Self::TooSlow), check the servers. After [`Lost`](Self::Lost), the outcome of the work
/// is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockError {
    /// Another client holds the resource: at least one node reported that, and together with the
    /// nodes that granted they are a quorum.
    Held {
        /// When to try again: an estimate from the mean hold time of similar names in this process
        /// and the number of other requests, with jitter; about a second without a measurement. At
        /// most 30 s, or as [`RedlockLayer::max_retry_after`](crate::RedlockLayer::max_retry_after) sets.
        /// `None` only in the log line and the event of one attempt of several, and in an error that was made
        /// from a [`ReleaseError`].
        retry_after: Option<Duration>,
        /// The time until a quorum of nodes is free without a renewal: an upper bound if the holder
        /// crashed. `None` if the keys have no TTL, or the time is unknown.
        expires_in: Option<Duration>,
        /// The holder's [`owner`](crate::RedlockBuilder::owner).
        owner: Option<Arc<str>>,
        /// Whether the holder's process may cache the idle lock after its release
        /// ([`LockOptions::linger`](crate::LockOptions::linger)), and got a request to release it.
        /// It does so at once unless the lock is in use, so the next attempt may succeed.
        lingers: bool,
        /// Number of processes that hold the resource, if it is
        /// [shared](crate::LockOptions::shared), as far as it is known; zero if it is exclusive. The
        /// other fields are those of the one that lasts longest.
        readers: usize,
        /// An exclusive request that waits until the resource is not shared any more, and comes before
        /// further shared requests. If nothing holds the resource, `owner` is `None`, and the resource is
        /// kept for this request.
        waiter: Option<Box<WaitingRequest>>,
        /// Where all [slots](crate::LockOptions::slots) of a name are held: the holder of each, by
        /// the numbers of the slots. The other fields are those of the slot that is free first.
        /// Empty for a lock.
        slots: Box<[SlotHolder]>,
        /// The vote of each node; empty if this process holds the resource.
        votes: Votes,
    },
    /// Too few votes count to grant the lock, or to determine that it is held.
    NoQuorum {
        /// The vote of each node, or why it does not count.
        votes: Votes,
    },
    /// A quorum granted the lock, but the validity had ended when the votes were counted, or when
    /// the task received the lock. Nothing ran under it.
    TooSlow {
        /// Time since the request was sent.
        elapsed: Duration,
        /// The validity of the lease; its `max_hold`, if that is shorter.
        validity: Duration,
        /// The last vote of each node.
        votes: Votes,
    },
    /// The wait is over.
    WaitTimedOut {
        /// Time for which the request waited.
        waited: Duration,
        /// The error of the last attempt, or the state of the local queue.
        last: Box<LockError>,
    },
    /// The lock was lost. Work under it was stopped; its outcome is unknown.
    Lost {
        /// The cause.
        cause: LossCause,
    },
    /// The resource is invalid. Nothing was sent.
    InvalidResource(ResourceError),
    /// The request's settings contradict each other, as the text explains. Nothing was sent.
    InvalidRequest(Arc<str>),
    /// Work that runs [once](mod@crate::once) would exceed
    /// [`max_records`](crate::RedlockBuilder::max_records), or the `max_records_per_scope` of its layer.
    /// Nothing ran. Raise the limit, or keep
    /// records for a shorter time: [`OnceLayer::retain`](crate::OnceLayer::retain).
    TooManyRecords {
        /// Maximum number of records, set by the settings or by the servers' memory.
        limit: u64,
        /// When the next records expire.
        retry_after: Option<Duration>,
    },
    /// [`Redlock::shutdown`](crate::Redlock::shutdown) was called. Nothing more was sent.
    Closed,
    /// The operating system provided no random numbers for a nonce; the text is its error. Nothing
    /// was sent.
    NoRandomness(Arc<str>),
}

/// An exclusive request that waits, in [`LockError::Held`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitingRequest {
    /// Its [`owner`](crate::RedlockBuilder::owner).
    pub owner: Arc<str>,
}

/// The holder of one slot, in [`LockError::Held`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotHolder {
    /// The number of the slot.
    pub slot: u32,
    /// The holder's [`owner`](crate::RedlockBuilder::owner), if it is known.
    pub owner: Option<Arc<str>>,
    /// The time until a quorum of nodes is free without a renewal, if it is known.
    pub expires_in: Option<Duration>,
}

impl LockError {
    /// Returns the error itself, or for [`WaitTimedOut`](Self::WaitTimedOut) the error of the last
    /// attempt.
    ///
    /// Match on this, as every refusal of a request with a wait is a `WaitTimedOut`.
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

    /// Sets `retry_after` of [`Held`](Self::Held) to the result of `after`, which gets
    /// `expires_in`.
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

/// Maximum number of holders of slots in the text of an error.
const SHOWN_SLOTS: usize = 8;

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { expires_in, slots, .. } if !slots.is_empty() => {
                write!(f, "all {} slots are held", slots.len())?;
                for (i, slot) in slots.iter().take(SHOWN_SLOTS).enumerate() {
                    let owner = ServerText(slot.owner.as_deref().unwrap_or("another client"));
                    write!(f, "{}{} by {owner}", if i == 0 { ": " } else { ", " }, slot.slot)?;
                }
                if slots.len() > SHOWN_SLOTS {
                    write!(f, " and {} more", slots.len() - SHOWN_SLOTS)?;
                }
                if let Some(after) = expires_in {
                    write!(f, "; one is free in {after:.1?} unless renewed")?;
                }
                Ok(())
            }
            Self::Held { expires_in, owner, lingers, readers, waiter, votes, .. } => {
                let holder = ServerText(owner.as_deref().unwrap_or("another client"));
                let waiter = waiter.as_ref().map(|waiter| ServerText(&waiter.owner));
                match (readers, &waiter) {
                    (0, Some(waiter)) if owner.is_none() => {
                        write!(f, "kept for the exclusive request of {waiter}, which waits")?;
                    }
                    (0, _) => write!(f, "held by {holder}")?,
                    (1, _) => write!(f, "1 reader holds it, {holder}")?,
                    (_, _) => write!(f, "{readers} readers hold it, one of them {holder}")?,
                }
                let is_held = |vote: &&Vote| matches!(vote.outcome, VoteOutcome::Held { .. });
                for (i, vote) in votes.iter().filter(is_held).enumerate() {
                    write!(f, "{}{}", if i == 0 { " on " } else { ", " }, vote.node)?;
                }
                if let Some(after) = expires_in {
                    write!(f, ", free in {after:.1?} unless renewed")?;
                }
                if let (1.., Some(waiter)) = (readers, waiter) {
                    write!(f, "; the exclusive request of {waiter} waits and comes first")?;
                }
                if *lingers {
                    f.write_str("; its owner may be caching the idle lock and was asked to release it; retry")?;
                }
                Ok(())
            }
            Self::NoQuorum { votes } => write!(f, "too few votes count ({votes})"),
            Self::TooSlow { elapsed, validity, votes } => {
                write!(f, "granted after {elapsed:.1?}, beyond its validity of {validity:.1?}")?;
                write!(f, "{}", Refusals::among(votes))
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
                "{limit} records of work that is done are kept for this manager, as many as max_records \
                 allows, or for the request's scope, as many as max_records_per_scope allows: raise it, or \
                 keep records for less time (retain); nothing ran"
            ),
            Self::Closed => f.write_str("the lock manager is shut down"),
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

/// A key of another program becomes [`Held`](LockError::Held) without an owner.
impl From<ReleaseError> for LockError {
    fn from(error: ReleaseError) -> Self {
        match error {
            ReleaseError::NoQuorum { votes } => Self::NoQuorum { votes },
            ReleaseError::InvalidResource(error) => Self::InvalidResource(error),
            ReleaseError::Foreign => Self::Held {
                retry_after: None,
                expires_in: None,
                owner: None,
                lingers: false,
                readers: 0,
                waiter: None,
                slots: Box::default(),
                votes: Votes::default(),
            },
        }
    }
}

/// Why a lock is no longer held.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossCause {
    /// The validity ended. With automatic renewal, no renewal reached a quorum in time.
    Expired {
        /// The last vote of each node.
        votes: Votes,
    },
    /// A quorum of nodes keeps the key for another client.
    Stolen {
        /// That client's [`owner`](crate::RedlockBuilder::owner).
        owner: Option<Arc<str>>,
    },
    /// Servers' clocks jumped, so their keys may have expired too early, and the other servers are
    /// too few.
    ClockJumped {
        /// The last vote of each node.
        votes: Votes,
    },
    /// The lock reached `max_hold`.
    MaxHold {
        /// The limit.
        limit: Duration,
    },
    /// One poll of the work took longer than `stall_limit`, or the runtime of a job did not poll
    /// its work for that time. The lock was then not renewed, and its validity ended.
    Stalled {
        /// The limit.
        limit: Duration,
    },
    /// The work sent no heartbeat within the limit. The lock was then not renewed, and its validity
    /// ended.
    NoHeartbeat {
        /// The limit.
        limit: Duration,
    },
    /// The holder released the lock.
    Released,
}

impl fmt::Display for LossCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired { votes } => {
                let refusals = Refusals::among(votes);
                match refusals.count() {
                    Some((some, all)) => write!(
                        f,
                        "its validity ran out: {some} of {all} nodes did not extend it in time{refusals}"
                    ),
                    None => f.write_str("its validity ran out before it was extended"),
                }
            }
            Self::Stolen { owner } => write!(
                f,
                "a quorum of nodes keeps the key for {}",
                ServerText(owner.as_deref().unwrap_or("someone else"))
            ),
            Self::ClockJumped { votes } => {
                write!(
                    f,
                    "the clocks of servers jumped, and too few servers without a jump are left{}",
                    Refusals::among(votes)
                )
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

/// Why a release was not acknowledged.
///
/// The lock is no longer held, so its work must stop. The remaining keys expire with their TTL, or
/// are deleted by another release.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseError {
    /// Too few nodes acknowledged in time.
    NoQuorum {
        /// The vote of each node.
        votes: Votes,
    },
    /// The key was not written by this crate. Inspect it with the server's tools, and delete it
    /// there if it is not needed.
    Foreign,
    /// The name to revoke is invalid. Nothing was sent.
    InvalidResource(ResourceError),
}

impl fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoQuorum { votes } => {
                write!(f, "the release was not acknowledged by a quorum{}", Refusals::among(votes))
            }
            Self::Foreign => f.write_str("the key was not written by this crate"),
            Self::InvalidResource(error) => write!(f, "invalid resource: {error}"),
        }
    }
}

impl Error for ReleaseError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::InvalidResource(error) => Some(error),
            Self::NoQuorum { .. } | Self::Foreign => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Reason;

    #[test]
    fn names_of_owners_are_one_line() {
        let owner: Option<Arc<str>> = Some("a\nb\u{1b}[2Jc\u{85}".into());
        let held = LockError::Held {
            retry_after: None,
            expires_in: None,
            owner: owner.clone(),
            lingers: false,
            readers: 0,
            waiter: None,
            slots: Box::default(),
            votes: Votes::default(),
        };

        let shown = [held.to_string(), LossCause::Stolen { owner }.to_string()];

        for text in shown {
            assert!(text.contains(r"a\nb\u{1b}[2Jc\u{85}"), "{text:?}");
            assert!(!text.contains(char::is_control), "{text:?}");
        }
    }

    /// Returns the votes of three nodes: `a` and so on.
    fn votes(outcomes: [VoteOutcome; 3]) -> Votes {
        let named = ["a", "b", "c"].into_iter().zip(outcomes);
        Votes::new(named.map(|(node, outcome)| Vote::new(node.into(), outcome)))
    }

    #[test]
    fn causes_name_only_nodes_that_refused() {
        const GRANTED: VoteOutcome = VoteOutcome::Granted;
        const LATE: VoteOutcome = VoteOutcome::NotCounted(Reason::TimedOut);
        const OPEN: VoteOutcome = VoteOutcome::NotCounted(Reason::NotAwaited);
        let expired = |outcomes| LossCause::Expired { votes: votes(outcomes) }.to_string();

        assert_eq!(
            expired([GRANTED, LATE, LATE]),
            "its validity ran out: 2 of 3 nodes did not extend it in time (b: timed out; c: timed out)"
        );
        assert_eq!(
            expired([GRANTED, GRANTED, OPEN]),
            "its validity ran out before it was extended"
        );

        let jumped = Reason::ClockJumped { by_micros: 5_000_000 };
        let reason = jumped.to_string();
        let jumped = VoteOutcome::NotCounted(jumped);
        let cause = LossCause::ClockJumped { votes: votes([jumped.clone(), jumped, GRANTED]) };
        let text = cause.to_string();
        assert!(text.ends_with(&format!("left (a: {reason}; b: {reason})")), "{text}");

        let release = ReleaseError::NoQuorum { votes: votes([GRANTED, LATE, LATE]) };
        assert_eq!(
            release.to_string(),
            "the release was not acknowledged by a quorum (b: timed out; c: timed out)"
        );

        let slow = |outcomes| {
            let (elapsed, validity) = (Duration::from_secs(3), Duration::from_secs(2));
            LockError::TooSlow { elapsed, validity, votes: votes(outcomes) }.to_string()
        };
        let text = "granted after 3.0s, beyond its validity of 2.0s";
        assert_eq!(slow([GRANTED, GRANTED, OPEN]), text);
        assert_eq!(slow([GRANTED, GRANTED, LATE]), format!("{text} (c: timed out)"));
    }

    #[test]
    fn readers_are_counted() {
        let held = |readers| LockError::Held {
            retry_after: None,
            expires_in: Some(Duration::from_secs(3)),
            owner: Some("a\nb".into()),
            lingers: false,
            readers,
            waiter: None,
            slots: Box::default(),
            votes: Votes::default(),
        };
        let free = "free in 3.0s unless renewed";

        assert_eq!(held(0).to_string(), format!(r"held by a\nb, {free}"));
        assert_eq!(held(1).to_string(), format!(r"1 reader holds it, a\nb, {free}"));
        assert_eq!(held(2).to_string(), format!(r"2 readers hold it, one of them a\nb, {free}"));
    }

    #[test]
    fn full_set_names_its_holders() {
        let holder = |slot| SlotHolder {
            slot,
            owner: (slot != 1).then(|| format!("a\n{slot}").into()),
            expires_in: None,
        };
        let full = |slots: u32| LockError::Held {
            retry_after: None,
            expires_in: Some(Duration::from_secs(3)),
            owner: None,
            lingers: false,
            readers: 0,
            waiter: None,
            slots: (0..slots).map(holder).collect(),
            votes: Votes::default(),
        };

        assert_eq!(
            full(3).to_string(),
            r"all 3 slots are held: 0 by a\n0, 1 by another client, 2 by a\n2; one is free in 3.0s unless renewed"
        );
        assert!(full(20).to_string().contains(r"7 by a\n7 and 12 more; one"));
    }
}
