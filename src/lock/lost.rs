use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use super::lease::{ActiveLease, Watch};
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
    lease: Arc<ActiveLease>,
    watch: Watch,
}

impl Lost {
    pub(crate) fn new(lease: Arc<ActiveLease>) -> Self {
        Self { lease, watch: Watch::default() }
    }
}

impl Clone for Lost {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.lease))
    }
}

impl Future for Lost {
    type Output = LossCause;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LossCause> {
        let this = &mut *self;
        match this.lease.poll_lost(&mut this.watch, cx) {
            Some(cause) => Poll::Ready(cause),
            None => Poll::Pending,
        }
    }
}

impl Drop for Lost {
    fn drop(&mut self) {
        self.lease.unwatch(&mut self.watch);
    }
}
