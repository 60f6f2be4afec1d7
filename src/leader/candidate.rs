use std::{future::Future, sync::Arc, time::Duration};

use tokio::sync::watch;

use super::{Leadership, LostOutcome, Term, on_lost::OnLost, shared::Shared};
use crate::{
    error::{LockError, LossCause},
    lock::{LockRequest, Overrun, Redlock},
    resource::ResourceError,
};

impl Redlock {
    /// A candidate for leading under a name, which is locked as the resource `leader:<name>`: so
    /// [`inspect("leader:<name>")`](Self::inspect) tells who leads.
    ///
    /// An invalid name shows when the candidate is run, as [`LockError::InvalidResource`]. Each
    /// call makes a candidate of its own; clones of a [`Leader`] are the same one.
    pub fn leader(&self, name: impl AsRef<str>) -> Leader {
        let name = name.as_ref();
        let request = match name {
            // The prefix would hide it.
            "" => self.invalid(LockError::InvalidResource(ResourceError::EmptyName)),
            _ => self.lock(format!("leader:{name}")),
        };
        Leader::new(request, name.into())
    }
}

/// A candidate for leading under a name: see the [module](super).
///
/// Options are set by value, before [`run`](Self::run), and are those of the handle that is run.
/// Clones are the same candidate: they know of its terms, and can let it resign.
#[derive(Clone, Debug)]
#[must_use = "a candidate does nothing until it is run"]
pub struct Leader {
    pub(super) request: LockRequest,
    pub(super) name: Arc<str>,
    pub(super) resign_grace: Duration,
    pub(super) on_lost: Option<OnLost>,
    pub(super) shared: Arc<Shared>,
}

const STALL_LIMIT: Duration = Duration::from_secs(60);
const RESIGN_GRACE: Duration = Duration::from_secs(5);

impl Leader {
    fn new(request: LockRequest, name: Arc<str>) -> Self {
        let request = request
            .wait(Duration::ZERO)
            .auto_extend(true)
            .max_hold(Duration::MAX)
            .stall_limit(Some(STALL_LIMIT));
        Self {
            request,
            name,
            resign_grace: RESIGN_GRACE,
            on_lost: None,
            shared: Arc::new(Shared::default()),
        }
    }

    /// How long the servers keep the key without renewal: with a tenth of it, the longest time that
    /// nobody leads after a leader was killed. Default: the manager's (10 s).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.request = self.request.ttl(ttl);
        self
    }

    /// For how long one poll of the work may go on before the lock is not renewed any more: blocking
    /// code that hangs then loses the term, at the end of the validity. Default: 1 min.
    /// [`Duration::MAX`] is no limit.
    ///
    /// It is found out by looks at quarters of the limit, so up to a quarter later. Time in which
    /// the machine was suspended, or the process stopped, counts for a quarter at most.
    pub fn stall_limit(mut self, limit: Duration) -> Self {
        self.request = self.request.stall_limit(Some(limit));
        self
    }

    /// How often the work has to call [`Term::heartbeat`]; else the lock is not renewed any more.
    /// For work that may hang without blocking. Default: not at all.
    ///
    /// Counted from the beginning of the term, and as [`stall_limit`](Self::stall_limit) is.
    pub fn heartbeat_within(mut self, limit: Duration) -> Self {
        self.request = self.request.heartbeat_within(Some(limit));
        self
    }

    /// How long the work has to come to an end after [`resign`](Self::resign) asked it to. Default:
    /// 5 s.
    pub fn resign_grace(mut self, grace: Duration) -> Self {
        self.resign_grace = grace;
        self
    }

    /// What is done about work that is inside a poll when its term has ended. Default: the manager's
    /// ([`Overrun::Warn`]).
    pub fn on_overrun(mut self, overrun: Overrun) -> Self {
        self.request = self.request.on_overrun(overrun);
        self
    }

    /// Called when a term was lost, after the work was dropped. The next campaign begins when it has
    /// returned, and what it returned was awaited: a plain closure and an async one will do.
    ///
    /// Not called where the work returned, where the candidate resigned in time, and where the
    /// future of [`run`](Self::run) was dropped.
    pub fn on_lost<F, R, Kind>(mut self, on_lost: F) -> Self
    where
        F: Fn(LossCause) -> R + Send + Sync + 'static,
        R: LostOutcome<Kind>,
    {
        self.on_lost = Some(OnLost::new(on_lost));
        self
    }

    /// Campaigns, leads, and campaigns again after a loss, until the work returns: then the lock is
    /// given back, and its output is the result.
    ///
    /// `work` is called once per term. It runs inside this future, and is dropped when the term is
    /// lost. The campaign goes on through everything that may pass: another leader, too few nodes.
    /// The term has no limit but the work's own, [`stall_limit`](Self::stall_limit) and
    /// [`heartbeat_within`](Self::heartbeat_within).
    ///
    /// The future needs no reference to the candidate, and does nothing before it is polled.
    ///
    /// # Errors
    ///
    /// * [`LockError::InvalidResource`], [`LockError::InvalidRequest`]: the name or the options are
    ///   not valid, or this candidate, or a clone of it, runs already.
    /// * [`LockError::Closed`]: the manager was [shut down](Redlock::shutdown). That ends a
    ///   campaign, and no term: let the candidate resign first.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, then gives the lock back.
    ///
    /// # Panics
    ///
    /// Where the work, or what was given to [`on_lost`](Self::on_lost), panics; the lock is given
    /// back then too.
    pub fn run<F, Fut>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<Fut::Output, LockError>> + use<F, Fut>
    where
        F: Fn(Term) -> Fut,
        Fut: Future,
    {
        self.clone().lead(work)
    }

    /// Gives up the present term, so that another candidate gets its turn. Returns when the lock was
    /// given back, or at once where this candidate does not lead.
    ///
    /// The work is asked to stop: its [`stopping`](crate::LockContext::stopping) completes. If it
    /// returns within [`resign_grace`](Self::resign_grace), [`run`](Self::run) ends with its output.
    /// Else it is dropped, and the candidate campaigns again after one TTL. The lock is renewed
    /// until then.
    ///
    /// # Cancel safety
    ///
    /// Safe: the resignation goes on without the future.
    pub async fn resign(&self) {
        if self.request.is_forked() {
            return;
        }
        self.shared.resign().await;
    }

    /// Whether this candidate leads at this moment: whether its lock is valid, by our clock.
    pub fn is_leader(&self) -> bool {
        self.shared.is_leader()
    }

    /// Tells where this candidate stands, now and at each change.
    ///
    /// Told by the future of [`run`](Self::run): late, where the work blocks. For what must not
    /// happen without leading, ask [`is_leader`](Self::is_leader), or the
    /// [`Term`]'s [`ensure_valid`](crate::LockContext::ensure_valid).
    pub fn transitions(&self) -> watch::Receiver<Leadership> {
        self.shared.transitions()
    }
}
