use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::SystemTime,
};

use tokio::sync::watch;

use super::Leadership;
use crate::{error::LockError, guard::LockContext, time::Timestamp, token::FencingToken};

/// What the clones of a candidate share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    is_running: AtomicBool,
    /// Set once, for good.
    stopped: watch::Sender<bool>,
    office: Mutex<Option<Office>>,
    stands_back: Mutex<Option<StandsBack>>,
    leadership: watch::Sender<Leadership>,
}

/// The present term, for those outside it.
#[derive(Clone, Debug)]
struct Office {
    context: LockContext,
    resign: watch::Sender<bool>,
    /// Closed when the lock was given back.
    over: watch::Receiver<()>,
}

/// After a resignation or a hang: until when this candidate leaves the others their turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct StandsBack {
    pub(super) until: Timestamp,
    /// Of the term that has ended.
    pub(super) token: FencingToken,
}

impl Shared {
    pub(super) fn is_leader(&self) -> bool {
        let office = crate::sync::lock(&self.office).clone();
        office.is_some_and(|office| office.context.is_valid())
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

    pub(super) async fn resign(&self) {
        let office = crate::sync::lock(&self.office).clone();
        let Some(Office { context, resign, mut over }) = office else { return };
        context.ask_to_stop();
        resign.send_replace(true);
        drop(resign);
        // Nothing is ever sent: it ends when the term does.
        while over.changed().await.is_ok() {}
    }

    pub(super) fn set_stands_back(&self, stands_back: Option<StandsBack>) {
        *crate::sync::lock(&self.stands_back) = stands_back;
    }

    pub(super) fn stands_back(&self) -> Option<StandsBack> {
        *crate::sync::lock(&self.stands_back)
    }

    pub(super) async fn stop(&self) {
        // The run asks its work to stop.
        self.stopped.send_replace(true);
        let mut leadership = self.leadership.subscribe();
        // The sender is `self`.
        let _ = leadership.wait_for(|now| *now == Leadership::NotRunning).await;
    }

    pub(super) fn has_stopped(&self) -> bool {
        *self.stopped.borrow()
    }

    /// Completes when the candidate is to campaign and lead no more.
    pub(super) async fn is_stopped(&self) {
        let _ = self.stopped.subscribe().wait_for(|stopped| *stopped).await;
    }

    /// Begins to run, which is done once at a time.
    pub(super) fn stand(self: &Arc<Self>, name: &str) -> Result<Candidacy, LockError> {
        if self.is_running.swap(true, Ordering::AcqRel) {
            let text = format!(
                "the candidate for {name} runs already; a second one in this process needs a Leader of its own"
            );
            return Err(LockError::InvalidRequest(text.into()));
        }
        self.is_standby(None);
        Ok(Candidacy { shared: Arc::clone(self) })
    }
}

/// One run; ends when it is dropped.
pub(super) struct Candidacy {
    shared: Arc<Shared>,
}

impl Drop for Candidacy {
    fn drop(&mut self) {
        self.shared.leadership.send_replace(Leadership::NotRunning);
        self.shared.is_running.store(false, Ordering::Release);
    }
}

/// One term, for the run; to be dropped when the lock was given back.
pub(super) struct Tenure {
    shared: Arc<Shared>,
    context: LockContext,
    resign: watch::Receiver<bool>,
    _over: watch::Sender<()>,
}

impl Tenure {
    pub(super) fn begin(shared: &Arc<Shared>, context: LockContext, since: SystemTime) -> Self {
        let token = context.fencing_token();
        let (resign, asked) = watch::channel(false);
        let (ends, over) = watch::channel(());
        let office = Office { context: context.clone(), resign, over };
        let former = crate::sync::lock(&shared.office).replace(office);
        // Whoever waits for its end is woken.
        drop(former);
        shared.leadership.send_replace(Leadership::Leading { token, since });
        Self { shared: Arc::clone(shared), context, resign: asked, _over: ends }
    }

    /// Completes when the candidate is to resign or to stop; the work has been asked to, then.
    pub(super) async fn is_to_end(&self) {
        let resigns = async {
            if self.resign.clone().wait_for(|asked| *asked).await.is_err() {
                pending::<()>().await;
            }
        };
        tokio::select! {
            () = resigns => {}
            () = self.shared.is_stopped() => self.context.ask_to_stop(),
        }
    }

    pub(super) fn has_been_asked_to_resign(&self) -> bool {
        *self.resign.borrow()
    }

    /// Nobody is told any more that this candidate leads; to be done before the lock is given back.
    pub(super) fn step_down(&self) {
        let office = crate::sync::lock(&self.shared.office).take();
        if office.is_some() {
            self.shared.is_standby(None);
        }
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        self.step_down();
    }
}
