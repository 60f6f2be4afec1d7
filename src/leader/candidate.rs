//! The candidate: its options and its public methods.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use tokio::sync::watch;

use super::{Leadership, LostOutcome, Term, on_lost::OnLost, shared::CandidateShared};
use crate::{
    error::{LockError, LossCause},
    lock::{LockOptions, LockRequest, Overrun, Redlock},
    resource::Resource,
};

impl Redlock {
    /// A candidate for leading under a name, which is locked as the resource `leader:<name>`: so
    /// [`inspect("leader:<name>")`](Self::inspect) returns the leader.
    ///
    /// A run with an invalid name fails with [`LockError::InvalidResource`]. Each call makes a
    /// candidate of its own; clones of a [`Leader`] are the same one.
    pub fn leader(&self, name: impl AsRef<str>) -> Leader {
        let name = name.as_ref();
        Leader::new(self.lock_own(Resource::of_leader(name)), name.into())
    }
}

/// A candidate for leading under a name: see the [module](super).
///
/// Options are set by value, before [`run`](Self::run), and are those of the handle that is run.
/// Clones are the same candidate and share its terms: each can make it resign or stop.
#[derive(Clone, Debug)]
#[must_use = "a candidate does nothing until it is run"]
pub struct Leader {
    pub(super) request: LockRequest,
    pub(super) name: Arc<str>,
    pub(super) resign_grace: Duration,
    pub(super) on_lost: Option<OnLost>,
    pub(super) shared: Arc<CandidateShared>,
}

const STALL_LIMIT: Duration = Duration::from_secs(60);
const RESIGN_GRACE: Duration = Duration::from_secs(5);

impl Leader {
    fn new(request: LockRequest, name: Arc<str>) -> Self {
        let options = LockOptions::new()
            .wait(Duration::ZERO)
            .max_hold(Duration::MAX)
            .stall_limit(STALL_LIMIT);
        let request = request.options(options);
        Self {
            request,
            name,
            resign_grace: RESIGN_GRACE,
            on_lost: None,
            shared: Arc::new(CandidateShared::default()),
        }
    }

    /// Sets all that is set in `options` for the leader's lock; what was set before and is not set
    /// there stays. With `max_hold` a term ends by then, as lost.
    ///
    /// `wait`, `max_attempts` and `retry_after` don't apply: a candidate tries by its own rules. Where
    /// one of them is set, [`run`](Self::run) fails with [`LockError::InvalidRequest`].
    pub fn options(mut self, options: LockOptions) -> Self {
        if let Err(reason) = options.refuse_waiting() {
            self.request = self.request.refuse(reason);
        }
        self.request = self.request.options(options);
        self
    }

    #[cfg(test)]
    pub(crate) fn lock_request(&self) -> LockRequest {
        self.request.clone()
    }

    /// See [`LockOptions::ttl`]: with a tenth of it, the longest time that nobody leads after a leader
    /// was killed.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.options(LockOptions::new().ttl(ttl))
    }

    /// See [`LockOptions::stall_limit`]. Default: 1 min.
    ///
    /// It also counts from the election to the first poll of the work, so that a candidate whose
    /// runtime hangs at that moment loses the term.
    pub fn stall_limit(self, limit: Duration) -> Self {
        self.options(LockOptions::new().stall_limit(limit))
    }

    /// See [`LockOptions::heartbeat_within`]; counted from the beginning of the term.
    pub fn heartbeat_within(self, limit: Duration) -> Self {
        self.options(LockOptions::new().heartbeat_within(limit))
    }

    /// How long the work has to come to an end after [`resign`](Self::resign) or
    /// [`stop`](Self::stop) asked it to. Default: 5 s.
    pub fn resign_grace(mut self, grace: Duration) -> Self {
        self.resign_grace = grace;
        self
    }

    /// See [`LockOptions::on_overrun`].
    pub fn on_overrun(self, overrun: Overrun) -> Self {
        self.options(LockOptions::new().on_overrun(overrun))
    }

    /// Called when a term was lost, after the work was dropped. The next campaign begins when it has
    /// returned, and what it returned was awaited: a plain closure and an async one will do.
    ///
    /// Not called where the work returned, where the candidate resigned or stopped in time, and
    /// where the future of [`run`](Self::run) was dropped.
    pub fn on_lost<F, R, Kind>(mut self, on_lost: F) -> Self
    where
        F: Fn(LossCause) -> R + Send + Sync + 'static,
        R: LostOutcome<Kind>,
    {
        self.on_lost = Some(OnLost::new(on_lost));
        self
    }

    /// Campaigns, leads, and campaigns again after a loss, until the work returns: then the lock is
    /// given back, and its output is the result. `None` where the candidate was
    /// [stopped](Self::stop) and the work did not return: it had no term, or was dropped.
    ///
    /// `work` is called once per term. It runs inside this future, and is dropped when the term is
    /// lost. The campaign outlasts all temporary conditions: another leader, too few nodes. The
    /// term has no limit but the work's own, [`stall_limit`](Self::stall_limit) and
    /// [`heartbeat_within`](Self::heartbeat_within).
    ///
    /// An `Err` that the work returns is an output as any other, and ends the candidacy of this
    /// process. Where work fails for reasons that pass, that would end one candidate after the
    /// other: see [`run_until_stopped`](Self::run_until_stopped).
    ///
    /// The future needs no reference to the candidate, and does nothing before it is polled.
    ///
    /// # Errors
    ///
    /// * [`LockError::InvalidResource`], [`LockError::InvalidRequest`]: the name or the options are
    ///   not valid, or this candidate, or a clone of it, runs already.
    /// * [`LockError::Closed`]: the manager was [shut down](Redlock::shutdown). That ends a
    ///   campaign, and no term: [stop](Self::stop) the candidate first.
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
    ) -> impl Future<Output = Result<Option<Fut::Output>, LockError>> + use<F, Fut>
    where
        F: Fn(Term) -> Fut,
        Fut: Future,
    {
        self.clone().lead(work)
    }

    /// As [`run`](Self::run), but campaigns again when the work has returned, until the candidate is
    /// [stopped](Self::stop).
    ///
    /// Before that it pauses, so that another candidate gets its turn and work that fails at once
    /// does not spin: 1 s, doubled by each term up to 1 min, and up to half of it less at random. A
    /// term of more than 1 min begins again at 1 s. `Ok` and `Err` are treated alike, but that an
    /// `Err` is logged at WARN. After a [resignation](Self::resign) the candidate stands back
    /// instead.
    ///
    /// ```
    /// # use tower_redlock::{LockError, Redlock, Term};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # async fn bill_next() -> Result<(), std::io::Error> { std::future::pending().await }
    /// # let redlock = Redlock::embedded();
    /// let leader = redlock.leader("billing");
    /// let stops = leader.clone();
    /// let run = leader.run_until_stopped(|_term: Term| async move {
    ///     loop {
    ///         // An error ends the term, and not the candidacy.
    ///         bill_next().await?;
    ///     }
    ///     # #[expect(unreachable_code, reason = "the type")]
    ///     Ok::<(), std::io::Error>(())
    /// });
    /// // On a request to end the process:
    /// # let stops = stops.resign_grace(std::time::Duration::ZERO);
    /// let (ended, ()) = tokio::join!(run, async { stops.stop().await });
    /// # ended
    /// # }
    /// ```
    ///
    /// # Errors, cancel safety, panics
    ///
    /// As [`run`](Self::run).
    pub fn run_until_stopped<F, Fut, E>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<(), LockError>> + use<F, Fut, E>
    where
        F: Fn(Term) -> Fut,
        Fut: Future<Output = Result<(), E>>,
        E: fmt::Display,
    {
        self.clone().lead_on(work)
    }

    /// Ends the candidacy: this candidate, and its clones, lead no more. Returns when the run has
    /// ended, with the lock given back, or at once where none is under way.
    ///
    /// A campaign ends at once. The work of a term gets a stop request: its
    /// [`stopping`](crate::LockContext::stopping) completes. What has not returned within
    /// [`resign_grace`](Self::resign_grace) is dropped; the lock is renewed until then. A later run
    /// ends at once; [`Redlock::leader`] makes a new candidate.
    ///
    /// Not to be awaited by the work itself, which it waits for.
    ///
    /// # Cancel safety
    ///
    /// Safe: the candidate stops without the future, too. A run that nobody polls does not end.
    pub async fn stop(&self) {
        if self.request.is_forked() {
            return;
        }
        self.shared.stop().await;
    }

    /// Gives up the present term, so that another candidate gets its turn. Returns when the lock was
    /// given back, or at once, without effect, where this candidate does not lead.
    ///
    /// The work gets a stop request: its [`stopping`](crate::LockContext::stopping) completes. What
    /// has not returned within [`resign_grace`](Self::resign_grace) is dropped; the lock is renewed
    /// until then. Work that returns ends [`run`](Self::run), with its output.
    ///
    /// After that this candidate *stands back*, in the run under way and in the next one: it does
    /// not campaign until it has seen another leader, or until one TTL has passed. So another
    /// candidate leads within a few round trips if there is one. Where this is the only one, nobody
    /// leads for a TTL, and then it does again.
    ///
    /// # Cancel safety
    ///
    /// Safe: the resignation continues without the future.
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

    /// Watches the [`Leadership`] of this candidate: whether it leads, or which owner does.
    ///
    /// ```
    /// # use tower_redlock::{leader::Leadership, LockError, Redlock};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// let leader = Redlock::embedded().leader("billing");
    /// let mut transitions = leader.transitions();
    /// let run = leader.run(|term| async move { term.stopping().await });
    /// let other = async {
    ///     transitions.wait_for(Leadership::is_leading).await.expect("the candidate is there");
    ///     // This process leads.
    ///     leader.stop().await;
    /// };
    /// tokio::join!(run, other).0?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Updated by the future of [`run`](Self::run): late, if the work blocks. For what must not
    /// happen without leading, ask [`is_leader`](Self::is_leader), or the [`Term`]'s
    /// [`ensure_valid`](crate::LockContext::ensure_valid).
    pub fn transitions(&self) -> watch::Receiver<Leadership> {
        self.shared.transitions()
    }
}

/// Methods for a scheduler.
impl Leader {
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn is_of(&self, redlock: &Redlock) -> bool {
        self.request.is_of(redlock)
    }

    /// Checks the name and the options. Sends nothing.
    pub(crate) fn check(&self) -> Result<(), LockError> {
        self.request.check()
    }

    /// How often the work has to give a heartbeat: what was set, else `default`.
    pub(crate) fn heartbeat_or(self, default: Duration) -> (Self, Duration) {
        let limit = self.request.heartbeat_limit().unwrap_or(default);
        (self.heartbeat_within(limit), limit)
    }
}
