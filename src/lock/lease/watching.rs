use std::{sync::atomic::Ordering, task::Context};

use super::{active::ActiveLease, shared::Grant};
use crate::{
    error::{LockError, LossCause, ReleaseError},
    lock::{queue::Ticket, release::Released, watchers::Watch},
};

impl ActiveLease {
    /// Registers a task to be woken at the next change of anything.
    pub(crate) fn watch(&self, watch: &mut Watch, cx: &Context<'_>) {
        self.ask(watch, cx, |_| None, ());
    }

    pub(crate) fn unwatch(&self, watch: &mut Watch) {
        if let Some(key) = watch.0.take() {
            // Who watched an earlier grant has been woken, and has no place any more.
            let waker = self.state().map(|mut state| state.grant.watchers.forget(key));
            drop(waker);
        }
    }

    /// Asks the present grant; where it has no answer, the task is woken at the next change.
    /// `handed_on`: the answer where this grant has been handed on.
    fn ask<T>(
        &self,
        watch: &mut Watch,
        cx: &Context<'_>,
        ask: impl FnOnce(&mut Grant) -> Option<T>,
        handed_on: T,
    ) -> Option<T> {
        let waker = crate::sync::clone_waker(cx.waker());
        let Some(mut state) = self.state() else { return Some(handed_on) };
        let answer = ask(&mut state.grant);
        let replaced = match answer {
            Some(_) => Some(waker),
            None => state.grant.watchers.watch(&mut watch.0, waker),
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
        self.ask(watch, cx, |grant| grant.decision.take(), Err(released()))
    }

    /// Registers a task to be woken by the decision; true if there is nothing to wait for.
    pub(crate) fn watch_for_decision(&self, watch: &mut Watch, cx: &Context<'_>) -> bool {
        self.ask(watch, cx, |grant| grant.decision.as_ref().map(|_| ()), ()).is_some()
    }

    /// The turn of an attempt that failed, for the next attempt.
    pub(crate) fn take_ticket(&self) -> Option<Ticket> {
        self.state()?.ticket.take()
    }

    pub(crate) fn poll_extension(
        &self,
        watch: &mut Watch,
        cx: &Context<'_>,
    ) -> Option<Result<(), LockError>> {
        let extension = |grant: &mut Grant| match &grant.loss {
            Some(cause) => Some(Err(LockError::lost(cause.clone()))),
            None => grant.extension.clone(),
        };
        self.ask(watch, cx, extension, Err(released()))
    }

    pub(crate) fn poll_released(
        &self,
        watch: &mut Watch,
        cx: &Context<'_>,
    ) -> Option<Result<Released, ReleaseError>> {
        self.ask(watch, cx, |grant| grant.released.clone(), Ok(Released::Released))
    }

    /// The cause of the loss once the lock is not held any more.
    pub(crate) fn poll_lost(&self, watch: &mut Watch, cx: &Context<'_>) -> Option<LossCause> {
        let lost = |grant: &mut Grant| match &grant.loss {
            Some(cause) => Some(cause.clone()),
            None => grant.over.then_some(LossCause::Released),
        };
        self.ask(watch, cx, lost, LossCause::Released)
    }

    /// Whether the work is to come to an end, whatever the time.
    pub(crate) fn poll_stopping(&self, watch: &mut Watch, cx: &Context<'_>) -> Option<()> {
        let stopping = |grant: &mut Grant| {
            (grant.is_over() || self.asked_to_stop.load(Ordering::Relaxed)).then_some(())
        };
        self.ask(watch, cx, stopping, ())
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

        // Declared before the guard, so that it is dropped after it.
        let waker = crate::sync::clone_waker(cx.waker());
        let Some(mut state) = self.state() else { return Poll::Ready(None) };
        let grant = &mut state.grant;
        if grant.renewals > seen {
            return Poll::Ready(Some(grant.renewals));
        }
        if grant.is_over() {
            return Poll::Ready(None);
        }
        let replaced = grant.renewal_watchers.watch(&mut watch.0, waker);
        drop(state);
        drop(replaced);
        Poll::Pending
    }

    #[cfg(feature = "scheduler")]
    pub(crate) fn unwatch_renewals(&self, watch: &mut Watch) {
        if let Some(key) = watch.0.take() {
            let waker = self.state().map(|mut state| state.grant.renewal_watchers.forget(key));
            drop(waker);
        }
    }
}

fn released() -> LockError {
    LockError::lost(LossCause::Released)
}
