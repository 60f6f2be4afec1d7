//! A lock that a thread holds by hand.

use std::{ops::Deref, sync::Arc, time::Duration};

use super::wait::wait;
use crate::{
    error::{LockError, ReleaseError},
    guard::LockContext,
    lock::{Lock, Released},
    time::Timers,
};

/// A lock that a thread holds. Made by [`BlockingRequest::acquire`](super::BlockingRequest::acquire).
///
/// It is renewed until it is released, dropped or lost, or until `max_hold`. Dropping it releases it
/// in the background; [`release`](Self::release) waits for the acknowledgement. A loss does not stop
/// your code: it is a [`LockContext`], whose [`ensure_valid`](LockContext::ensure_valid) returns an
/// error then.
///
/// # Panics
///
/// Its own methods, not its drop, panic in an [async context](crate::blocking#async-contexts) of tokio;
/// the lock is then released.
#[derive(Debug)]
#[must_use = "a lock is released as soon as it is dropped"]
pub struct BlockingLock {
    context: LockContext,
    lock: Lock,
}

impl BlockingLock {
    pub(super) fn new(lock: Lock) -> Self {
        Self { context: lock.context(), lock }
    }

    fn timers(&self) -> [Arc<Timers>; 1] {
        [Arc::clone(&self.lock.lease().client().timers)]
    }

    /// Renews the lock now, and returns for how long it is valid. See [`Lock::extend`].
    ///
    /// # Errors
    ///
    /// * [`LockError::Lost`] if the lock is lost.
    /// * [`LockError::NoQuorum`] if too few nodes answered within the node timeout. The validity
    ///   does not change, and automatic renewal continues.
    #[track_caller]
    pub fn extend(&self) -> Result<Duration, LockError> {
        wait(&self.timers(), self.lock.extend())
    }

    /// Makes an exclusive lock a shared one, without a gap. See [`Lock::downgrade`].
    ///
    /// # Errors
    ///
    /// Those of [`Lock::downgrade`]. After an error nothing is held.
    #[track_caller]
    pub fn downgrade(self) -> Result<Self, LockError> {
        self.lock.downgrade().map(Self::new)
    }

    /// Releases the lock, and waits for the acknowledgement of a quorum of nodes, at most for the node
    /// timeout. See [`Lock::release`].
    ///
    /// # Errors
    ///
    /// [`ReleaseError`] if too few nodes acknowledged in time. The release of the remaining keys is
    /// repeated in the background, and they expire with their TTL.
    #[track_caller]
    pub fn release(self) -> Result<Released, ReleaseError> {
        wait(&self.timers(), self.lock.release())
    }
}

impl Deref for BlockingLock {
    type Target = LockContext;

    fn deref(&self) -> &LockContext {
        &self.context
    }
}
