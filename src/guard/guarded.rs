use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use pin_project::pin_project;

use super::LockContext;
use crate::{
    error::LockError,
    lock::{ActiveLease, Lock, Watch},
};

/// A future that is polled only while its lock is valid.
#[pin_project(PinnedDrop)]
pub(crate) struct Guarded<F> {
    #[pin]
    work: Option<F>,
    context: LockContext,
    lease: Arc<ActiveLease>,
    watch: Watch,
    /// Released after the work is dropped: the fields are dropped in this order.
    lock: Option<Lock>,
}

impl<F> Guarded<F> {
    /// Starts work under a lock. The work is made inside the guard too: not after the end of the
    /// validity, and with the context set.
    pub(crate) fn start(
        lock: Lock,
        make: impl FnOnce(LockContext) -> F,
    ) -> Result<Self, LockError> {
        let lease = Arc::clone(lock.lease());
        let context = lock.context();
        if !lease.is_valid() {
            return Err(lease.too_slow());
        }
        let work = {
            let _scope = context.enter();
            make(context.clone())
        };
        Ok(Self { work: Some(work), context, lease, watch: Watch::default(), lock: Some(lock) })
    }
}

impl<F: Future> Future for Guarded<F> {
    type Output = Result<F::Output, LockError>;

    /// # Panics
    ///
    /// If polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        // Watch first: a loss after the check below then wakes this task.
        this.lease.watch(this.watch, cx);
        if this.lease.is_valid() {
            let work = this.work.as_mut().as_pin_mut().expect("polled after it was ready");
            let polled = {
                let _scope = this.context.enter();
                work.poll(cx)
            };
            let overran = !this.lease.is_valid();
            if overran {
                tracing::warn!(
                    resource = %this.lease.resource(),
                    "guarded work was inside a poll when its lock ended; only fencing protects it there"
                );
            }
            match polled {
                // The poll began under the lock: its result is the truth about the work.
                Poll::Ready(output) => {
                    this.work.set(None);
                    *this.lock = None;
                    return Poll::Ready(Ok(output));
                }
                Poll::Pending if !overran => return Poll::Pending,
                Poll::Pending => {}
            }
        }
        let cause = this.lease.loss();
        tracing::warn!(resource = %this.lease.resource(), %cause, "hard stop: guarded work is dropped");
        this.work.set(None);
        *this.lock = None;
        Poll::Ready(Err(LockError::lost(cause)))
    }
}

#[pin_project::pinned_drop]
impl<F> PinnedDrop for Guarded<F> {
    fn drop(self: Pin<&mut Self>) {
        let this = self.project();
        this.lease.unwatch(this.watch);
    }
}
