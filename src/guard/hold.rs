//! The hard stop: polls under a lock.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use super::LockContext;
use crate::{
    error::LockError,
    events::LockEventKind,
    lock::{ActiveLease, Lock, WakerKey},
    metrics,
    switches::{self, Switch},
};

/// A lock under which a future, and then the body of its response, is polled.
#[derive(Debug)]
pub(crate) struct Hold {
    context: LockContext,
    watch: WakerKey,
    /// `None` once it is taken out.
    lock: Option<Lock>,
}

/// The result of a poll under a lock.
pub(crate) enum Polled<T> {
    Pending,
    /// The result of the work, whose poll began under the lock.
    Ready(T),
    /// The lock has ended, so the work must be dropped.
    Over,
}

impl Hold {
    /// Creates the work with the context set, unless the validity has ended.
    pub(crate) fn start<F>(
        lock: Lock,
        make: impl FnOnce(LockContext) -> F,
    ) -> Result<(Self, F), LockError> {
        let hold = Self { context: lock.context(), watch: WakerKey::default(), lock: Some(lock) };
        match hold.make(make) {
            Ok(work) => Ok((hold, work)),
            Err(_) => Err(hold.lease().too_slow()),
        }
    }

    /// Creates further work under the same lock, like [`start`](Self::start).
    #[cfg(feature = "http")]
    pub(crate) fn continue_with<F>(
        self,
        make: impl FnOnce(LockContext) -> F,
    ) -> Result<(Self, F), LockError> {
        match self.make(make) {
            Ok(work) => Ok((self, work)),
            Err(make) => Err(self.stop(|| drop(make))),
        }
    }

    fn make<F, M: FnOnce(LockContext) -> F>(&self, make: M) -> Result<F, M> {
        let lease = self.lease();
        let mut polled = lease.enter_poll();
        if !lease.is_valid() {
            return Err(make);
        }
        polled.begin();
        let _scope = self.context.enter();
        Ok(make(self.context.clone()))
    }

    /// Polls the work if the lock is valid (P2).
    pub(crate) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Polled<T> {
        let lease = self.context.lease();
        // Registered before the check below, so that a later loss wakes this task.
        lease.watch(&mut self.watch, cx);
        let mut in_poll = lease.enter_poll();
        if !lease.is_valid() && !switches::is_out(Switch::HardStop) {
            return Polled::Over;
        }
        in_poll.begin();
        let polled = {
            let _scope = self.context.enter();
            poll(cx)
        };
        drop(in_poll);
        let is_over = !lease.is_valid();
        // A hard stop during the poll is not an overrun if the poll ended within the validity.
        if is_over && lease.is_past_end() {
            lease.note_overrun();
            crate::log::warn!(
                resource = %lease.resource(),
                "guarded work was inside a poll when its lock ended; only fencing protects its effects"
            );
        }
        match polled {
            Poll::Ready(output) => Polled::Ready(output),
            Poll::Pending if is_over => Polled::Over,
            Poll::Pending => Polled::Pending,
        }
    }

    /// Returns a value that was created under the lock if the lock is still valid. Otherwise drops
    /// the value, as the work did not end under the lock.
    #[cfg(feature = "http")]
    pub(crate) fn still_covers<T>(self, made: T) -> Result<(T, Self), LockError> {
        if self.lease().is_valid() { Ok((made, self)) } else { Err(self.stop(|| drop(made))) }
    }

    /// Drops the work, then releases the lock.
    pub(crate) fn stop(self, drop_work: impl FnOnce()) -> LockError {
        let cause = self.lease().loss();
        // Dropped before the metrics and the log are written, which may be slow.
        drop_work();
        metrics::hard_stop(&cause);
        self.lease().send_event(|| LockEventKind::HardStopped {
            resource: self.lease().resource().clone(),
            shared: self.lease().is_shared(),
            token: self.lease().token(),
        });
        crate::log::warn!(
            resource = %self.lease().resource(),
            token = self.lease().token().get(),
            %cause,
            "hard stop: guarded work was dropped"
        );
        LockError::lost(cause)
    }

    /// Releases the lock, and returns the outcome of the release.
    pub(crate) fn give_back(self) -> crate::lock::Release {
        self.into_lock().release()
    }

    /// Returns the lock, whose work has ended.
    pub(crate) fn into_lock(mut self) -> Lock {
        self.lock.take().expect("it is taken once")
    }

    pub(crate) fn lease(&self) -> &Arc<ActiveLease> {
        self.context.lease()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.context.lease().unwatch(&mut self.watch);
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use std::{
        future::IntoFuture,
        task::{Wake, Waker},
        time::Duration,
    };

    use super::*;
    use crate::{
        hand_clock::HandClock,
        sync::atomic::{AtomicUsize, Ordering},
        testing::{ManualClock, Nodes},
    };

    /// Returns whether a poll overruns that lasts from the start of the lease until `before` its
    /// end.
    fn overruns(before: Duration) -> bool {
        let clock = ManualClock::new();
        let builder = Nodes::new(3, &clock).replica("a").builder();
        let redlock = builder.clock(HandClock::over(clock.clone())).build().unwrap();
        let mut acquired = clock.spawn(redlock.lock("x").auto_extend(false).into_future());
        clock.settle();
        let lock = acquired.take().unwrap().unwrap();
        let lease = Arc::clone(lock.lease());
        let (mut hold, ()) = Hold::start(lock, |_| ()).unwrap();
        let polled = hold.poll(&mut Context::from_waker(Waker::noop()), |_| {
            clock.advance(lease.remaining().saturating_sub(before));
            Poll::<()>::Pending
        });
        assert!(matches!(polled, Polled::Over), "the lock is lost in either case");
        lease.has_overrun()
    }

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn release_wakes_no_ended_work() {
        let clock = ManualClock::new();
        let redlock = Nodes::new(3, &clock).replica("a").redlock();
        let mut acquired = clock.spawn(redlock.lock("x").into_future());
        clock.settle();
        let (mut hold, ()) = Hold::start(acquired.take().unwrap().unwrap(), |_| ()).unwrap();
        let woken = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&woken));

        let polled = hold.poll(&mut Context::from_waker(&waker), |_| Poll::<()>::Pending);

        assert!(matches!(polled, Polled::Pending));

        drop((hold, waker));
        clock.settle();
        assert_eq!((woken.0.load(Ordering::Relaxed), Arc::strong_count(&woken)), (0, 1));
    }

    #[test]
    fn poll_may_outlast_hard_stop() {
        assert!(!overruns(Duration::from_nanos(1)));
    }

    #[test]
    fn a_poll_overruns_at_the_end() {
        assert!(overruns(Duration::ZERO));
    }
}
