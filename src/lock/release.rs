use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use super::{lease::ActiveLease, watchers::Watcher};
use crate::error::ReleaseError;

/// How a release came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// A quorum of nodes had our key, and deleted it; or the lock went to another task of this
    /// process.
    Released,
    /// The lock had been lost before: too few nodes had our key. Of a lock that is revoked by name:
    /// nobody held it. Someone else may have held the
    /// resource in the meantime.
    AlreadyLost,
}

/// Waits until a quorum of nodes acknowledged a release. Made by
/// [`Lock::release`](super::Lock::release).
///
/// # Errors
///
/// [`ReleaseError`] if too few nodes acknowledged within the node timeout.
///
/// # Cancel safety
///
/// Safe: the release is under way already.
#[derive(Debug)]
#[must_use = "dropping it does not undo the release, but hides its outcome"]
pub struct Release {
    watcher: Watcher,
}

impl Release {
    pub(super) fn new(lease: Arc<ActiveLease>) -> Self {
        Self { watcher: Watcher::new(lease) }
    }
}

impl Future for Release {
    type Output = Result<Released, ReleaseError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let lease = &self.watcher.lease;
        if lease.is_forked() {
            let votes = lease.core().votes_in_fork();
            return Poll::Ready(Err(ReleaseError::NoQuorum { votes }));
        }
        self.watcher.poll(cx, ActiveLease::poll_released)
    }
}
