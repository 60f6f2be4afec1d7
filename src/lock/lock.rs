//! A held lock, and the futures that wait for its release, its loss or its soft deadline.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use super::{lease::ActiveLease, released::Released, waker_set::WakerKey};
use crate::{
    error::{LockError, LossCause, ReleaseError},
    resource::Resource,
    time::{Sleep, Timestamp},
    token::FencingToken,
};

/// Defines the methods of a lock and of its context that read the field `lease`.
macro_rules! lease_getters {
    () => {
        /// Returns what is locked.
        pub fn resource(&self) -> &Resource {
            self.lease.resource()
        }

        /// Returns whether the lock is shared ([`LockOptions::shared`](crate::LockOptions::shared)).
        pub fn is_shared(&self) -> bool {
            self.lease.is_shared()
        }

        /// Returns the number of the slot that is held, if it is one of
        /// [`LockOptions::slots`](crate::LockOptions::slots).
        pub fn slot(&self) -> Option<u32> {
            self.lease.resource().slot().map(|(number, _)| number)
        }

        /// Returns the fencing token of this grant, to pass along with each write; zero without
        /// fencing. See [`FencingToken`].
        pub fn fencing_token(&self) -> FencingToken {
            self.lease.token()
        }

        /// Returns the time until the lock expires unless it is renewed. Zero if it is lost.
        pub fn remaining(&self) -> Duration {
            self.lease.remaining()
        }

        /// Returns whether the lock is held at this moment, by the local clock.
        pub fn is_valid(&self) -> bool {
            self.lease.is_valid()
        }
    };
}
pub(crate) use lease_getters;

/// A held lock.
///
/// It is renewed until it is released, dropped or lost, or until `max_hold`. Dropping it releases
/// it in the background, also outside a runtime: to the next waiting task of this process, or to
/// the servers. [`release`](Lock::release) waits for the servers' acknowledgement.
///
/// A loss does not stop your code: check [`is_valid`](Lock::is_valid), await [`lost`](Lock::lost),
/// or let [`LockRequest::run`](super::LockRequest::run) do it. Locks are not re-entrant: a second
/// request for the same name in the same process waits like any other. One by the work that runs under
/// the lock fails at once, as it would wait for itself; a shared one within a shared lock joins.
#[doc(alias = "mutex", alias = "LockGuard")]
#[must_use = "a lock is released as soon as it is dropped"]
pub struct Lock {
    lease: Arc<ActiveLease>,
}

impl Lock {
    pub(super) fn new(lease: Arc<ActiveLease>) -> Self {
        Self { lease }
    }

    lease_getters!();

    /// Renews the lock now, and returns for how long it is valid.
    ///
    /// # Errors
    ///
    /// * [`LockError::Lost`] if the lock is lost.
    /// * [`LockError::NoQuorum`] if too few nodes answered within the node timeout. The validity
    ///   does not change, and automatic renewal continues.
    ///
    /// # Cancel safety
    ///
    /// Safe: the renewal continues without the future.
    #[doc(alias = "renew")]
    pub async fn extend(&self) -> Result<Duration, LockError> {
        if !self.is_valid() {
            return Err(LockError::lost(self.lease.loss()));
        }
        self.lease.extend();
        let mut watch = LeaseWatch::new(Arc::clone(&self.lease));
        let extended = poll_fn(|cx| watch.poll(cx, ActiveLease::poll_extension)).await;
        extended.map(|()| self.remaining())
    }

    /// Makes an exclusive lock a shared one ([`LockOptions::shared`](crate::LockOptions::shared)),
    /// without a gap: no other exclusive holder comes between. A shared lock is returned as it is.
    ///
    /// It is a renewal in another form. The lock is shared within this process at once, without waiting
    /// for the nodes. Each node shares it from the renewal on, which is repeated as any
    /// renewal, so shared requests of other processes are granted beside it once a quorum has answered.
    ///
    /// Its `max_hold` begins anew, and its fencing token is at least that of the exclusive lock. There
    /// is no upgrade; see [`LockOptions::shared`](crate::LockOptions::shared).
    ///
    /// # Errors
    ///
    /// After an error nothing is held.
    ///
    /// * [`LockError::Lost`] if the lock is lost.
    /// * [`LockError::InvalidRequest`] for a set of names, a slot, and a lock with a `stall_limit`,
    ///   `heartbeat_within` or `auto_extend(false)`.
    pub fn downgrade(self) -> Result<Self, LockError> {
        if self.is_shared() {
            return if self.is_valid() {
                Ok(self)
            } else {
                Err(LockError::lost(self.lease.loss()))
            };
        }
        self.lease.downgrade().map(Self::new)
    }

    /// Returns a future that completes with the cause when the lock is no longer held; after a
    /// release, with [`LossCause::Released`]. It may outlive the lock.
    pub fn lost(&self) -> Lost {
        Lost::new(Arc::clone(&self.lease))
    }

    /// Releases the lock, and waits for the acknowledgement of a quorum of nodes. A hand-off to a
    /// waiting task of this process needs none, nor does a lock that
    /// [lingers](crate::LockOptions::linger): both complete at once.
    ///
    /// Dropping the lock does the same without the wait.
    ///
    /// # Errors
    ///
    /// [`ReleaseError`] if too few nodes acknowledged within the node timeout. The release of the
    /// remaining keys is repeated in the background, and they expire with their TTL.
    ///
    /// # Cancel safety
    ///
    /// Safe: the release is sent at the call, not at the first poll.
    #[doc(alias = "unlock")]
    pub fn release(self) -> Release {
        // The drop calls it again, which has no effect.
        self.give_back()
    }

    pub(crate) fn give_back(&self) -> Release {
        self.lease.release(true);
        Release { watch: LeaseWatch::new(Arc::clone(&self.lease)) }
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

/// A future's registration with the lease that it watches; dropping it removes the registration.
#[derive(Debug)]
struct LeaseWatch {
    lease: Arc<ActiveLease>,
    key: WakerKey,
}

impl LeaseWatch {
    fn new(lease: Arc<ActiveLease>) -> Self {
        Self { lease, key: WakerKey::default() }
    }

    /// Polls the lease. If it has no answer, its next change wakes the task.
    fn poll<T>(
        &mut self,
        cx: &Context<'_>,
        poll: impl FnOnce(&ActiveLease, &mut WakerKey, &Context<'_>) -> Option<T>,
    ) -> Poll<T> {
        poll(&self.lease, &mut self.key, cx).map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for LeaseWatch {
    fn drop(&mut self) {
        self.lease.unwatch(&mut self.key);
    }
}

/// Completes with the cause when a lock is no longer held. Made by [`Lock::lost`].
///
/// # Cancel safety
///
/// Safe: it only watches.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Lost {
    watch: LeaseWatch,
}

impl Lost {
    pub(crate) fn new(lease: Arc<ActiveLease>) -> Self {
        Self { watch: LeaseWatch::new(lease) }
    }
}

impl Clone for Lost {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.watch.lease))
    }
}

impl Future for Lost {
    type Output = LossCause;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LossCause> {
        self.watch.poll(cx, ActiveLease::poll_lost)
    }
}

/// Waits until a quorum of nodes acknowledged a release. Made by [`Lock::release`].
///
/// # Errors
///
/// [`ReleaseError`] if too few nodes acknowledged within the node timeout.
///
/// # Cancel safety
///
/// Safe: the release is already sent.
#[derive(Debug)]
#[must_use = "dropping it does not undo the release, but hides its outcome"]
pub struct Release {
    watch: LeaseWatch,
}

impl Future for Release {
    type Output = Result<Released, ReleaseError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.watch.poll(cx, ActiveLease::poll_released)
    }
}

/// Completes when guarded work has to stop: at the soft deadline, or when the lock is lost or
/// released. Made by [`LockContext::stopping`](crate::LockContext::stopping).
///
/// # Cancel safety
///
/// Safe: it only watches.
#[must_use = "futures do nothing unless polled"]
pub struct Stopping {
    watch: LeaseWatch,
    /// The soft deadline, and a sleep until it.
    sleep: Option<(Timestamp, Sleep)>,
}

impl Stopping {
    pub(crate) fn new(lease: Arc<ActiveLease>) -> Self {
        Self { watch: LeaseWatch::new(lease), sleep: None }
    }
}

impl Clone for Stopping {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.watch.lease))
    }
}

impl Future for Stopping {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.watch.poll(cx, ActiveLease::poll_stopping).is_ready() {
                return Poll::Ready(());
            }
            let Some(at) = self.watch.lease.soft_deadline() else { return Poll::Ready(()) };
            let sleep = match &mut self.sleep {
                Some((known, sleep)) if *known == at => sleep,
                _ => {
                    let sleep = self.watch.lease.timers().sleep_until(at);
                    &mut self.sleep.insert((at, sleep)).1
                }
            };
            if Pin::new(sleep).poll(cx).is_pending() {
                return Poll::Pending;
            }
            // A renewal moves the deadline without a wake-up.
            if self.watch.lease.soft_deadline() == Some(at) {
                return Poll::Ready(());
            }
        }
    }
}

impl fmt::Debug for Stopping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stopping").field("lease", &self.watch.lease).finish_non_exhaustive()
    }
}

/// Reports renewals of a held lease to a task other than the work.
#[cfg(feature = "scheduler")]
#[derive(Debug)]
pub(crate) struct Renewals {
    lease: Arc<ActiveLease>,
    key: WakerKey,
    seen: u64,
}

#[cfg(feature = "scheduler")]
impl Renewals {
    pub(crate) fn new(lease: Arc<ActiveLease>) -> Self {
        Self { lease, key: WakerKey::default(), seen: 0 }
    }

    /// Waits for the next renewal, and returns the number of renewals so far; `None` once the lease
    /// is over. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<u64> {
        let lease = &self.lease;
        let renewed = poll_fn(|cx| lease.poll_renewed(self.seen, &mut self.key, cx)).await;
        self.seen = renewed.unwrap_or(self.seen);
        renewed
    }
}

#[cfg(feature = "scheduler")]
impl Drop for Renewals {
    fn drop(&mut self) {
        self.lease.unwatch_renewals(&mut self.key);
    }
}

#[cfg(all(test, feature = "testing", feature = "scheduler"))]
mod tests {
    use std::{
        future::IntoFuture,
        task::{Wake, Waker},
    };

    use super::*;
    use crate::{
        sync::atomic::{AtomicU32, Ordering},
        testing::{ManualClock, Nodes},
    };

    #[derive(Default)]
    struct Wakes(AtomicU32);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn lock() -> (ManualClock, Lock) {
        let clock = ManualClock::new();
        let redlock = Nodes::new(3, &clock).replica("a").redlock();
        let mut acquired = clock.spawn(redlock.lock("x").into_future());
        clock.settle();
        let lock = acquired.take().unwrap().unwrap();
        (clock, lock)
    }

    #[test]
    fn renewals_wake_their_watchers_only() {
        let (clock, lock) = lock();
        let work = Arc::new(Wakes::default());
        let mut key = WakerKey::default();

        lock.lease().watch(&mut key, &Context::from_waker(&Waker::from(Arc::clone(&work))));
        let mut renewals = lock.context().renewals();
        let mut seen = clock.spawn(async move {
            let mut seen = Vec::new();
            while let Some(times) = renewals.next().await {
                seen.push(times);
            }
            seen
        });
        // Renewals are due at each third of the validity.
        clock.advance(Duration::from_secs(10));
        assert_eq!(work.0.load(Ordering::SeqCst), 0);
        assert!(!seen.is_finished());
        drop(lock);
        clock.settle();

        assert_eq!(seen.take(), Some(vec![1, 2, 3]));
        assert_eq!(work.0.load(Ordering::SeqCst), 1, "the end wakes all");
    }

    #[test]
    fn stop_request_keeps_the_lock() {
        let (clock, lock) = lock();
        let stopping = clock.spawn(lock.context().stopping());

        clock.settle();
        assert!(!stopping.is_finished());
        lock.context().ask_to_stop();
        clock.settle();
        assert!(stopping.is_finished());
        clock.advance(Duration::from_secs(60));

        assert!(lock.is_valid(), "renewed as before");
    }
}
