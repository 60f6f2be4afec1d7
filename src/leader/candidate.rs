//! The candidate: its options and its public methods.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use tokio::sync::watch;

use super::{Leadership, Term, on_lost::OnLost, shared::CandidateShared};
use crate::{
    callback::CallbackOutput,
    error::{LockError, LossCause},
    lock::{LockOptions, LockRequest, Overrun, Redlock, option_setters},
    resource::Resource,
};

impl Redlock {
    /// Creates a candidate for leading under a name. The leader holds the resource `leader:<name>`,
    /// so [`inspect("leader:<name>")`](Self::inspect) returns it.
    ///
    /// A run with an invalid name fails with [`LockError::InvalidResource`]. Each call creates
    /// another candidate; clones of a [`Leader`] are the same one.
    pub fn leader(&self, name: impl AsRef<str>) -> Leader {
        let name = name.as_ref();
        Leader::new(self.lock_own(Resource::of_leader(name)), name.into())
    }
}

/// A candidate for leading under a name: see the [module](super).
///
/// Options are set by value, before [`run`](Self::run), which uses the options of its handle. Clones are
/// the same candidate and share its terms: each can make it resign or stop.
#[doc(alias = "leader_election")]
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

/// # Options
impl Leader {
    fn new(request: LockRequest, name: Arc<str>) -> Self {
        let options = LockOptions::new()
            .wait(Duration::ZERO)
            .max_hold(Duration::MAX)
            .stall_limit(STALL_LIMIT);
        let request = request.options(options).expects_holder();
        Self {
            request,
            name,
            resign_grace: RESIGN_GRACE,
            on_lost: None,
            shared: Arc::new(CandidateShared::default()),
        }
    }

    /// Sets options of the leader's lock: each that is set in `options`. The others keep their
    /// values. `max_hold` limits a term, which is lost then.
    ///
    /// `wait`, `max_attempts` and `max_retry_after` don't apply, as a candidate tries by rules of its
    /// own. If one of them is set, [`run`](Self::run) fails with [`LockError::InvalidRequest`].
    pub fn options(mut self, options: LockOptions) -> Self {
        if let Err(reason) = options.refuse_waiting() {
            self.request = self.request.refuse(reason);
        }
        self.request = self.request.options(options);
        self
    }

    /// See [`LockOptions::ttl`]. After a leader was killed, no candidate leads for this time and a
    /// tenth of it at most.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.options(LockOptions::new().ttl(ttl))
    }

    /// Time between the stop request of [`resign`](Self::resign) or [`stop`](Self::stop) and the drop
    /// of work that has not returned. Default: 5 s.
    pub fn resign_grace(mut self, grace: Duration) -> Self {
        self.resign_grace = grace;
        self
    }

    /// Sets a callback for lost terms, plain or async. It is called after the work was dropped; the
    /// next campaign begins when it has completed.
    ///
    /// Not called if the work returned, if the candidate resigned or stopped in time, or if the
    /// future of [`run`](Self::run) was dropped.
    pub fn on_lost<F, R, Kind>(mut self, on_lost: F) -> Self
    where
        F: Fn(LossCause) -> R + Send + Sync + 'static,
        R: CallbackOutput<Kind>,
    {
        self.on_lost = Some(OnLost::new(on_lost));
        self
    }

    #[cfg(test)]
    pub(crate) fn lock_request(&self) -> LockRequest {
        self.request.clone()
    }
}

/// # Work that hangs
impl Leader {
    option_setters! {
        /// See [`LockOptions::stall_limit`]. Default: 1 min.
        ///
        /// Also counts from the election to the first poll of the work, so a candidate whose runtime hangs
        /// at that moment loses the term.
        pub fn stall_limit(self, limit: Duration) -> Self;

        /// See [`LockOptions::heartbeat_within`]. Counted from the start of the term.
        pub fn heartbeat_within(self, limit: Duration) -> Self;

        /// See [`LockOptions::overrun`].
        pub fn overrun(self, overrun: Overrun) -> Self;
    }
}

/// # Leading
impl Leader {
    /// Campaigns, leads, and campaigns again after a loss, until the work returns. Then it releases
    /// the lock and returns the work's output. Returns `None` if the candidate was
    /// [stopped](Self::stop) and the work did not return: it had no term, or was dropped.
    ///
    /// `work` is called once per term. It runs inside this future, and is dropped when the term is
    /// lost. The campaign continues while another process leads or too few nodes answer. A term is
    /// limited by the work, [`stall_limit`](Self::stall_limit) and
    /// [`heartbeat_within`](Self::heartbeat_within) only.
    ///
    /// An `Err` of the work is an output as any other, and ends the candidacy of this process. A
    /// temporary failure would so end one candidate after the other: see
    /// [`run_until_stopped`](Self::run_until_stopped).
    ///
    /// The future does not borrow the candidate, and does nothing before it is polled.
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
    /// Dropping the future drops the work, then releases the lock.
    ///
    /// # Panics
    ///
    /// If the work, or the callback of [`on_lost`](Self::on_lost), panics. The lock is released then,
    /// too.
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
    /// Before that it pauses, so that another candidate can lead and work that fails at once does not
    /// spin: for 1 s, doubled by each term up to 1 min, less up to half of it at random. After a term
    /// of more than 1 min the pause is 1 s again. `Ok` and `Err` are treated alike, except that an
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

    /// Ends the candidacy of this candidate and its clones. Returns when the run has ended and the
    /// lock is released, or at once if there is no run.
    ///
    /// A campaign ends at once. The work of a term gets a stop request: its
    /// [`stopping`](crate::LockContext::stopping) completes. Work that has not returned within
    /// [`resign_grace`](Self::resign_grace) is dropped; the lock is renewed until then. A later run
    /// ends at once; [`Redlock::leader`] creates a new candidate.
    ///
    /// Called by the work itself it returns at once: the run ends when the work has. A task that the work
    /// started, and awaits, is not seen as a part of it: the two wait for each other until
    /// [`resign_grace`](Self::resign_grace) is over.
    ///
    /// # Cancel safety
    ///
    /// Safe: the candidate stops even if the future is dropped. A run that is not polled does not end.
    pub async fn stop(&self) {
        self.shared.stop().await;
    }

    /// Ends the current term, so that another candidate can lead. Returns when the lock is released,
    /// or at once, without effect, if this candidate does not lead. Called by the work itself it returns
    /// at once, too, and the resignation continues.
    ///
    /// The work gets a stop request: its [`stopping`](crate::LockContext::stopping) completes. Work
    /// that has not returned within [`resign_grace`](Self::resign_grace) is dropped; the lock is
    /// renewed until then. Work that returns ends [`run`](Self::run), with its output.
    ///
    /// Then this candidate *stands back*, in the current run and in the next one: it does not campaign
    /// until it has seen another leader, or until one TTL has passed. Another candidate leads within a
    /// few round trips. If there is no other one, no candidate leads for a TTL, and then this one does again.
    ///
    /// # Cancel safety
    ///
    /// Safe: the resignation continues if the future is dropped.
    pub async fn resign(&self) {
        self.shared.resign().await;
    }

    /// Returns whether this candidate leads now: whether its lock is valid, by the local clock.
    pub fn is_leader(&self) -> bool {
        self.shared.is_leader()
    }

    /// Returns a receiver of this candidate's [`Leadership`]: whether it leads, or which owner does.
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
    /// Updated by the future of [`run`](Self::run), and so late if the work blocks. Before effects
    /// that need the leadership, call [`is_leader`](Self::is_leader), or
    /// [`ensure_valid`](crate::LockContext::ensure_valid) of the [`Term`].
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
        redlock.made(&self.request)
    }

    /// Checks the name and the options. Sends nothing.
    pub(crate) fn check(&self) -> Result<(), LockError> {
        self.request.check()
    }

    /// Sets the heartbeat limit to `default` unless one is set. Returns the limit.
    pub(crate) fn heartbeat_or(self, default: Duration) -> (Self, Duration) {
        let limit = self.request.heartbeat_limit().unwrap_or(default);
        (self.heartbeat_within(limit), limit)
    }
}
