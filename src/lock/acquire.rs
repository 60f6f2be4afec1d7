//! The future of a request for a lock.

use std::{
    fmt,
    future::{Future, poll_fn, ready},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tracing::{Instrument, Span};

use super::{
    LockOptions,
    attempts::Permit,
    core::Core,
    inside::{is_any_inside, is_inside},
    lease::ActiveLease,
    lock::Lock,
    queue::{Admission, QueueWait, Ticket},
    settings::{InternalOptions, Plan, ReportedEnds},
    trace::{acquire_span, record_end, record_grant},
    wait_mark::MarkedRequest,
    waker_set::WakerKey,
    wakeups::{Pause, RetryHistory, Yield, run_in_manager},
};
use crate::{
    error::{LockError, Reason, VoteOutcome},
    events::LockEventKind,
    metrics,
    resource::Resource,
    time::Timestamp,
};

/// The future of a [`LockRequest`](super::LockRequest): waits in the local line, asks the nodes, and
/// retries until the wait is over.
///
/// # Errors
///
/// * [`LockError::Held`], [`NoQuorum`](LockError::NoQuorum), [`TooSlow`](LockError::TooSlow): the error
///   of the only attempt, or of the last of `max_attempts`.
/// * [`NoQuorum`](LockError::NoQuorum) before the wait is over: without
///   [`wait_without_quorum`](crate::LockOptions::wait_without_quorum), a quorum is known to be away.
/// * [`LockError::WaitTimedOut`]: the wait is over; it has the error of the last attempt.
/// * [`LockError::InvalidResource`], [`InvalidRequest`](LockError::InvalidRequest),
///   [`Closed`](LockError::Closed): nothing was sent.
///
/// # Cancel safety
///
/// Dropping it leaves the line, and releases on every node what an attempt in flight may have been
/// granted. No key is left.
///
/// Once polled, it continues in the background until it is dropped. One that is neither polled nor
/// dropped may be granted the lock, and then keeps it, renewed, for up to `max_hold`.
#[must_use = "futures do nothing unless polled"]
pub struct Acquire {
    /// `None` once it was ready: its span ends with the wait, not when the future is dropped.
    work: Option<AcquireWork>,
}

type AcquireWork = Pin<Box<dyn Future<Output = Result<Lock, LockError>> + Send>>;

/// The request that an attempt belongs to.
pub(super) struct AttemptOf {
    pub(super) span: Span,
    /// Number of its attempts that have begun.
    pub(super) begun: u32,
}

/// Maximum duration of an attempt, in node timeouts: a permit, votes, three raises of the token, and
/// the grace of a late wake-up.
pub(super) const LONGEST_ATTEMPT: u32 = 6;

impl Acquire {
    pub(super) fn new(
        core: Arc<Core>,
        resource: Result<Resource, LockError>,
        options: &LockOptions,
        internal: &InternalOptions,
    ) -> Self {
        Self::of_request(core, resource, options, internal, None)
    }

    /// Makes an attempt of a request, which reports the result.
    pub(super) fn attempt(
        core: Arc<Core>,
        resource: Resource,
        options: &LockOptions,
        internal: &InternalOptions,
        of: AttemptOf,
    ) -> Self {
        Self::of_request(core, Ok(resource), options, internal, Some(of))
    }

    fn of_request(
        core: Arc<Core>,
        resource: Result<Resource, LockError>,
        options: &LockOptions,
        internal: &InternalOptions,
        of: Option<AttemptOf>,
    ) -> Self {
        let plan = core.client.plan(options, internal);
        let started = core.client.clock().now();
        let open = core.client.check_open();
        let (resource, plan) = match open.and(resource).and_then(|r| plan.map(|p| (r, p))) {
            Ok(checked) => checked,
            Err(error) => return Self::failed(error),
        };
        let reports = if of.is_some() { ReportedEnds::None } else { internal.reports };
        let AttemptOf { span, begun } =
            of.unwrap_or_else(|| AttemptOf { span: acquire_span(&resource, None), begun: 0 });
        let place = core.queue.enter(&resource, started);
        let request = Request { core, resource, plan, started, reports, span: span.clone() };
        let progress = Progress { begun, ..Progress::default() };
        Self::boxed(Acquisition { request, progress }.acquire(place).instrument(span))
    }

    pub(super) fn boxed(
        acquire: impl Future<Output = Result<Lock, LockError>> + Send + 'static,
    ) -> Self {
        Self { work: Some(Box::pin(acquire)) }
    }

    pub(crate) fn failed(error: LockError) -> Self {
        Self::boxed(ready(Err(error)))
    }
}

impl Future for Acquire {
    type Output = Result<Lock, LockError>;

    /// # Panics
    ///
    /// If polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let work = self.work.as_mut().expect("polled after it was ready");
        let result = std::task::ready!(work.as_mut().poll(cx));
        self.work = None;
        Poll::Ready(result)
    }
}

/// A request for a lock, as its task and the manager's know it.
#[derive(Clone)]
struct Request {
    core: Arc<Core>,
    resource: Resource,
    plan: Arc<Plan>,
    started: Timestamp,
    reports: ReportedEnds,
    span: Span,
}

/// How far a request is.
#[derive(Default)]
struct Progress {
    /// Number of attempts that have begun.
    begun: u32,
    /// Whether it has waited in a local line.
    was_in_line: bool,
    retries: RetryHistory,
    /// The mark that its attempts may have left, if it waits for an exclusive lock.
    marked: Option<MarkedRequest>,
}

/// A request that is under way.
struct Acquisition {
    request: Request,
    progress: Progress,
}

/// What follows from an attempt, or precedes the first one.
enum AttemptStep {
    Granted(Lock),
    Wait(Box<NextAttempt>),
}

/// An attempt that a request waits for.
struct NextAttempt {
    wait: AttemptWait,
    /// The time by which it begins, or not at all.
    deadline: Timestamp,
    ticket: Ticket,
}

/// The wait before an attempt.
enum AttemptWait {
    /// The wait before the first attempt, in which other processes have their turn.
    Yield(Yield),
    /// The wait before a later attempt.
    Pause(Pause),
    /// The wait before the first attempt if only a permit is missing.
    Permit,
}

/// An attempt in flight. Dropping it releases what it may be granted.
struct Attempt(Option<Arc<ActiveLease>>);

impl Attempt {
    /// Waits for the decision. A lock that is granted is released when it is dropped.
    async fn decided(mut self) -> Result<Lock, (Arc<ActiveLease>, LockError)> {
        let mut watch = WakerKey::default();
        let lease = self.0.as_ref().expect("it is in flight");
        let decided = |cx: &mut Context<'_>| match lease.poll_decision(&mut watch, cx) {
            Some(decision) => Poll::Ready(decision),
            None => Poll::Pending,
        };
        let decision = poll_fn(decided).await;
        lease.unwatch(&mut watch);
        let lease = self.0.take().expect("it is in flight");
        match decision {
            Ok(()) => Ok(Lock::new(lease)),
            Err(error) => Err((lease, error)),
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(lease) = &self.0 {
            lease.release(false);
        }
    }
}

impl Request {
    fn deadline(&self) -> Timestamp {
        self.started + self.plan.wait
    }

    fn now(&self) -> Timestamp {
        self.core.client.clock().now()
    }

    /// Returns the error at the end of the time that the request has; a single attempt ends with its own.
    fn gave_up(&self, last: LockError) -> LockError {
        if self.plan.wait.is_zero() { last } else { self.timed_out(last) }
    }

    fn timed_out(&self, last: LockError) -> LockError {
        let waited = self.now().saturating_duration_since(self.started);
        LockError::WaitTimedOut { waited, last: Box::new(last) }
    }

    /// Polls for the turn. A request of work under a lock must not wait for the end of that work: it joins
    /// a shared lease that it can share, and fails otherwise.
    fn poll_queue(
        &self,
        queueing: &mut QueueWait,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Admission, LockError>> {
        let Self { core, resource, plan, .. } = self;
        let outer = || {
            let names = resource.shared_names().iter();
            names.filter_map(|name| core.queue.holder(name)).find(is_inside)
        };
        let outer = is_any_inside().then(outer).flatten();
        if let Some(joined) = outer.as_ref().and_then(|outer| outer.join_within(resource, plan)) {
            return Poll::Ready(Ok(Admission::Granted(joined)));
        }
        let polled = queueing.poll(plan, cx);
        let Some(outer) = outer.filter(|_| polled.is_pending()) else { return polled };
        if !outer.is_shared() || !outer.fits(resource, plan) {
            return Poll::Ready(Err(waits_for_itself(outer.resource(), outer.is_shared())));
        }
        // It joins once the lease is renewed, unless an exclusive request waits.
        if outer.is_open() { Poll::Pending } else { Poll::Ready(Err(queueing.known())) }
    }

    /// Returns the time until which the request waits in line.
    fn line_deadline(&self) -> Timestamp {
        if self.plan.wait.is_zero() {
            // A single attempt ends with the head's verdict, which comes within this time if the
            // head is polled.
            self.started + self.plan.node_timeout * LONGEST_ATTEMPT
        } else {
            self.deadline()
        }
    }
}

impl Acquisition {
    async fn acquire(mut self, mut place: QueueWait) -> Result<Lock, LockError> {
        let result = match self.first_step(&mut place).await {
            Ok(AttemptStep::Granted(lock)) => Ok(lock),
            // Boxed, as most requests do not need it.
            Ok(AttemptStep::Wait(next)) => Box::pin(self.continue_in_manager(*next)).await,
            Err(error) => Err(error),
        };
        // Its validity may have ended before the task polled.
        let now = self.request.now();
        let result = result.and_then(|lock| {
            let is_valid = now < lock.lease().valid_until();
            if is_valid { Ok(lock) } else { Err(lock.lease().too_slow()) }
        });
        self.end(result, now)
    }

    /// Waits in line, and makes the first attempt if it may begin at once.
    async fn first_step(&mut self, place: &mut QueueWait) -> Result<AttemptStep, LockError> {
        let ticket = match self.turn(place).await? {
            Admission::Ask(ticket) => ticket,
            Admission::Granted(lease) => return Ok(AttemptStep::Granted(Lock::new(lease))),
        };
        let Request { core, resource, plan, .. } = &self.request;
        let deadline = self.request.deadline();
        // Waiting processes may not have had a turn for a long time.
        if !plan.wait.is_zero() && core.client.wakeups.may_yield(resource) {
            let wait = AttemptWait::Yield(Yield::new(&core.client, resource, plan, deadline));
            return Ok(AttemptStep::Wait(Box::new(NextAttempt { wait, deadline, ticket })));
        }
        if let Some(permit) = core.client.attempts.try_enter() {
            let attempt = self.begin(ticket, permit)?;
            return self.outcome(attempt).await;
        }
        if !self.progress.retries.count(&core.queue, self.progress.was_in_line) {
            return Err(self.refuse_overloaded(&ticket));
        }
        let deadline =
            if plan.wait.is_zero() { self.request.now() + plan.node_timeout } else { deadline };
        let wait = AttemptWait::Permit;
        Ok(AttemptStep::Wait(Box::new(NextAttempt { wait, deadline, ticket })))
    }

    /// Waits in line.
    async fn turn(&mut self, place: &mut QueueWait) -> Result<Admission, LockError> {
        let Self { request, progress } = self;
        let client = &request.core.client;
        let mut timeout = None;
        let admission = poll_fn(|cx| {
            if let Poll::Ready(admission) = request.poll_queue(place, cx) {
                return Poll::Ready(Some(admission));
            }
            let sleep = || client.timers.sleep_until(request.line_deadline());
            if Pin::new(timeout.get_or_insert_with(sleep)).poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            if !std::mem::replace(&mut progress.was_in_line, true) {
                client.busy_names.note(&request.resource, client.clock().now());
            }
            Poll::Pending
        });
        if let Some(admission) = admission.await {
            return admission;
        }
        Err(request.gave_up(place.known()))
    }

    /// Begins an attempt.
    fn begin(&mut self, ticket: Ticket, permit: Permit) -> Result<Attempt, LockError> {
        let Self { request: Request { core, resource, plan, span, .. }, progress } = self;
        if core.client.is_closed() {
            return Err(LockError::Closed);
        }
        progress.begun += 1;
        span.record("attempt", progress.begun);
        let plan = match progress.retries.begin() {
            None => Arc::clone(plan),
            lead_node => Arc::new(Plan { lead_node, ..**plan }),
        };
        let lease = ActiveLease::start(
            Arc::clone(&core.client),
            resource.clone(),
            plan,
            ticket,
            permit,
            progress.marked.as_ref().map(|marked| Arc::clone(marked.mark())),
        )?;
        if let (None, Some(mark)) = (&progress.marked, lease.wait_mark()) {
            progress.marked = Some(MarkedRequest::new(mark, &core.client));
        }
        progress.retries.tried = Some(lease.started());
        Ok(Attempt(Some(lease)))
    }

    /// Waits for the decision of an attempt.
    async fn outcome(&mut self, attempt: Attempt) -> Result<AttemptStep, LockError> {
        match attempt.decided().await {
            Ok(lock) => {
                let Request { core, resource, span, .. } = &self.request;
                let (wakeups, since) = (&core.client.wakeups, lock.lease().started());
                self.progress.retries.succeeded(wakeups, resource, since);
                record_grant(span, lock.lease().tally());
                Ok(AttemptStep::Granted(lock))
            }
            Err((lease, error)) => match lease.take_ticket() {
                Some(ticket) => self.after_failure(ticket, error, &lease),
                None => Err(error),
            },
        }
    }

    /// Returns the pause after a failed attempt, or the error that ends the request.
    fn after_failure(
        &mut self,
        ticket: Ticket,
        error: LockError,
        lease: &ActiveLease,
    ) -> Result<AttemptStep, LockError> {
        let Self { request, progress } = self;
        let Request { core, resource, plan, .. } = &*request;
        let error = progress.retries.failed(error, lease.tally().0, lease.refused_by_lead());
        crate::log::debug!(%error, attempt = progress.begun, "attempt failed");
        if plan.wait.is_zero() || plan.max_attempts == Some(progress.begun) {
            return Err(error);
        }
        let deadline = request.deadline();
        if deadline <= request.now() {
            return Err(request.timed_out(error));
        }
        if core.client.waits_in_vain(plan, &error, deadline) {
            crate::log::debug!("request refused: a quorum is away");
            return Err(error);
        }
        if !progress.retries.count(&core.queue, progress.was_in_line) {
            crate::log::debug!("request refused: too many wait");
            return Err(error);
        }
        let heads = core.queue.heads();
        let pause = progress.retries.pause(&core.client, heads, resource, plan, deadline);
        let wait = AttemptWait::Pause(pause);
        Ok(AttemptStep::Wait(Box::new(NextAttempt { wait, deadline, ticket })))
    }

    /// Makes further attempts in a task of the manager, until one is granted or the request fails.
    async fn continue_in_manager(&mut self, next: NextAttempt) -> Result<Lock, LockError> {
        let Request { core, span, .. } = &self.request;
        let (client, span) = (Arc::clone(&core.client), span.clone());
        let progress = std::mem::take(&mut self.progress);
        let mut retrying = Self { request: self.request.clone(), progress };
        let deadline = next.deadline;
        let work = async move {
            let result = retrying.retry(next).await;
            (retrying.progress, result)
        };
        let (progress, result) = run_in_manager(&client, deadline, work.instrument(span)).await;
        self.progress = progress;
        result
    }

    /// Makes attempts until one is granted or the request fails. Dropping the future passes the turn on, and
    /// releases what an attempt may be granted.
    async fn retry(&mut self, mut next: NextAttempt) -> Result<Lock, LockError> {
        loop {
            let NextAttempt { wait, deadline, ticket } = next;
            let Some(permit) = self.permit(wait, deadline).await else {
                return Err(self.request.gave_up(self.refuse_overloaded(&ticket)));
            };
            let attempt = self.begin(ticket, permit)?;
            match self.outcome(attempt).await? {
                AttemptStep::Granted(lock) => return Ok(lock),
                AttemptStep::Wait(failed) => next = *failed,
            }
        }
    }

    /// Waits for the time of the next attempt, then for its permit; `None` at the deadline.
    async fn permit(&mut self, wait: AttemptWait, deadline: Timestamp) -> Option<Permit> {
        let Self { request: Request { core, resource, plan, .. }, progress } = self;
        let Progress { retries, begun, .. } = progress;
        match wait {
            AttemptWait::Yield(mut yielding) => {
                poll_fn(|cx| yielding.poll(cx)).await;
                retries.lead_crowd(&core.client, resource, plan, deadline);
            }
            AttemptWait::Pause(mut pause) => {
                poll_fn(|cx| pause.poll(retries, &core.client, plan, cx)).await;
            }
            AttemptWait::Permit => {}
        }
        let mut entry = core.client.attempts.enter(*begun == 0, deadline);
        let permit = poll_fn(|cx| entry.poll(cx)).await;
        retries.permit_wait = entry.waited();
        permit
    }

    /// Returns the error for too many attempts in flight, and reports it to the line.
    fn refuse_overloaded(&self, ticket: &Ticket) -> LockError {
        let client = &self.request.core.client;
        let overloaded = || {
            let overloaded = VoteOutcome::NotCounted(Reason::Overloaded);
            LockError::NoQuorum { votes: client.votes(vec![overloaded; client.nodes.len()]) }
        };
        let error = self.progress.retries.last.clone().unwrap_or_else(overloaded);
        ticket.report(&error);
        error
    }

    fn send_event(&self, result: &Result<Lock, LockError>, waited: Duration) {
        let Request { core, resource, plan, .. } = &self.request;
        let has_waited = self.progress.was_in_line || self.progress.begun > 1;
        if result.is_ok() && !has_waited {
            return;
        }
        core.client.send_event(|| {
            let (resource, shared) = (resource.clone(), plan.is_shared());
            match result {
                Ok(lock) => {
                    let token = lock.fencing_token();
                    LockEventKind::Granted { resource, shared, token, waited }
                }
                Err(error) => {
                    LockEventKind::Refused { resource, shared, waited, error: error.clone() }
                }
            }
        });
    }

    /// Reports the result.
    fn end(
        mut self,
        mut result: Result<Lock, LockError>,
        now: Timestamp,
    ) -> Result<Lock, LockError> {
        self.progress.retries.counted = None;
        self.progress.marked = None;
        let Request { core, resource, plan, started, reports, span } = &self.request;
        if *reports == ReportedEnds::None {
            return result;
        }
        if let Err(error) = &mut result {
            error.set_retry_after(|expires_in| {
                let ahead = core.queue.turn_away(resource);
                core.client.hold_times.retry_after(
                    resource,
                    ahead,
                    expires_in,
                    plan.max_retry_after,
                )
            });
        }
        let waited = now.saturating_duration_since(*started);
        let outcome = result.as_ref().map(|_| ());
        if reports.include(outcome) {
            core.client.counts.ended(outcome, waited);
            metrics::acquire(plan.is_shared(), outcome, waited);
            self.send_event(&result, waited);
        }
        record_end(span, &result, waited);
        result
    }
}

/// Returns the error of a request of work that holds what it requests.
pub(super) fn waits_for_itself(name: &impl fmt::Display, is_shared: bool) -> LockError {
    let shared = if is_shared { "shared " } else { "" };
    LockError::InvalidRequest(
        format!(
            "the work that requests this lock runs under the {shared}lock of \"{name}\" and would wait for its \
             own end: pass the lock's context on, or request it in a task that the work does not await"
        )
        .into(),
    )
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").field("is_ready", &self.work.is_none()).finish_non_exhaustive()
    }
}
