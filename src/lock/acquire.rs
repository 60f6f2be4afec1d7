//! The future of a request for a lock.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tracing::Span;

use super::{
    LockOptions,
    core::Core,
    inside::{is_any_inside, is_inside},
    lease::ActiveLease,
    lock::Lock,
    queue::{Admission, QueueWait, Ticket},
    settings::{InternalOptions, ReportedEnds},
    trace::{acquire_span, record_end, record_grant},
    waker_set::WakerKey,
    wakeups::{RetryHistory, RetryState, RetryTask, RetryWait, StartedAttempt, Yield},
};
use crate::{
    error::LockError,
    events::LockEventKind,
    metrics,
    resource::Resource,
    time::{Sleep, Timestamp},
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
pub struct Acquire(AcquireState);

#[expect(clippy::large_enum_variant, reason = "the task already allocates the future")]
enum AcquireState {
    Invalid(Option<LockError>),
    Working(Acquisition),
    /// A request for one of several slots.
    Boxed(Pin<Box<dyn Future<Output = Result<Lock, LockError>> + Send>>),
}

/// Maximum duration of an attempt, in node timeouts: a permit, votes, three raises of the token, and
/// the grace of a late wake-up.
pub(super) const LONGEST_ATTEMPT: u32 = 6;

struct Acquisition {
    retry: RetryState,
    started: Timestamp,
    step: AcquireStep,
    /// Timeout of the wait in the local line.
    line_timeout: Option<Sleep>,
    /// Whether it has waited in a local line.
    was_in_line: bool,
    reports: ReportedEnds,
}

enum AcquireStep {
    QueueWait(QueueWait),
    Ready(Ticket),
    Asking { lease: Arc<ActiveLease>, watch: WakerKey },
    Pausing(Arc<RetryTask>),
    Done,
}

impl Acquire {
    pub(super) fn new(
        core: Arc<Core>,
        resource: Result<Resource, LockError>,
        options: &LockOptions,
        internal: &InternalOptions,
    ) -> Self {
        Self::of_request(core, resource, (options, internal), None)
    }

    /// Makes an attempt of a request with the span `of`, in which as many attempts have begun. The
    /// request reports the result.
    pub(super) fn attempt(
        core: Arc<Core>,
        resource: Resource,
        options: (&LockOptions, &InternalOptions),
        of: (Span, u32),
    ) -> Self {
        Self::of_request(core, Ok(resource), options, Some(of))
    }

    fn of_request(
        core: Arc<Core>,
        resource: Result<Resource, LockError>,
        (options, internal): (&LockOptions, &InternalOptions),
        of: Option<(Span, u32)>,
    ) -> Self {
        let plan = core.client.plan(options, internal);
        let started = core.client.clock().now();
        let open = core.client.check_open();
        let (resource, plan) = match open.and(resource).and_then(|r| plan.map(|p| (r, p))) {
            Ok(checked) => checked,
            Err(error) => return Self::failed(error),
        };
        let reports = if of.is_some() { ReportedEnds::None } else { internal.reports };
        let (span, begun) = of.unwrap_or_else(|| (acquire_span(&resource, None), 0));
        let step = AcquireStep::QueueWait(core.queue.enter(&resource, started));
        let retries = RetryHistory::default();
        let retry = RetryState { core, resource, plan, begun, retries, marked: None, span };
        Self(AcquireState::Working(Acquisition {
            retry,
            started,
            step,
            line_timeout: None,
            was_in_line: false,
            reports,
        }))
    }

    pub(super) fn boxed(
        acquire: impl Future<Output = Result<Lock, LockError>> + Send + 'static,
    ) -> Self {
        Self(AcquireState::Boxed(Box::pin(acquire)))
    }

    pub(crate) fn failed(error: LockError) -> Self {
        Self(AcquireState::Invalid(Some(error)))
    }
}

impl Future for Acquire {
    type Output = Result<Lock, LockError>;

    /// # Panics
    ///
    /// If polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            AcquireState::Invalid(error) => {
                Poll::Ready(Err(error.take().expect("polled after it was ready")))
            }
            AcquireState::Working(work) => {
                let span = work.retry.span.clone();
                let result = std::task::ready!(span.in_scope(|| work.poll(cx)));
                // The span ends with the wait, not when the future is dropped.
                work.retry.span = Span::none();
                Poll::Ready(result)
            }
            AcquireState::Boxed(acquire) => acquire.as_mut().poll(cx),
        }
    }
}

impl Acquisition {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Lock, LockError>> {
        loop {
            match std::mem::replace(&mut self.step, AcquireStep::Done) {
                AcquireStep::QueueWait(mut queueing) => match self.poll_queue(&mut queueing, cx) {
                    Poll::Ready(Ok(Admission::Granted(lease))) => return self.granted(lease),
                    Poll::Ready(Ok(Admission::Ask(ticket))) => {
                        self.line_timeout = None;
                        // Waiting processes may not have had a turn for a long time.
                        let yields = !self.retry.plan.wait.is_zero()
                            && self.retry.core.client.wakeups.may_yield(&self.retry.resource);
                        self.step = if yields {
                            let RetryState { core, resource, plan, .. } = &self.retry;
                            let yielding =
                                Yield::new(&core.client, resource, plan, self.deadline());
                            self.pause(RetryWait::Yield(yielding), self.deadline(), ticket)
                        } else {
                            AcquireStep::Ready(ticket)
                        };
                    }
                    Poll::Ready(Err(error)) => return self.end(Err(error)),
                    Poll::Pending if self.is_waiting(cx) => {
                        if !self.was_in_line {
                            let RetryState { core, resource, .. } = &self.retry;
                            core.client.busy_names.note(resource, core.client.clock().now());
                        }
                        self.was_in_line = true;
                        self.step = AcquireStep::QueueWait(queueing);
                        return Poll::Pending;
                    }
                    Poll::Pending => {
                        let last = queueing.known();
                        let waits = !self.retry.plan.wait.is_zero();
                        let error = if waits { self.timed_out(last) } else { last };
                        return self.end(Err(error));
                    }
                },
                AcquireStep::Ready(ticket) => match self.begin(ticket) {
                    Ok(next) => self.step = next,
                    Err(error) => return self.end(Err(error)),
                },
                AcquireStep::Asking { lease, mut watch } => {
                    match lease.poll_decision(&mut watch, cx) {
                        None => {
                            self.step = AcquireStep::Asking { lease, watch };
                            return Poll::Pending;
                        }
                        Some(Ok(())) => {
                            lease.unwatch(&mut watch);
                            let RetryState { core, resource, retries, .. } = &mut self.retry;
                            retries.succeeded(&core.client.wakeups, resource, lease.started());
                            record_grant(&self.retry.span, lease.tally());
                            return self.granted(lease);
                        }
                        Some(Err(error)) => {
                            let Some(ticket) = lease.take_ticket() else {
                                return self.end(Err(error));
                            };
                            match self.after_failure(ticket, error, &lease) {
                                Ok(next) => self.step = next,
                                Err(error) => return self.end(Err(error)),
                            }
                        }
                    }
                }
                AcquireStep::Pausing(retry_task) => {
                    let Poll::Ready(StartedAttempt { retry, lease }) = retry_task.poll(cx) else {
                        self.step = AcquireStep::Pausing(retry_task);
                        return Poll::Pending;
                    };
                    self.retry = retry;
                    match lease {
                        Ok((lease, watch)) => self.step = AcquireStep::Asking { lease, watch },
                        Err(error) => {
                            // No permit became free before the end of the wait.
                            let is_late =
                                !matches!(error, LockError::Closed | LockError::NoRandomness(_))
                                    && !self.retry.plan.wait.is_zero();
                            let error = if is_late { self.timed_out(error) } else { error };
                            return self.end(Err(error));
                        }
                    }
                }
                AcquireStep::Done => panic!("polled after it was ready"),
            }
        }
    }

    /// Polls for the turn. A request of work under a lock must not wait for the end of that work: it joins
    /// a shared lease that it can share, and fails otherwise.
    fn poll_queue(
        &self,
        queueing: &mut QueueWait,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Admission, LockError>> {
        let RetryState { core, resource, plan, .. } = &self.retry;
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

    fn granted(&mut self, lease: Arc<ActiveLease>) -> Poll<Result<Lock, LockError>> {
        let lock = Lock::new(lease);
        let now = self.retry.core.client.clock().now();
        // Its validity may have ended before the task polled.
        let is_valid = now < lock.lease().valid_until();
        let result = if is_valid { Ok(lock) } else { Err(lock.lease().too_slow()) };
        self.end_at(result, now)
    }

    /// Begins the first attempt, or waits for a permit for it.
    fn begin(&mut self, ticket: Ticket) -> Result<AcquireStep, LockError> {
        if let Some(permit) = self.retry.core.client.attempts.try_enter() {
            let lease = self.retry.begin(ticket, permit)?;
            return Ok(AcquireStep::Asking { lease, watch: WakerKey::default() });
        }
        let RetryState { core, retries, plan, .. } = &mut self.retry;
        if !retries.count(&core.queue, self.was_in_line) {
            return Err(self.retry.refuse_overloaded(&ticket));
        }
        let deadline = if plan.wait.is_zero() {
            core.client.clock().now() + plan.node_timeout
        } else {
            self.started + plan.wait
        };
        Ok(self.pause(RetryWait::Permit, deadline, ticket))
    }

    fn pause(&mut self, wait: RetryWait, deadline: Timestamp, ticket: Ticket) -> AcquireStep {
        AcquireStep::Pausing(RetryTask::start(wait, deadline, ticket, self.retry.take()))
    }

    /// Returns the pause after a failed attempt, or the error that ends the request.
    fn after_failure(
        &mut self,
        ticket: Ticket,
        error: LockError,
        lease: &ActiveLease,
    ) -> Result<AcquireStep, LockError> {
        let error = self.retry.retries.failed(error, lease.tally().0, lease.refused_by_lead());
        crate::log::debug!(%error, attempt = self.retry.begun, "attempt failed");
        if self.retry.plan.wait.is_zero() || self.retry.plan.max_attempts == Some(self.retry.begun)
        {
            return Err(error);
        }
        if self.deadline() <= self.retry.core.client.clock().now() {
            return Err(self.timed_out(error));
        }
        let RetryState { core, plan, .. } = &self.retry;
        if core.client.waits_in_vain(plan, &error, self.deadline()) {
            crate::log::debug!("request refused: a quorum is away");
            return Err(error);
        }
        let RetryState { core, retries, .. } = &mut self.retry;
        if !retries.count(&core.queue, self.was_in_line) {
            crate::log::debug!("request refused: too many wait");
            return Err(error);
        }
        let deadline = self.deadline();
        let RetryState { core, resource, plan, retries, .. } = &mut self.retry;
        let heads = core.queue.heads();
        let pause = retries.pause(&core.client, heads, resource, plan, deadline);
        Ok(self.pause(RetryWait::Pause(pause), deadline, ticket))
    }

    fn deadline(&self) -> Timestamp {
        self.started + self.retry.plan.wait
    }

    /// Returns whether there is time left to wait in line. The end of that time wakes the task.
    fn is_waiting(&mut self, cx: &mut Context<'_>) -> bool {
        let deadline = if self.retry.plan.wait.is_zero() {
            // A single attempt ends with the head's verdict, which comes within this time if the
            // head is polled.
            self.started + self.retry.plan.node_timeout * LONGEST_ATTEMPT
        } else {
            self.deadline()
        };
        let timeout = self
            .line_timeout
            .get_or_insert_with(|| self.retry.core.client.timers.sleep_until(deadline));
        Pin::new(timeout).poll(cx).is_pending()
    }

    fn timed_out(&self, last: LockError) -> LockError {
        let waited = self.elapsed();
        LockError::WaitTimedOut { waited, last: Box::new(last) }
    }

    fn elapsed(&self) -> Duration {
        self.retry.core.client.clock().now().saturating_duration_since(self.started)
    }

    fn send_event(&self, result: &Result<Lock, LockError>, waited: Duration) {
        let RetryState { core, resource, begun, plan, .. } = &self.retry;
        let has_waited = self.was_in_line || *begun > 1;
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

    fn end(&mut self, result: Result<Lock, LockError>) -> Poll<Result<Lock, LockError>> {
        let now = self.retry.core.client.clock().now();
        self.end_at(result, now)
    }

    fn end_at(
        &mut self,
        mut result: Result<Lock, LockError>,
        now: Timestamp,
    ) -> Poll<Result<Lock, LockError>> {
        self.retry.retries.counted = None;
        self.retry.marked = None;
        if self.reports == ReportedEnds::None {
            return Poll::Ready(result);
        }
        if let Err(error) = &mut result {
            let RetryState { core, resource, plan, .. } = &self.retry;
            error.set_retry_after(|expires_in| {
                let ahead = core.queue.turn_away(resource);
                core.client.hold_times.retry_after(resource, ahead, expires_in, plan.retry_after)
            });
        }
        let waited = now.saturating_duration_since(self.started);
        let is_shared = self.retry.plan.is_shared();
        let outcome = result.as_ref().map(|_| ());
        if self.reports.include(outcome) {
            self.retry.core.client.counts.ended(outcome, waited);
            metrics::acquire(is_shared, outcome, waited);
            self.send_event(&result, waited);
        }
        record_end(&self.retry.span, &result, waited);
        Poll::Ready(result)
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

impl Drop for Acquisition {
    fn drop(&mut self) {
        match &self.step {
            AcquireStep::Asking { lease, .. } => lease.release(false),
            AcquireStep::Pausing(retry_task) => retry_task.leave(),
            AcquireStep::QueueWait(_) | AcquireStep::Ready(_) | AcquireStep::Done => {}
        }
    }
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Acquire");
        if let AcquireState::Working(work) = &self.0 {
            shown.field("resource", &work.retry.resource).field("attempts", &work.retry.begun);
        }
        shown.finish_non_exhaustive()
    }
}
