//! Signals between a grant and its holder: polls of futures, stop requests, heartbeats, stall
//! checks.

use std::{
    sync::Arc,
    task::{Context, Waker},
};

use super::{active::ActiveLease, grants::Grant};
use crate::{
    error::{LockError, LossCause, ReleaseError},
    lock::{released::Released, stall::StallWatch, waker_set::WakerKey},
    quorum::{Event, Halt},
    sync::atomic::Ordering,
    time::Timestamp,
};

impl ActiveLease {
    /// Registers a task to be woken at the next change.
    pub(crate) fn watch(&self, key: &mut WakerKey, cx: &Context<'_>) {
        self.poll_grant(key, cx, |_| None, ());
    }

    /// Removes a registration. After a hand-off there is none: its task was woken.
    pub(crate) fn unwatch(&self, key: &mut WakerKey) {
        if key.is_registered() {
            let waker =
                self.state().and_then(|mut state| state.grants.current.watchers.remove(key));
            drop(waker);
        }
    }

    /// Polls the grant. While it has no answer, its next change wakes the task. After a hand-off,
    /// the answer is `handed_on`.
    fn poll_grant<T>(
        &self,
        key: &mut WakerKey,
        cx: &Context<'_>,
        poll: impl FnOnce(&mut Grant) -> Option<T>,
        handed_on: T,
    ) -> Option<T> {
        let waker = crate::sync::clone_waker(cx.waker());
        let Some(mut state) = self.state() else { return Some(handed_on) };
        let answer = poll(&mut state.grants.current);
        let unused: Option<Waker> = match answer {
            Some(_) => Some(waker),
            None => state.grants.current.watchers.register(key, waker),
        };
        drop(state);
        drop(unused);
        answer
    }

    /// Polls for the decision of the attempt, which is returned once.
    pub(crate) fn poll_decision(
        &self,
        key: &mut WakerKey,
        cx: &Context<'_>,
    ) -> Option<Result<(), LockError>> {
        let decision = |grant: &mut Grant| Some(grant.decision.take()?.map_err(|error| *error));
        self.poll_grant(key, cx, decision, Err(released()))
    }

    /// Registers a task to be woken by the decision. Returns whether there is one already.
    pub(crate) fn watch_for_decision(&self, key: &mut WakerKey, cx: &Context<'_>) -> bool {
        self.poll_grant(key, cx, |grant| grant.decision.as_ref().map(|_| ()), ()).is_some()
    }

    pub(crate) fn poll_extension(
        &self,
        key: &mut WakerKey,
        cx: &Context<'_>,
    ) -> Option<Result<(), LockError>> {
        let extension = |grant: &mut Grant| match &grant.loss {
            Some(cause) => Some(Err(LockError::lost(LossCause::clone(cause)))),
            None => Some(grant.extension.clone()?.map_err(|error| *error)),
        };
        self.poll_grant(key, cx, extension, Err(released()))
    }

    pub(crate) fn poll_released(
        &self,
        key: &mut WakerKey,
        cx: &Context<'_>,
    ) -> Option<Result<Released, ReleaseError>> {
        let released = |grant: &mut Grant| Some(grant.released.clone()?.map_err(|error| *error));
        self.poll_grant(key, cx, released, Ok(Released::Released))
    }

    pub(crate) fn poll_lost(&self, key: &mut WakerKey, cx: &Context<'_>) -> Option<LossCause> {
        let lost = |grant: &mut Grant| {
            grant.loss.as_deref().cloned().or_else(|| grant.over.then_some(LossCause::Released))
        };
        self.poll_grant(key, cx, lost, LossCause::Released)
    }

    /// Polls for a reason to stop the work now, whatever the soft deadline is.
    pub(crate) fn poll_stopping(&self, key: &mut WakerKey, cx: &Context<'_>) -> Option<()> {
        let stopping = |grant: &mut Grant| {
            (grant.is_over() || self.asked_to_stop.load(Ordering::Relaxed)).then_some(())
        };
        self.poll_grant(key, cx, stopping, ())
    }

    /// Returns the number of renewals once it is more than `seen`; `None` once the lease is over.
    /// Only these two wake the task.
    #[cfg(feature = "scheduler")]
    pub(crate) fn poll_renewed(
        &self,
        seen: u64,
        key: &mut WakerKey,
        cx: &Context<'_>,
    ) -> std::task::Poll<Option<u64>> {
        use std::task::Poll;

        // Declared before the guard, so that it is dropped after the guard.
        let waker = crate::sync::clone_waker(cx.waker());
        let Some(mut state) = self.state() else { return Poll::Ready(None) };
        let grant = &mut state.grants.current;
        if grant.renewals > seen {
            return Poll::Ready(Some(grant.renewals));
        }
        if grant.is_over() {
            return Poll::Ready(None);
        }
        let replaced = grant.renewal_watchers.get_or_insert_default().register(key, waker);
        drop(state);
        drop(replaced);
        Poll::Pending
    }

    #[cfg(feature = "scheduler")]
    pub(crate) fn unwatch_renewals(&self, key: &mut WakerKey) {
        let waker = self.state().and_then(|mut state| {
            state.grants.current.renewal_watchers.as_mut().and_then(|watchers| watchers.remove(key))
        });
        drop(waker);
    }

    /// Wakes the tasks that await [`Stopping`](crate::lock::Stopping). The lock stays valid, and is
    /// renewed.
    #[cfg(feature = "scheduler")]
    pub(crate) fn ask_to_stop(&self) {
        let mut wakers = Vec::new();
        {
            let Some(mut state) = self.state() else { return };
            self.asked_to_stop.store(true, Ordering::Relaxed);
            state.grants.current.watchers.take(&mut wakers);
        }
        crate::sync::wake_all(wakers);
    }

    pub(crate) fn is_asked_to_stop(&self) -> bool {
        self.asked_to_stop.load(Ordering::Relaxed)
    }

    pub(crate) fn heartbeat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Sets whether no heartbeats are expected: between attempts, and after the end of the work.
    pub(crate) fn set_resting(&self, is_resting: bool) {
        self.is_resting.store(is_resting, Ordering::Relaxed);
    }

    pub(crate) fn is_resting(&self) -> bool {
        self.is_resting.load(Ordering::Relaxed)
    }

    /// Sets whether no polls are expected, because the work blocks a thread.
    pub(crate) fn set_blocks(&self, blocks: bool) {
        self.blocks.store(blocks, Ordering::Relaxed);
    }

    pub(crate) fn blocks(&self) -> bool {
        self.blocks.load(Ordering::Relaxed)
    }

    /// Stops the renewal. Returns false if the lease is over already.
    pub(crate) fn halt(&self, why: Halt) -> bool {
        self.handle(Event::Halt(why));
        self.state().is_some_and(|state| !state.grants.current.is_over())
    }

    /// Schedules a stall check, unless the lease is over.
    pub(crate) fn watch_stall(&self, watch: Arc<StallWatch>, at: Timestamp) {
        let Some(mut state) = self.state() else { return };
        if state.grants.current.is_over() {
            return;
        }
        let (key, nudge) = self.timers().insert_locked(at, Waker::from(watch));
        state.grants.current.stall_timer = Some(key);
        drop(state);
        self.timers().nudge(nudge);
    }
}

fn released() -> LockError {
    LockError::lost(LossCause::Released)
}
