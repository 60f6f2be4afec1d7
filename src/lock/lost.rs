use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use super::{lease::ActiveLease, watchers::Watcher};
use crate::error::LossCause;

/// Completes when a lock is not held any more, with the cause. Made by
/// [`Lock::lost`](super::Lock::lost).
///
/// # Cancel safety
///
/// Safe: it only watches.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Lost {
    watcher: Watcher,
}

impl Lost {
    pub(crate) fn new(lease: Arc<ActiveLease>) -> Self {
        Self { watcher: Watcher::new(lease) }
    }
}

impl Clone for Lost {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.watcher.lease))
    }
}

impl Future for Lost {
    type Output = LossCause;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LossCause> {
        self.watcher.poll(cx, ActiveLease::poll_lost)
    }
}
