use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use super::{lease::ActiveLease, watchers::Watcher};
use crate::time::{Sleep, Timestamp};

/// Completes when guarded work has to come to an end: at the soft deadline, or when the lock is
/// lost or given back. Made by [`LockContext::stopping`](crate::LockContext::stopping).
///
/// # Cancel safety
///
/// Safe: it only watches.
#[must_use = "futures do nothing unless polled"]
pub struct Stopping {
    watcher: Watcher,
    alarm: Option<(Timestamp, Sleep)>,
}

impl Stopping {
    pub(crate) fn new(lease: Arc<ActiveLease>) -> Self {
        Self { watcher: Watcher::new(lease), alarm: None }
    }
}

impl Clone for Stopping {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.watcher.lease))
    }
}

impl Future for Stopping {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.watcher.poll(cx, ActiveLease::poll_stopping).is_ready() {
                return Poll::Ready(());
            }
            // Nobody is told of a renewal: the deadline is looked at again when it would be over.
            let Some(at) = self.watcher.lease.soft_deadline() else { return Poll::Ready(()) };
            let alarm = match &mut self.alarm {
                Some((known, alarm)) if *known == at => alarm,
                _ => {
                    let sleep = self.watcher.lease.sleep_until(at);
                    &mut self.alarm.insert((at, sleep)).1
                }
            };
            if Pin::new(alarm).poll(cx).is_pending() {
                return Poll::Pending;
            }
            if self.watcher.lease.soft_deadline() == Some(at) {
                return Poll::Ready(());
            }
        }
    }
}

impl fmt::Debug for Stopping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stopping").field("lease", &self.watcher.lease).finish_non_exhaustive()
    }
}
