use std::{fmt, future::poll_fn, sync::Arc, time::Duration};

use super::{lease::ActiveLease, lost::Lost, release::Release, watchers::Watcher};
use crate::{error::LockError, resource::Resource, token::FencingToken};

/// A lock that is held.
///
/// It renews itself until it is released, dropped, lost, or at `max_hold`. Dropping it gives the
/// resource back in the background, also outside a runtime, to the next task of this process that
/// waits for it or to the servers; [`release`](Lock::release) waits for
/// the servers' acknowledgement.
///
/// A held lock does not stop your code when it is lost: ask [`is_valid`](Lock::is_valid), await
/// [`lost`](Lock::lost), or let [`LockRequest::run`](super::LockRequest::run) do it. Locks are not
/// re-entrant: a second request for the same name in the same process waits like any other.
#[must_use = "a lock is given back as soon as it is dropped"]
pub struct Lock {
    lease: Arc<ActiveLease>,
}

impl Lock {
    pub(super) fn new(lease: Arc<ActiveLease>) -> Self {
        Self { lease }
    }

    /// What is locked.
    pub fn resource(&self) -> &Resource {
        self.lease.resource()
    }

    /// Greater than the token of every grant of this resource that was completed before this one
    /// was asked for or handed on, as long as a majority of the nodes keeps its fences. Zero without fencing.
    pub fn fencing_token(&self) -> FencingToken {
        self.lease.token()
    }

    /// For how long the lock is valid still if nothing renews it; zero if it is lost, and in a fork of
    /// the process.
    pub fn remaining(&self) -> Duration {
        if self.lease.is_forked() {
            return Duration::ZERO;
        }
        self.lease.remaining()
    }

    /// Whether the lock is held at this moment, by our clock, and by this process: a lock does not go
    /// along with a fork.
    pub fn is_valid(&self) -> bool {
        !self.lease.is_forked() && self.lease.is_valid()
    }

    /// Renews the lock now, and returns for how long it is valid.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lock is not held any more; [`LockError::NoQuorum`] if too few
    /// nodes answered within the node timeout: the lock then stays valid for what it was, and
    /// automatic renewal goes on. [`LockError::Forked`] in a fork of the process that holds it.
    ///
    /// # Cancel safety
    ///
    /// Safe: the renewal goes on without the future.
    pub async fn extend(&self) -> Result<Duration, LockError> {
        if self.lease.is_forked() {
            return Err(LockError::Forked { built_in: self.lease.core().process });
        }
        if !self.is_valid() {
            return Err(LockError::lost(self.lease.loss()));
        }
        self.lease.extend();
        let mut watcher = Watcher::new(Arc::clone(&self.lease));
        let extended = poll_fn(|cx| watcher.poll(cx, ActiveLease::poll_extension)).await;
        extended.map(|()| self.remaining())
    }

    /// Completes when the lock is not held any more, with the cause. The future owns what it
    /// needs, and may outlive the lock; after a release it completes with
    /// [`LossCause::Released`](crate::error::LossCause::Released).
    pub fn lost(&self) -> Lost {
        Lost::new(Arc::clone(&self.lease))
    }

    /// Gives the lock back and waits until a quorum of nodes acknowledged it. Where it is handed on
    /// to a task of this process that waits for it, there is nothing to be acknowledged, and it is
    /// [`Released`](crate::lock::Released::Released) at once.
    ///
    /// Without the wait, dropping the lock does the same.
    ///
    /// # Errors
    ///
    /// [`ReleaseError`](crate::error::ReleaseError) if too few nodes acknowledged within the node timeout.
    /// The keys that are left are released again in the background, and expire with their TTL. In a
    /// fork of the process nothing is released.
    ///
    /// # Cancel safety
    ///
    /// Safe: the release is sent at the call, not at the first poll.
    pub fn release(self) -> Release {
        // Drop releases a second time; that does nothing.
        self.give_back()
    }

    pub(crate) fn give_back(&self) -> Release {
        self.lease.release(true);
        Release::new(Arc::clone(&self.lease))
    }

    pub(crate) fn lease(&self) -> &Arc<ActiveLease> {
        &self.lease
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.lease.release(false);
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("resource", self.resource())
            .field("fencing_token", &self.fencing_token())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
