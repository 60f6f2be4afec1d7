use std::task::Context;

use super::active::ActiveLease;
use crate::{
    error::{LockError, LossCause, ReleaseError},
    lock::{queue::Ticket, release::Released, watchers::Watch},
};

impl ActiveLease {
    /// Registers a task to be woken at the next change of anything.
    pub(crate) fn watch(&self, watch: &mut Watch, cx: &Context<'_>) {
        self.state().watchers.watch(&mut watch.0, cx.waker());
    }

    pub(crate) fn unwatch(&self, watch: &mut Watch) {
        if let Some(key) = watch.0.take() {
            let waker = self.state().watchers.forget(key);
            drop(waker);
        }
    }

    /// The decision of the attempt, taken once; else the task is woken when it is there.
    pub(crate) fn decision(
        &self,
        watch: &mut Watch,
        cx: &Context<'_>,
    ) -> Option<Result<(), LockError>> {
        let mut state = self.state();
        let decision = state.decision.take();
        if decision.is_none() {
            state.watchers.watch(&mut watch.0, cx.waker());
        }
        decision
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
        let mut state = self.state();
        if let Some(cause) = &state.loss {
            return Some(Err(LockError::lost(cause.clone())));
        }
        let result = state.extension.clone();
        if result.is_none() {
            state.watchers.watch(&mut watch.0, cx.waker());
        }
        result
    }

    pub(crate) fn poll_released(
        &self,
        watch: &mut Watch,
        cx: &Context<'_>,
    ) -> Option<Result<Released, ReleaseError>> {
        let mut state = self.state();
        let result = state.released.clone();
        if result.is_none() {
            state.watchers.watch(&mut watch.0, cx.waker());
        }
        result
    }

    /// The cause of the loss once the lock is not held any more.
    pub(crate) fn poll_lost(&self, watch: &mut Watch, cx: &Context<'_>) -> Option<LossCause> {
        let mut state = self.state();
        if let Some(cause) = &state.loss {
            return Some(cause.clone());
        }
        if state.over {
            return Some(LossCause::Released);
        }
        state.watchers.watch(&mut watch.0, cx.waker());
        None
    }
}
