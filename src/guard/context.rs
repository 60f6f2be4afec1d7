//! The context of guarded work: its lock.

use std::{cell::RefCell, fmt, sync::Arc, time::Duration};

use crate::{
    error::LockError,
    lock::{ActiveLease, InsideScope, Lock, Stopping, lease_getters},
    resource::Resource,
    token::FencingToken,
};

/// The lock that guarded work runs under.
///
/// Cheap to clone; a clone does not keep the lock. The closure of the work gets a context, and code
/// that is polled under a guard finds it with [`LockContext::current`].
#[derive(Clone)]
pub struct LockContext {
    lease: Arc<ActiveLease>,
}

crate::sync::thread_local! {
    static CURRENT: RefCell<Option<LockContext>> = const { RefCell::new(None) };
}

impl LockContext {
    fn new(lease: Arc<ActiveLease>) -> Self {
        Self { lease }
    }

    /// Returns the context of the guard that polls the calling code, the innermost of nested guards.
    /// `None` outside a guard, and in tasks and threads that guarded work spawned.
    pub fn current() -> Option<Self> {
        CURRENT.with(|current| current.borrow().clone())
    }

    lease_getters!();

    /// Checks that the lock is held now. Call it before effects, and periodically in long loops without an
    /// await.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] with the cause.
    pub fn ensure_valid(&self) -> Result<(), LockError> {
        if self.lease.is_valid() { Ok(()) } else { Err(LockError::lost(self.lease.loss())) }
    }

    /// Returns whether this work should end by itself, for loops without an await:
    /// [`stopping`](Self::stopping) has completed, or would complete at once.
    pub fn is_stopping(&self) -> bool {
        if self.lease.is_asked_to_stop() {
            return true;
        }
        let now = self.lease.timers().clock().now();
        self.lease.soft_deadline().is_none_or(|at| at <= now)
    }

    /// Completes when this work should end by itself: at the soft deadline, which is `stop_margin` before
    /// the [hard stop](crate::guard) and moves with each renewal, or when the lock is lost. Select between
    /// it and a long step of the work, to finish before the hard stop.
    ///
    /// It also completes `stop_margin` before the end of `max_hold`, when the lock is released, and when
    /// something else stops the work. The future is `'static`, and does not keep the lock.
    ///
    /// ```
    /// # use tower_redlock::Redlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tower_redlock::LockError> {
    /// # async fn next_batch() {}
    /// # async fn note_where_we_are() {}
    /// # let redlock = Redlock::embedded();
    /// redlock
    ///     .lock("reindex")
    ///     .run(|cx| async move {
    ///         for _ in 0..3 {
    ///             tokio::select! {
    ///                 () = next_batch() => {}
    ///                 () = cx.stopping() => return note_where_we_are().await,
    ///             }
    ///         }
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn stopping(&self) -> Stopping {
        Stopping::new(Arc::clone(&self.lease))
    }

    /// Records a heartbeat: progress of the work, from any task or thread. Required with
    /// [`heartbeat_within`](crate::LockOptions::heartbeat_within), and without effect otherwise.
    pub fn heartbeat(&self) {
        self.lease.heartbeat();
    }

    /// Lets [`stopping`](Self::stopping) complete now. The lock stays valid, and is renewed.
    #[cfg(feature = "scheduler")]
    pub(crate) fn ask_to_stop(&self) {
        self.lease.ask_to_stop();
    }

    /// Returns whether [`ask_to_stop`](Self::ask_to_stop) was called.
    #[cfg(feature = "scheduler")]
    pub(crate) fn is_asked_to_stop(&self) -> bool {
        self.lease.is_asked_to_stop()
    }

    /// Sets whether no heartbeats are expected of the work.
    #[cfg(feature = "scheduler")]
    pub(crate) fn set_resting(&self, is_resting: bool) {
        self.lease.set_resting(is_resting);
    }

    /// Sets whether the work blocks a thread, so that its holder is not polled.
    #[cfg(feature = "scheduler")]
    pub(crate) fn set_blocks(&self, blocks: bool) {
        self.lease.set_blocks(blocks);
    }

    /// Completes when the lock is lost.
    #[cfg(feature = "scheduler")]
    pub(crate) fn lost(&self) -> crate::lock::Lost {
        crate::lock::Lost::new(Arc::clone(&self.lease))
    }

    /// Records that the work has ended, and that the lock is kept until its end is stored: a loss stops
    /// nothing.
    #[cfg(feature = "scheduler")]
    pub(crate) fn keep(&self) {
        self.lease.keep();
    }

    /// Records that the holder was polled, though its work was not.
    #[cfg(feature = "scheduler")]
    pub(crate) fn note_poll(&self) {
        drop(self.lease.enter_poll());
    }

    /// Returns whether the lock ends, or has ended, because of `max_hold`.
    #[cfg(feature = "scheduler")]
    pub(crate) fn is_in_last_validity(&self) -> bool {
        self.lease.is_in_last_validity()
    }

    /// Reports each renewal, without waking the work.
    #[cfg(feature = "scheduler")]
    pub(crate) fn renewals(&self) -> crate::lock::Renewals {
        crate::lock::Renewals::new(Arc::clone(&self.lease))
    }

    pub(crate) const fn lease(&self) -> &Arc<ActiveLease> {
        &self.lease
    }

    /// Makes this the current context until the scope is dropped.
    pub(crate) fn enter(&self) -> ContextScope {
        let context = Some(self.clone());
        let outer = CURRENT.with(|current| current.replace(context));
        ContextScope { outer, _inside: self.lease.enter_work() }
    }
}

impl fmt::Debug for LockContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockContext")
            .field("resource", self.resource())
            .field("fencing_token", &self.fencing_token())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

impl Lock {
    /// Returns a context for code that runs under this lock.
    pub fn context(&self) -> LockContext {
        LockContext::new(Arc::clone(self.lease()))
    }
}

/// Restores the outer context, also when the guarded work panics.
pub(crate) struct ContextScope {
    outer: Option<LockContext>,
    _inside: InsideScope,
}

impl Drop for ContextScope {
    fn drop(&mut self) {
        let outer = self.outer.take();
        drop(CURRENT.with(|current| current.replace(outer)));
    }
}
