//! The locks under test, and the control, with a common interface.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tower_redlock::{Lock, Redlock, RedlockBuilder};

use crate::plain::{Plain, PlainLock};
use crate::support::hand_clock::HandClock;

/// TTL of every lock of this crate.
pub const TTL: Duration = Duration::from_secs(1);

/// Timeout for an answer of a server.
pub const NODE_TIMEOUT: Duration = Duration::from_millis(100);

/// Short, so that there are requests after servers have forgotten a lock and before its holder has
/// renewed it.
const RETRY_DELAY: RangeInclusive<Duration> = Duration::from_millis(5)..=Duration::from_millis(20);

/// Offset of a worker's wall clock in ms, in spite of which tokens must grow.
const SKEW: i64 = 20_000;

/// Returns a builder with the settings that all programs use.
pub fn builder(worker: usize, prefix: &str) -> RedlockBuilder {
    let skew = [0, SKEW, -SKEW][worker % 3];
    Redlock::builder()
        .ttl(TTL)
        .max_ttl(TTL)
        .node_timeout(NODE_TIMEOUT)
        .retry_delay(RETRY_DELAY)
        .key_prefix(prefix)
        .owner(format!("worker {worker}"))
        .clock(HandClock::skewed(skew))
}

/// The client of a process.
#[derive(Debug)]
pub enum Locks {
    /// This crate.
    Redlock(Redlock),
    /// The control.
    Plain(Arc<Plain>),
}

/// How a name is acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Alone.
    Exclusive,
    /// Beside other shared holders; the control has no such locks.
    Shared,
    /// One of so many slots of the name; the control has none.
    Slot(u32),
}

/// A lock of either client.
#[derive(Debug)]
pub enum Held {
    /// A lock of this crate.
    Redlock(Lock),
    /// A lock of the control.
    Plain(PlainLock),
}

impl Locks {
    /// Waits until a quorum of servers votes.
    pub async fn ready(&self) -> Result<(), String> {
        match self {
            Self::Redlock(redlock) => redlock.ready().await.map_err(|error| error.to_string()),
            Self::Plain(_) => Ok(()),
        }
    }

    /// Returns the number of servers that vote, as known to this client; the control has no votes.
    pub fn voting(&self) -> Option<usize> {
        match self {
            Self::Redlock(redlock) => {
                Some(redlock.health().iter().filter(|node| node.is_voting()).count())
            }
            Self::Plain(_) => None,
        }
    }

    /// Acquires a lock; `None` if it was not available within the wait.
    pub async fn acquire(&self, name: &str, manner: Manner, wait: Duration) -> Option<Held> {
        match self {
            Self::Redlock(redlock) => {
                let request = redlock.lock(name).wait(wait);
                let lock = match manner {
                    Manner::Exclusive => request.await,
                    Manner::Shared => request.shared().await,
                    Manner::Slot(slots) => request.slots(slots).await,
                };
                lock.ok().map(Held::Redlock)
            }
            Self::Plain(plain) if manner == Manner::Exclusive => {
                plain.acquire(name, wait).await.map(Held::Plain)
            }
            Self::Plain(_) => None,
        }
    }

    /// Waits until all releases are done.
    pub async fn shutdown(&self) {
        if let Self::Redlock(redlock) = self {
            redlock.shutdown().await;
        }
    }
}
impl Held {
    /// Whether the lock counts as held.
    pub fn is_valid(&self) -> bool {
        match self {
            Self::Redlock(lock) => lock.is_valid(),
            Self::Plain(lock) => !lock.remaining().is_zero(),
        }
    }

    /// Time until the end of the validity.
    pub fn remaining(&self) -> Duration {
        match self {
            Self::Redlock(lock) => lock.remaining(),
            Self::Plain(lock) => lock.remaining(),
        }
    }

    /// The slot's number and its resource, if it is a slot.
    pub fn slot(&self) -> Option<(u32, String)> {
        match self {
            Self::Redlock(lock) => lock.slot().map(|slot| (slot, lock.resource().to_string())),
            Self::Plain(_) => None,
        }
    }

    /// Whether other shared holders may hold it as well.
    pub fn is_shared(&self) -> bool {
        match self {
            Self::Redlock(lock) => lock.is_shared(),
            Self::Plain(_) => false,
        }
    }

    /// The fencing token; the control has none.
    pub fn token(&self) -> Option<u64> {
        match self {
            Self::Redlock(lock) => Some(lock.fencing_token().get()),
            Self::Plain(_) => None,
        }
    }

    /// Must be called regularly, as the plain lock does not renew itself.
    pub async fn keep(&mut self) {
        if let Self::Plain(lock) = self {
            lock.keep().await;
        }
    }

    /// Waits for the servers' acknowledgement, up to their timeout.
    pub async fn release(self) {
        match self {
            Self::Redlock(lock) => drop(lock.release().await),
            Self::Plain(lock) => lock.release().await,
        }
    }

    /// Releases it in the background.
    pub fn drop(self) {
        match self {
            Self::Redlock(lock) => drop(lock),
            Self::Plain(lock) => drop(tokio::spawn(lock.release())),
        }
    }
}
