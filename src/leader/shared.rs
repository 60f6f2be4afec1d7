//! State that the clones of a candidate share.

use std::{future::pending, sync::Arc, time::SystemTime};

use tokio::sync::watch;

use super::Leadership;
use crate::{
    error::LockError, guard::LockContext, lock::is_inside, metrics, sync::Mutex, time::Timestamp,
    token::FencingToken,
};

/// What the clones of a candidate share.
#[derive(Debug, Default)]
pub(super) struct CandidateShared {
    /// Set once, for good.
    stopped: watch::Sender<bool>,
    term: Mutex<TermState>,
    /// [`Leadership::NotRunning`] exactly while no run is under way.
    leadership: watch::Sender<Leadership>,
}

#[derive(Debug, Default)]
enum TermState {
    #[default]
    NoTerm,
    Leading(CurrentTerm),
    Cooldown(Cooldown),
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
        self.current_term().is_some_and(|term| term.context.is_valid())
    }

    fn current_term(&self) -> Option<CurrentTerm> {
        match &*crate::sync::lock(&self.term) {
            TermState::Leading(term) => Some(term.clone()),
            TermState::NoTerm | TermState::Cooldown(_) => None,
        }
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
        let Some(CurrentTerm { context, resign, mut over }) = self.current_term() else { return };
        context.ask_to_stop();
        resign.send_replace(true);
        drop(resign);
        if is_inside(self) {
            return;
        }
        // Nothing is sent: the channel closes with the term.
        while over.changed().await.is_ok() {}
    }

    pub(super) fn cooldown(&self) -> Option<Cooldown> {
        match &*crate::sync::lock(&self.term) {
            TermState::Cooldown(cooldown) => Some(*cooldown),
            TermState::NoTerm | TermState::Leading(_) => None,
        }
    }

    pub(super) fn end_cooldown(&self) {
        let mut term = crate::sync::lock(&self.term);
        debug_assert!(
            matches!(*term, TermState::Cooldown(_)),
            "a candidate cools down between terms"
        );
        *term = TermState::NoTerm;
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
        let is_first = self.leadership.send_if_modified(|known| {
            let is_first = *known == Leadership::NotRunning;
            if is_first {
                *known = Leadership::Standby { leader: None };
            }
            is_first
        });
        if !is_first {
            let text = format!(
                "the candidate for {name} runs already; a second one in this process needs a Leader of its own"
            );
            return Err(LockError::InvalidRequest(text.into()));
        }
        metrics::leads(name, false);
        Ok(RunGuard { shared: Arc::clone(self) })
    }
}

/// Marks the candidate as running until it is dropped.
pub(super) struct RunGuard {
    shared: Arc<CandidateShared>,
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        let former = self.shared.leadership.send_replace(Leadership::NotRunning);
        debug_assert!(!former.is_leading(), "a term ends before its run");
    }
}

/// Publishes a term until it is dropped, after the release of the lock.
pub(super) struct TermGuard {
    shared: Arc<CandidateShared>,
    name: Arc<str>,
    context: LockContext,
    resign: watch::Receiver<bool>,
    _over: watch::Sender<()>,
}

impl TermGuard {
    pub(super) fn begin(
        shared: &Arc<CandidateShared>,
        name: &Arc<str>,
        context: LockContext,
        since: SystemTime,
    ) -> Self {
        let token = context.fencing_token();
        let (resign, asked) = watch::channel(false);
        let (ends, over) = watch::channel(());
        let current_term = CurrentTerm { context: context.clone(), resign, over };
        let state = TermState::Leading(current_term);
        let former = std::mem::replace(&mut *crate::sync::lock(&shared.term), state);
        assert!(!matches!(former, TermState::Leading(_)), "one term ends before the next begins");
        shared.leadership.send_replace(Leadership::Leading { token, since });
        metrics::leads(name, true);
        let (shared, name) = (Arc::clone(shared), Arc::clone(name));
        Self { shared, name, context, resign: asked, _over: ends }
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

    /// Why the work of the term has returned, or was dropped after the grace. Called before the lock is released.
    pub(super) fn why_it_ends(&self) -> &'static str {
        if self.shared.has_stopped() {
            "stopped"
        } else if self.has_been_asked_to_resign() {
            "resigned"
        } else if !self.context.is_stopping() {
            "the work returned"
        } else if self.context.is_in_last_validity() {
            "the work stopped on request, as max_hold was about to end"
        } else {
            "the work stopped on request, as the lock was not renewed: too few nodes answered in time"
        }
    }

    /// Ends the published leadership; called before the lock is released. `cooldown`: the time in which this
    /// candidate does not campaign.
    pub(super) fn step_down(&self, cooldown: Option<Cooldown>) {
        let next = cooldown.map_or(TermState::NoTerm, TermState::Cooldown);
        // Dropped without the mutex: that wakes tasks that wait for the end of the term.
        let former = {
            let mut term = crate::sync::lock(&self.shared.term);
            let is_leading = matches!(*term, TermState::Leading(_));
            is_leading.then(|| std::mem::replace(&mut *term, next))
        };
        if former.is_some() {
            metrics::leads(&self.name, false);
            self.shared.is_standby(None);
        }
    }
}

impl Drop for TermGuard {
    fn drop(&mut self) {
        self.step_down(None);
    }
}
