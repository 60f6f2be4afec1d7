use std::{sync::atomic::Ordering, task::Context};

use super::active::{ActiveLease, State};
use crate::{
    error::{LockError, LossCause, ReleaseError},
    lock::{queue::Ticket, release::Released, watchers::Watch},
};

impl ActiveLease {
    /// Registers a task to be woken at the next change of anything.
    pub(crate) fn watch(&self, watch: &mut Watch, cx: &Context<'_>) {
        self.ask(watch, cx, |_| None::<()>);
    }

    pub(crate) fn unwatch(&self, watch: &mut Watch) {
        if let Some(key) = watch.0.take() {
            let waker = self.state().watchers.forget(key);
            drop(waker);
        }
    }

    /// Asks the state; where it has no answer, the task is woken at the next change.
    fn ask<T>(
        &self,
        watch: &mut Watch,
        cx: &Context<'_>,
        ask: impl FnOnce(&mut State) -> Option<T>,
    ) -> Option<T> {
        let mut state = self.state();
        let answer = ask(&mut state);
        let replaced = match answer {
            Some(_) => None,
            None => state.watchers.watch(&mut watch.0, cx.waker()),
        };
        drop(state);
        drop(replaced);
        answer
    }

    /// The decision of the attempt, taken once; else the task is woken when it is there.
    pub(crate) fn decision(
        &self,
        watch: &mut Watch,
        cx: &Context<'_>,
    ) -> Option<Result<(), LockError>> {
        self.ask(watch, cx, |state| state.decision.take())
    }

    /// The turn of an attempt that failed, for the next attempt.
    pub(crate) fn take_ticket(&self) -> Option<Ticket> {
        self.state().ticket.take()
    }

    pub(crate) fn poll_extension(
        &self,
        watch: &mut Watch,
        cx: &Context<'_>,
    ) -> Option<Result<(), LockError>> {
        self.ask(watch, cx, |state| match &state.loss {
            Some(cause) => Some(Err(LockError::lost(cause.clone()))),
            None => state.extension.clone(),
        })
    }

    pub(crate) fn poll_released(
        &self,
        watch: &mut Watch,
        cx: &Context<'_>,
    ) -> Option<Result<Released, ReleaseError>> {
        self.ask(watch, cx, |state| state.released.clone())
    }

    /// The cause of the loss once the lock is not held any more.
    pub(crate) fn poll_lost(&self, watch: &mut Watch, cx: &Context<'_>) -> Option<LossCause> {
        self.ask(watch, cx, |state| match &state.loss {
            Some(cause) => Some(cause.clone()),
            None => state.over.then_some(LossCause::Released),
        })
    }

    /// Whether the work is to come to an end, whatever the time.
    pub(crate) fn poll_stopping(&self, watch: &mut Watch, cx: &Context<'_>) -> Option<()> {
        self.ask(watch, cx, |state| {
            (state.is_over() || self.asked_to_stop.load(Ordering::Relaxed)).then_some(())
        })
    }

    /// How often the lease has been renewed, once that is more than `seen`; `None` once it is over.
    /// The task is woken when either is so, and by nothing else.
    #[cfg(feature = "scheduler")]
    pub(crate) fn poll_renewed(
        &self,
        seen: u64,
        watch: &mut Watch,
        cx: &Context<'_>,
    ) -> std::task::Poll<Option<u64>> {
        use std::task::Poll;

        let mut state = self.state();
        if state.renewals > seen {
            return Poll::Ready(Some(state.renewals));
        }
        if state.is_over() {
            return Poll::Ready(None);
        }
        let replaced = state.renewal_watchers.watch(&mut watch.0, cx.waker());
        drop(state);
        drop(replaced);
        Poll::Pending
    }

    #[cfg(feature = "scheduler")]
    pub(crate) fn unwatch_renewals(&self, watch: &mut Watch) {
        if let Some(key) = watch.0.take() {
            let waker = self.state().renewal_watchers.forget(key);
            drop(waker);
        }
    }
}
