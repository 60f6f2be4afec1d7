//! The locks under test, and the control, behind one face.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tower_redlock::{Lock, Redlock};

use super::options::WorkerOptions;
use super::plain::{Plain, PlainLock};
use crate::guards::guard;
use crate::support::hand_clock::HandClock;
use crate::trial::{LocksKind, PREFIX};

/// How long a server has for an answer.
pub(super) const NODE_TIMEOUT: Duration = Duration::from_millis(50);

/// Somebody must ask while servers have forgotten a lock and its holder has not yet renewed it.
pub(super) const RETRY_DELAY: RangeInclusive<Duration> =
    Duration::from_millis(5)..=Duration::from_millis(20);

/// Offsets of the workers' wall clocks: tokens must grow in spite of them.
const SKEW: Duration = Duration::from_secs(20);

/// The same where the clock guard wants them to differ by less than this times as much.
const SKEW_WITHIN: u32 = 5;

#[derive(Debug)]
pub(super) enum Locks {
    Redlock(Redlock),
    Plain(Arc<Plain>),
}

#[derive(Debug)]
pub(super) enum Held {
    Redlock(Lock),
    Plain(PlainLock),
}

impl Locks {
    pub(super) fn new(options: &WorkerOptions) -> Result<Self, String> {
        let urls = options.urls.split(',');
        match options.locks {
            LocksKind::Plain => Ok(Self::Plain(Arc::new(Plain::new(urls, options)?))),
            LocksKind::Redlock(guards) => {
                let skew = guards.clock.map_or(SKEW, |within| within / SKEW_WITHIN);
                let builder = Redlock::builder()
                    .nodes(urls)
                    .ttl(options.ttl)
                    .max_ttl(options.ttl)
                    .node_timeout(NODE_TIMEOUT)
                    .retry_delay(RETRY_DELAY)
                    .key_prefix(PREFIX)
                    .owner(format!("worker {}", options.worker))
                    .clock(clock(options.worker, skew));
                let built = guard(builder, guards).build();
                built.map(Self::Redlock).map_err(|error| error.to_string())
            }
        }
    }

    /// Waits until a quorum of servers votes.
    pub(super) async fn ready(&self) -> Result<(), String> {
        match self {
            Self::Redlock(redlock) => redlock.ready().await.map_err(|error| error.to_string()),
            Self::Plain(_) => Ok(()),
        }
    }

    /// `None` if it was not to be had within the wait.
    pub(super) async fn acquire(&self, name: &str, wait: Duration) -> Option<Held> {
        match self {
            Self::Redlock(redlock) => redlock.lock(name).wait(wait).await.ok().map(Held::Redlock),
            Self::Plain(plain) => plain.acquire(name, wait).await.map(Held::Plain),
        }
    }

    /// Waits until what was given back is given back.
    pub(super) async fn shutdown(&self) {
        if let Self::Redlock(redlock) = self {
            redlock.shutdown().await;
        }
    }
}

impl Held {
    pub(super) fn is_valid(&self) -> bool {
        match self {
            Self::Redlock(lock) => lock.is_valid(),
            Self::Plain(lock) => !lock.remaining().is_zero(),
        }
    }

    pub(super) fn remaining(&self) -> Duration {
        match self {
            Self::Redlock(lock) => lock.remaining(),
            Self::Plain(lock) => lock.remaining(),
        }
    }

    pub(super) fn token(&self) -> Option<u64> {
        match self {
            Self::Redlock(lock) => Some(lock.fencing_token().get()),
            Self::Plain(_) => None,
        }
    }

    /// To be called now and then: the plain lock does not renew itself.
    pub(super) async fn keep(&mut self) {
        if let Self::Plain(lock) = self {
            lock.keep().await;
        }
    }

    /// Waits for the servers' acknowledgement, or for the time that they have for it.
    pub(super) async fn release(self) {
        match self {
            Self::Redlock(lock) => drop(lock.release().await),
            Self::Plain(lock) => lock.release().await,
        }
    }

    /// Gives it back in the background.
    pub(super) fn drop(self) {
        match self {
            Self::Redlock(lock) => drop(lock),
            Self::Plain(lock) => drop(tokio::spawn(lock.release())),
        }
    }
}

/// The system's clock, with an offset of the wall clock that depends on the worker.
fn clock(worker: usize, skew: Duration) -> HandClock {
    let clock = HandClock::system();
    match worker % 3 {
        0 => {}
        1 => clock.set_wall_ahead(skew),
        _ => clock.set_wall_behind(skew),
    }
    clock
}
