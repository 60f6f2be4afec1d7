use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tracing::{Span, field};

use super::{
    core::Core,
    held::Lock,
    lease::ActiveLease,
    queue::{Queueing, Ticket, Turn},
    settings::{Overrides, Plan},
    wakeups::{Pause, Retries},
    watchers::Watch,
};
use crate::{
    error::LockError,
    metrics,
    resource::Resource,
    time::{Sleep, Timestamp},
};

/// The future of a [`LockRequest`](super::LockRequest): queues locally, asks the nodes, tries
/// again until the wait is over.
///
/// # Errors
///
/// * [`LockError::Held`], [`NoQuorum`](LockError::NoQuorum), [`TooSlow`](LockError::TooSlow): what
///   the only attempt met, or the last of `max_attempts`.
/// * [`LockError::WaitTimedOut`]: the wait is over; it carries what was met last.
/// * [`LockError::InvalidResource`], [`InvalidRequest`](LockError::InvalidRequest),
///   [`Closed`](LockError::Closed): nothing was sent.
///
/// # Cancel safety
///
/// Dropping it gives up the place in line, and releases on every node what an attempt under way
/// may have been granted. No key is left behind.
#[must_use = "futures do nothing unless polled"]
pub struct Acquire {
    span: Span,
    state: State,
}

#[expect(
    clippy::large_enum_variant,
    reason = "what a task keeps in its own memory need not be allocated once more"
)]
enum State {
    Invalid(Option<LockError>),
    Working(Work),
}

/// An attempt is decided within so many node timeouts: votes, and three raises of the token.
const LONGEST_ATTEMPT: u32 = 5;

struct Work {
    core: Arc<Core>,
    resource: Resource,
    plan: Plan,
    started: Timestamp,
    attempts: u32,
    step: Step,
    retries: Retries,
    /// Ends the wait in the local line.
    alarm: Option<Sleep>,
}

enum Step {
    Queueing(Queueing),
    Ready(Ticket),
    Asking { lease: Arc<ActiveLease>, watch: Watch },
    Pausing { pause: Pause, ticket: Ticket },
    Done,
}

impl Acquire {
    pub(super) fn new(
        core: Arc<Core>,
        resource: Result<Resource, LockError>,
        overrides: Overrides,
    ) -> Self {
        let plan = core.settings.plan(&overrides);
        let closed = if core.is_closed() { Err(LockError::Closed) } else { Ok(()) };
        let (resource, plan) = match closed.and(resource).and_then(|r| plan.map(|p| (r, p))) {
            Ok(checked) => checked,
            Err(error) => return Self::failed(error),
        };
        let span = tracing::debug_span!(
            "acquire",
            %resource,
            attempt = field::Empty,
            votes = field::Empty,
            outcome = field::Empty,
            elapsed = field::Empty,
        );
        let started = core.clock().now();
        let queueing = core.queue.enter(&resource, plan);
        let step = Step::Queueing(queueing);
        let retries = Retries::default();
        let work = Work { core, resource, plan, started, attempts: 0, step, retries, alarm: None };
        Self { span, state: State::Working(work) }
    }

    pub(crate) fn failed(error: LockError) -> Self {
        Self { span: Span::none(), state: State::Invalid(Some(error)) }
    }
}

impl Future for Acquire {
    type Output = Result<Lock, LockError>;

    /// # Panics
    ///
    /// If polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let entered = this.span.enter();
        match &mut this.state {
            State::Invalid(error) => {
                Poll::Ready(Err(error.take().expect("polled after it was ready")))
            }
            State::Working(work) => {
                let result = std::task::ready!(work.poll(cx, &this.span));
                drop(entered);
                this.span = Span::none();
                Poll::Ready(result)
            }
        }
    }
}

impl Work {
    fn poll(&mut self, cx: &mut Context<'_>, span: &Span) -> Poll<Result<Lock, LockError>> {
        loop {
            match std::mem::replace(&mut self.step, Step::Done) {
                Step::Queueing(mut queueing) => match queueing.poll(cx) {
                    Poll::Ready(Ok(Turn::Granted(lease))) => return self.granted(lease, span),
                    Poll::Ready(Ok(Turn::Ask(ticket))) => {
                        self.alarm = None;
                        // Other processes wait as well, and have had no chance for a while.
                        let waits = !self.plan.wait.is_zero();
                        let wakeups = waits.then_some(&self.core.wakeups);
                        let gives_way = wakeups.and_then(|w| w.is_to_give_way(&self.resource));
                        self.step = match gives_way {
                            Some(before) => {
                                let deadline = self.deadline();
                                let pause =
                                    Retries::give_way(&self.core, &self.plan, before, deadline);
                                Step::Pausing { pause, ticket }
                            }
                            None => Step::Ready(ticket),
                        };
                    }
                    Poll::Ready(Err(error)) => return self.end(Err(error), span),
                    Poll::Pending if self.is_waiting(cx) => {
                        self.step = Step::Queueing(queueing);
                        return Poll::Pending;
                    }
                    Poll::Pending => {
                        let last = queueing.known();
                        let waits = !self.plan.wait.is_zero();
                        let error = if waits { self.timed_out(last) } else { last };
                        return self.end(Err(error), span);
                    }
                },
                Step::Ready(ticket) => match self.ask(ticket, span) {
                    Ok(lease) => self.step = Step::Asking { lease, watch: Watch::default() },
                    Err(error) => return self.end(Err(error), span),
                },
                Step::Asking { lease, mut watch } => match lease.decision(&mut watch, cx) {
                    None => {
                        self.step = Step::Asking { lease, watch };
                        return Poll::Pending;
                    }
                    Some(Ok(())) => {
                        lease.unwatch(&mut watch);
                        self.retries.succeeded();
                        let (granted, of) = lease.tally();
                        span.record("votes", field::display(format_args!("{granted} of {of}")));
                        return self.granted(lease, span);
                    }
                    Some(Err(error)) => {
                        let Some(ticket) = lease.take_ticket() else {
                            return self.end(Err(error), span);
                        };
                        match self.after_failure(ticket, error, &lease) {
                            Ok(next) => self.step = next,
                            Err(error) => return self.end(Err(error), span),
                        }
                    }
                },
                Step::Pausing { mut pause, ticket } => {
                    if pause.poll(&mut self.retries, &self.core, &self.plan, cx).is_pending() {
                        self.step = Step::Pausing { pause, ticket };
                        return Poll::Pending;
                    }
                    self.step = Step::Ready(ticket);
                }
                Step::Done => panic!("polled after it was ready"),
            }
        }
    }

    fn granted(&self, lease: Arc<ActiveLease>, span: &Span) -> Poll<Result<Lock, LockError>> {
        let lock = Lock::new(lease);
        // The task may have been kept from polling until it was over.
        let result = if lock.is_valid() { Ok(lock) } else { Err(lock.lease().too_slow()) };
        self.end(result, span)
    }

    fn ask(&mut self, ticket: Ticket, span: &Span) -> Result<Arc<ActiveLease>, LockError> {
        if self.core.is_closed() {
            return Err(LockError::Closed);
        }
        self.attempts += 1;
        span.record("attempt", self.attempts);
        let plan = self.retries.begin(&self.core, self.plan);
        ActiveLease::start(Arc::clone(&self.core), self.resource.clone(), plan, ticket)
    }

    /// What follows an attempt that failed: a pause, or the end.
    fn after_failure(
        &mut self,
        ticket: Ticket,
        error: LockError,
        lease: &ActiveLease,
    ) -> Result<Step, LockError> {
        let error = self.retries.failed(error, lease.tally().0, lease.was_kept_out());
        tracing::debug!(%error, attempt = self.attempts, "attempt failed");
        if self.plan.wait.is_zero() || self.plan.max_attempts == Some(self.attempts) {
            return Err(error);
        }
        if self.deadline() <= self.core.clock().now() {
            return Err(self.timed_out(error));
        }
        let deadline = self.deadline();
        let pause = self.retries.pause(&self.core, &self.resource, &self.plan, deadline);
        Ok(Step::Pausing { pause, ticket })
    }

    fn deadline(&self) -> Timestamp {
        self.started + self.plan.wait
    }

    /// Whether there is time left to stand in line; if so, the task is woken when it is over.
    fn is_waiting(&mut self, cx: &mut Context<'_>) -> bool {
        let deadline = if self.plan.wait.is_zero() {
            // Who wants one attempt leaves with the head's verdict, which is never farther than
            // this, unless nobody polls the head.
            self.started + self.plan.node_timeout * LONGEST_ATTEMPT
        } else {
            self.deadline()
        };
        let alarm = self.alarm.get_or_insert_with(|| self.core.timers.sleep_until(deadline));
        Pin::new(alarm).poll(cx).is_pending()
    }

    fn timed_out(&self, last: LockError) -> LockError {
        let waited = self.elapsed();
        LockError::WaitTimedOut { waited, last: Box::new(last) }
    }

    fn elapsed(&self) -> Duration {
        self.core.clock().now().since(self.started)
    }

    fn end(&self, result: Result<Lock, LockError>, span: &Span) -> Poll<Result<Lock, LockError>> {
        metrics::acquire(result.as_ref().map(|_| ()), self.elapsed());
        if !span.is_disabled() {
            span.record("elapsed", field::debug(self.elapsed()));
            match &result {
                Ok(_) => span.record("outcome", "acquired"),
                Err(error) => span.record("outcome", field::display(error)),
            };
            match &result {
                Ok(_) => tracing::debug!("acquired"),
                Err(LockError::NoQuorum { votes }) => {
                    span.record("votes", field::display(votes));
                    tracing::debug!("not acquired");
                }
                Err(_) => tracing::debug!("not acquired"),
            }
        }
        Poll::Ready(result)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Step::Asking { lease, .. } = &self.step {
            lease.release(false);
        }
    }
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Acquire");
        if let State::Working(work) = &self.state {
            shown.field("resource", &work.resource).field("attempts", &work.attempts);
        }
        shown.finish_non_exhaustive()
    }
}
