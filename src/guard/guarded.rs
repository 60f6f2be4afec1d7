//! A future under a lock.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project::pin_project;

use super::{Hold, LockContext, hold::Polled};
use crate::{error::LockError, lock::Lock};

/// A future that is polled only while its lock is valid. It outputs its result with the hold, whose
/// drop releases the lock.
#[pin_project]
pub(crate) struct Guarded<F> {
    /// Dropped before the lock is released: fields are dropped in this order.
    #[pin]
    work: Option<F>,
    hold: Option<Hold>,
}

impl<F> Guarded<F> {
    /// Starts work under a lock.
    pub(crate) fn start(
        lock: Lock,
        make: impl FnOnce(LockContext) -> F,
    ) -> Result<Self, LockError> {
        let (hold, work) = Hold::start(lock, make)?;
        Ok(Self { work: Some(work), hold: Some(hold) })
    }

    /// Starts further work under the lock of other work.
    #[cfg(feature = "http")]
    pub(crate) fn continue_with(
        hold: Hold,
        make: impl FnOnce(LockContext) -> F,
    ) -> Result<Self, LockError> {
        let (hold, work) = hold.continue_with(make)?;
        Ok(Self { work: Some(work), hold: Some(hold) })
    }
}

#[cfg(feature = "scheduler")]
impl<F> Guarded<F> {
    /// Drops the work, and returns the hold unless it ended before.
    pub(crate) fn stop(self: Pin<&mut Self>) -> Option<Hold> {
        let mut this = self.project();
        this.work.set(None);
        this.hold.take()
    }
}

impl<F: Future> Future for Guarded<F> {
    type Output = Result<(F::Output, Hold), LockError>;

    /// # Panics
    ///
    /// If polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let after = "polled after it was ready";
        let work = this.work.as_mut().as_pin_mut().expect(after);
        let polled = this.hold.as_mut().expect(after).poll(cx, |cx| work.poll(cx));
        if matches!(polled, Polled::Pending) {
            return Poll::Pending;
        }
        let hold = this.hold.take().expect(after);
        Poll::Ready(match polled {
            Polled::Ready(output) => {
                this.work.set(None);
                Ok((output, hold))
            }
            _ => Err(hold.stop(|| this.work.set(None))),
        })
    }
}
