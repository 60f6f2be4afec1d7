//! State that the clones of a candidate share.

use std::{future::pending, sync::Arc, time::SystemTime};

use tokio::sync::watch;

use super::Leadership;
use crate::{
    error::LockError,
    guard::{LockContext, is_inside},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Timestamp,
    token::FencingToken,
};

/// What the clones of a candidate share.
#[derive(Debug, Default)]
pub(super) struct CandidateShared {
    is_running: AtomicBool,
    /// Set once, for good.
    stopped: watch::Sender<bool>,
    current_term: Mutex<Option<CurrentTerm>>,
    cooldown: Mutex<Option<Cooldown>>,
    leadership: watch::Sender<Leadership>,
}

/// The current term.
#[derive(Clone, Debug)]
struct CurrentTerm {
    context: LockContext,
    resign: watch::Sender<bool>,
    /// Closed when the lock is released.
    over: watch::Receiver<()>,
}

/// The time after a resignation or a hang in which this candidate does not campaign.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cooldown {
    pub(super) until: Timestamp,
    /// Token of the ended term.
    pub(super) token: FencingToken,
}

impl CandidateShared {
    pub(super) fn is_leader(&self) -> bool {
        let current_term = crate::sync::lock(&self.current_term).clone();
        current_term.is_some_and(|current_term| current_term.context.is_valid())
    }

    pub(super) fn transitions(&self) -> watch::Receiver<Leadership> {
        self.leadership.subscribe()
    }

    pub(super) fn is_standby(&self, leader: Option<Arc<str>>) {
        let standby = Leadership::Standby { leader };
        self.leadership.send_if_modified(|known| {
            let is_new = *known != standby;
            *known = standby;
            is_new
        });
    }

    pub(super) async fn resign(self: &Arc<Self>) {
        let current_term = crate::sync::lock(&self.current_term).clone();
        let Some(CurrentTerm { context, resign, mut over }) = current_term else { return };
        context.ask_to_stop();
        resign.send_replace(true);
        drop(resign);
        if is_inside(self) {
            return;
        }
        // Nothing is sent: the channel closes with the term.
        while over.changed().await.is_ok() {}
    }

    pub(super) fn set_cooldown(&self, cooldown: Option<Cooldown>) {
        *crate::sync::lock(&self.cooldown) = cooldown;
    }

    pub(super) fn cooldown(&self) -> Option<Cooldown> {
        *crate::sync::lock(&self.cooldown)
    }

    pub(super) async fn stop(self: &Arc<Self>) {
        // The run asks its work to stop.
        self.stopped.send_replace(true);
        if is_inside(self) {
            return;
        }
        let mut leadership = self.leadership.subscribe();
        // The sender is `self`.
        let _ = leadership.wait_for(|now| *now == Leadership::NotRunning).await;
    }

    pub(super) fn has_stopped(&self) -> bool {
        *self.stopped.borrow()
    }

    /// Completes when the candidate is stopped.
    pub(super) async fn is_stopped(&self) {
        let _ = self.stopped.subscribe().wait_for(|stopped| *stopped).await;
    }

    /// Begins a run. Only one may be under way.
    pub(super) fn stand(self: &Arc<Self>, name: &str) -> Result<RunGuard, LockError> {
        if self.is_running.swap(true, Ordering::AcqRel) {
            let text = format!(
                "the candidate for {name} runs already; a second one in this process needs a Leader of its own"
            );
            return Err(LockError::InvalidRequest(text.into()));
        }
        self.is_standby(None);
        Ok(RunGuard { shared: Arc::clone(self) })
    }
}

/// Marks the candidate as running until it is dropped.
pub(super) struct RunGuard {
    shared: Arc<CandidateShared>,
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.shared.leadership.send_replace(Leadership::NotRunning);
        self.shared.is_running.store(false, Ordering::Release);
    }
}

/// Publishes a term until it is dropped, after the release of the lock.
pub(super) struct TermGuard {
    shared: Arc<CandidateShared>,
    context: LockContext,
    resign: watch::Receiver<bool>,
    _over: watch::Sender<()>,
}

impl TermGuard {
    pub(super) fn begin(
        shared: &Arc<CandidateShared>,
        context: LockContext,
        since: SystemTime,
    ) -> Self {
        let token = context.fencing_token();
        let (resign, asked) = watch::channel(false);
        let (ends, over) = watch::channel(());
        let current_term = CurrentTerm { context: context.clone(), resign, over };
        let former = crate::sync::lock(&shared.current_term).replace(current_term);
        // Wakes tasks that wait for its end.
        drop(former);
        shared.leadership.send_replace(Leadership::Leading { token, since });
        Self { shared: Arc::clone(shared), context, resign: asked, _over: ends }
    }

    /// Completes when the candidate is to resign or to stop; the work has got a stop request by
    /// then.
    pub(super) async fn is_to_end(&self) {
        let resigns = async {
            if self.resign.clone().wait_for(|asked| *asked).await.is_err() {
                pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = resigns => {}
            () = self.shared.is_stopped() => self.context.ask_to_stop(),
        }
    }

    pub(super) fn has_been_asked_to_resign(&self) -> bool {
        *self.resign.borrow()
    }

    /// Ends the published leadership; called before the lock is released.
    pub(super) fn step_down(&self) {
        let current_term = crate::sync::lock(&self.shared.current_term).take();
        if current_term.is_some() {
            self.shared.is_standby(None);
        }
    }
}

impl Drop for TermGuard {
    fn drop(&mut self) {
        self.step_down();
    }
}
