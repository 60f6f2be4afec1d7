use std::{
    sync::Arc,
    task::{Context, Poll},
};

use super::LockContext;
use crate::{
    error::LockError,
    lock::{ActiveLease, Lock, Watch},
    metrics,
};

/// A lock under which something is polled, from its start to its end: a future, then perhaps the
/// body that it answered with.
#[derive(Debug)]
pub(crate) struct Hold {
    context: LockContext,
    watch: Watch,
    lock: Lock,
}

/// What came of a poll.
pub(crate) enum Polled<T> {
    Pending,
    /// The poll began under the lock: its result is the truth about the work.
    Ready(T),
    /// The lock has ended: what was polled is to be dropped.
    Over,
}

impl Hold {
    /// Runs what makes the work: not after the end of the validity, and with the context set.
    pub(crate) fn start<F>(
        lock: Lock,
        make: impl FnOnce(LockContext) -> F,
    ) -> Result<(Self, F), LockError> {
        let hold = Self { context: lock.context(), watch: Watch::default(), lock };
        let lease = Arc::clone(hold.lease());
        let mut polled = lease.enter_poll();
        if !lease.is_valid() {
            return Err(lease.too_slow());
        }
        polled.begin();
        let work = {
            let _scope = hold.context.enter();
            make(hold.context.clone())
        };
        drop(polled);
        Ok((hold, work))
    }

    /// P2: polls only while the lock is valid.
    pub(crate) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Polled<T> {
        let lease = self.lock.lease();
        // Watch first: a loss after the check below then wakes this task.
        lease.watch(&mut self.watch, cx);
        let mut in_poll = lease.enter_poll();
        if !lease.is_valid() {
            return Polled::Over;
        }
        in_poll.begin();
        let polled = {
            let _scope = self.context.enter();
            poll(cx)
        };
        drop(in_poll);
        let overran = !lease.is_valid();
        if overran {
            lease.note_overrun();
            crate::log::warn!(
                resource = %lease.resource(),
                "guarded work was inside a poll when its lock ended; only fencing protects it there"
            );
        }
        match polled {
            Poll::Ready(output) => Polled::Ready(output),
            Poll::Pending if overran => Polled::Over,
            Poll::Pending => Polled::Pending,
        }
    }

    /// Drops the work, then gives the lock back.
    pub(crate) fn stop(self, drop_work: impl FnOnce()) -> LockError {
        let cause = self.lease().loss();
        metrics::hard_stop();
        crate::log::warn!(
            resource = %self.lease().resource(),
            token = self.lease().token().get(),
            %cause,
            "hard stop: guarded work is dropped"
        );
        drop_work();
        LockError::lost(cause)
    }

    /// Gives the lock back, and tells how that came out.
    #[cfg(feature = "scheduler")]
    pub(crate) fn give_back(self) -> crate::lock::Release {
        self.lock.give_back()
    }

    pub(crate) fn lease(&self) -> &Arc<ActiveLease> {
        self.lock.lease()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.lock.lease().unwatch(&mut self.watch);
    }
}
