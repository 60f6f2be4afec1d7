//! A request for a lock, by a thread.

use std::{
    future::IntoFuture,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use super::{BlockingLock, wait::wait};
use crate::{
    error::LockError,
    guard::{GuardError, Hold, LockContext, Polled},
    lock::{LockOptions, LockRequest, Overrun, option_setters},
    time::Timers,
};

/// A request for a lock: acquire it, or run work under it. Made by
/// [`Blocking::lock`](super::Blocking::lock).
///
/// Options that are not set are the manager's; they mean the same as for a [`LockRequest`].
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until it is acquired or run"]
pub struct BlockingRequest {
    request: LockRequest,
}

/// # Options
impl BlockingRequest {
    pub(super) fn new(request: LockRequest) -> Self {
        Self { request }
    }

    #[cfg(all(test, feature = "once", feature = "scheduler"))]
    pub(crate) fn lock_request(self) -> LockRequest {
        self.request
    }

    /// Sets each option that is set in `options`. The others keep their values.
    pub fn options(self, options: LockOptions) -> Self {
        Self { request: self.request.options(options) }
    }

    option_setters! {
        /// See [`LockOptions::ttl`].
        pub fn ttl(self, ttl: Duration) -> Self;

        /// See [`LockOptions::wait`].
        pub fn wait(self, wait: Duration) -> Self;

        /// See [`LockOptions::wait_without_quorum`].
        pub fn wait_without_quorum(self, wait: bool) -> Self;

        /// See [`LockOptions::max_hold`].
        pub fn max_hold(self, max_hold: Duration) -> Self;

        /// See [`LockOptions::linger`].
        pub fn linger(self, linger: Duration) -> Self;
    }

    /// Requests a shared lock. See [`LockOptions::shared`].
    pub fn shared(self) -> Self {
        self.options(LockOptions::new().shared(true))
    }

    option_setters! {
        /// See [`LockOptions::slots`].
        pub fn slots(self, slots: u32) -> Self;

        /// See [`LockOptions::max_attempts`].
        pub fn max_attempts(self, attempts: u32) -> Self;

        /// See [`LockOptions::auto_extend`].
        pub fn auto_extend(self, auto_extend: bool) -> Self;

        /// See [`LockOptions::overrun`]. The closure of [`run`](Self::run) counts as one poll.
        pub fn overrun(self, overrun: Overrun) -> Self;
    }
}

impl BlockingRequest {
    fn timers(&self) -> [Arc<Timers>; 1] {
        [Arc::clone(self.request.timers())]
    }

    /// Waits until the lock is acquired, at most for the [`wait`](Self::wait) of the request.
    ///
    /// # Errors
    ///
    /// Those of [`Acquire`](crate::lock::Acquire).
    ///
    /// # Panics
    ///
    /// In an [async context](crate::blocking#async-contexts) of tokio.
    #[track_caller]
    pub fn acquire(self) -> Result<BlockingLock, LockError> {
        wait(&self.timers(), self.request.into_future()).map(BlockingLock::new)
    }

    /// Acquires the lock, runs `work` under it on this thread, releases the lock, and waits until a
    /// quorum has acknowledged the release, at most for the node timeout.
    ///
    /// The work is not stopped from outside: it has to call
    /// [`ensure_valid`](LockContext::ensure_valid). See [the module](crate::blocking#no-hard-stop).
    /// The options for polls count the work as one poll.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lock was lost before the work returned: its output is dropped, and
    /// part of the work may have run beside another holder. After every other error the work did not
    /// start.
    ///
    /// # Panics
    ///
    /// If the work panics; the lock is then released. In an
    /// [async context](crate::blocking#async-contexts) of tokio; the work is then not run.
    ///
    /// ```
    /// use tower_redlock::{LockError, Redlock};
    ///
    /// # fn main() -> Result<(), LockError> {
    /// let redlock = Redlock::embedded().blocking();
    /// let token = redlock.lock("invoice:42").run(|cx| cx.fencing_token())?;
    /// assert!(token.get() > 0);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn run<T>(self, work: impl FnOnce(LockContext) -> T) -> Result<T, LockError> {
        let timers = self.timers();
        let lock = wait(&timers, self.request.acquire_for_work())?;
        let (mut hold, work) = Hold::start(lock, |cx| move || work(cx))?;
        // Nothing polls again: the work returns its output.
        let mut cx = Context::from_waker(Waker::noop());
        let output = match hold.poll(&mut cx, |_| Poll::Ready(work())) {
            Polled::Ready(output) => output,
            Polled::Pending | Polled::Over => return Err(hold.lease().too_slow()),
        };
        if !hold.lease().is_valid() {
            return Err(LockError::lost(hold.lease().loss()));
        }
        // A release without an acknowledgement is repeated in the background.
        let _ = wait(&timers, hold.give_back());
        Ok(output)
    }

    /// Like [`run`](Self::run), for work that can itself fail.
    ///
    /// # Errors
    ///
    /// [`GuardError::Lock`] as [`run`](Self::run) describes, also for work that returned the error of
    /// [`ensure_valid`](LockContext::ensure_valid); [`GuardError::Work`] is the work's own.
    ///
    /// Panics are as for [`run`](Self::run).
    #[track_caller]
    pub fn try_run<T, E>(
        self,
        work: impl FnOnce(LockContext) -> Result<T, E>,
    ) -> Result<T, GuardError<E>> {
        self.run(work)?.map_err(GuardError::Work)
    }
}

#[cfg(all(test, feature = "once", feature = "scheduler"))]
mod tests {
    use super::*;
    use crate::Redlock;

    #[test]
    fn setters_set_their_options() {
        let time = Duration::from_millis(4_321);
        let new = LockOptions::new();

        let set = Redlock::embedded()
            .blocking()
            .lock("x")
            .ttl(time)
            .wait(time * 2)
            .max_hold(time * 3)
            .linger(time * 4)
            .shared()
            .slots(5)
            .max_attempts(6)
            .auto_extend(false)
            .overrun(Overrun::Abort);

        let times = new.ttl(time).wait(time * 2).max_hold(time * 3).linger(time * 4);
        let others = new.shared(true).slots(5).max_attempts(6).auto_extend(false);
        let expected = times.or(others).overrun(Overrun::Abort);
        assert_eq!(set.lock_request().set_options(), expected);
    }
}
