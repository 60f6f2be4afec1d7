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
    LockOptions,
    core::Core,
    held::Lock,
    lease::ActiveLease,
    queue::{Queueing, Ticket, Turn},
    settings::InternalOptions,
    wakeups::{Begun, RetryHistory, RetryState, RetryTask, Wait, Yield},
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
///   [`Closed`](LockError::Closed), [`Forked`](LockError::Forked): nothing was sent.
///
/// # Cancel safety
///
/// Dropping it gives up the place in line, and releases on every node what an attempt under way
/// may have been granted. No key is left behind.
///
/// Once polled, it goes on by itself until it is dropped: what is neither polled nor dropped may be
/// granted the lock, and keeps it, renewed, for up to `max_hold`.
#[must_use = "futures do nothing unless polled"]
pub struct Acquire(State);

#[expect(
    clippy::large_enum_variant,
    reason = "what a task keeps in its own memory need not be allocated once more"
)]
enum State {
    Invalid(Option<LockError>),
    Working(Work),
}

/// An attempt is decided within so many node timeouts: a permit, votes, and three raises of the
/// token.
const LONGEST_ATTEMPT: u32 = 6;

struct Work {
    tries: RetryState,
    started: Timestamp,
    step: Step,
    /// Ends the wait in the local line.
    alarm: Option<Sleep>,
    /// Has stood in a local line.
    was_in_line: bool,
}

enum Step {
    Queueing(Queueing),
    Ready(Ticket),
    Asking { lease: Arc<ActiveLease>, watch: Watch },
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
        let plan = core.settings.plan(options, internal);
        let started = core.clock().now();
        let open = core.is_open_at(started);
        let (resource, plan) = match open.and(resource).and_then(|r| plan.map(|p| (r, p))) {
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
        let step = Step::Queueing(core.queue.enter(&resource));
        let tries =
            RetryState { core, resource, plan, begun: 0, retries: RetryHistory::default(), span };
        Self(State::Working(Work { tries, started, step, alarm: None, was_in_line: false }))
    }

    pub(crate) fn failed(error: LockError) -> Self {
        Self(State::Invalid(Some(error)))
    }
}

impl Future for Acquire {
    type Output = Result<Lock, LockError>;

    /// # Panics
    ///
    /// If polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Invalid(error) => {
                Poll::Ready(Err(error.take().expect("polled after it was ready")))
            }
            State::Working(work) => {
                let span = work.tries.span.clone();
                let result = std::task::ready!(span.in_scope(|| work.poll(cx)));
                // The span ends with the wait, not when the future is dropped.
                work.tries.span = Span::none();
                Poll::Ready(result)
            }
        }
    }
}

impl Work {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Lock, LockError>> {
        loop {
            match std::mem::replace(&mut self.step, Step::Done) {
                Step::Queueing(mut queueing) => match queueing.poll(&self.tries.plan, cx) {
                    Poll::Ready(Ok(Turn::Granted(lease))) => return self.granted(lease),
                    Poll::Ready(Ok(Turn::Ask(ticket))) => {
                        self.alarm = None;
                        // Other processes may wait as well, and have had no chance for a while.
                        let yields = !self.tries.plan.wait.is_zero()
                            && self.tries.core.wakeups.may_give_way(&self.tries.resource);
                        self.step = if yields {
                            let RetryState { core, resource, plan, .. } = &self.tries;
                            let yielding = Yield::new(core, resource, plan, self.deadline());
                            self.pause(Wait::Yield(yielding), self.deadline(), ticket)
                        } else {
                            Step::Ready(ticket)
                        };
                    }
                    Poll::Ready(Err(error)) => return self.end(Err(error)),
                    Poll::Pending if self.is_waiting(cx) => {
                        self.was_in_line = true;
                        self.step = Step::Queueing(queueing);
                        return Poll::Pending;
                    }
                    Poll::Pending => {
                        let last = queueing.known();
                        let waits = !self.tries.plan.wait.is_zero();
                        let error = if waits { self.timed_out(last) } else { last };
                        return self.end(Err(error));
                    }
                },
                Step::Ready(ticket) => match self.begin(ticket) {
                    Ok(next) => self.step = next,
                    Err(error) => return self.end(Err(error)),
                },
                Step::Asking { lease, mut watch } => match lease.decision(&mut watch, cx) {
                    None => {
                        self.step = Step::Asking { lease, watch };
                        return Poll::Pending;
                    }
                    Some(Ok(())) => {
                        lease.unwatch(&mut watch);
                        let RetryState { core, resource, retries, .. } = &mut self.tries;
                        retries.succeeded(core, resource, lease.started());
                        let (granted, of) = lease.tally();
                        self.tries
                            .span
                            .record("votes", field::display(format_args!("{granted} of {of}")));
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
                },
                Step::Pausing(retry_task) => {
                    let Poll::Ready(Begun { tries, lease }) = retry_task.poll(cx) else {
                        self.step = Step::Pausing(retry_task);
                        return Poll::Pending;
                    };
                    self.tries = tries;
                    match lease {
                        Ok((lease, watch)) => self.step = Step::Asking { lease, watch },
                        Err(error) => {
                            // Without a permit until the end of the wait.
                            let is_late =
                                !matches!(error, LockError::Closed | LockError::NoRandomness(_))
                                    && !self.tries.plan.wait.is_zero();
                            let error = if is_late { self.timed_out(error) } else { error };
                            return self.end(Err(error));
                        }
                    }
                }
                Step::Done => panic!("polled after it was ready"),
            }
        }
    }

    fn granted(&mut self, lease: Arc<ActiveLease>) -> Poll<Result<Lock, LockError>> {
        let lock = Lock::new(lease);
        // The task may have been kept from polling until it was over.
        let is_valid = lock.lease().is_valid();
        let result = if is_valid { Ok(lock) } else { Err(lock.lease().too_slow()) };
        self.end(result)
    }

    /// Begins the first try, or waits for a permit for it.
    fn begin(&mut self, ticket: Ticket) -> Result<Step, LockError> {
        if let Some(permit) = self.tries.core.attempts.try_enter() {
            let lease = self.tries.begin(ticket, permit)?;
            return Ok(Step::Asking { lease, watch: Watch::default() });
        }
        let RetryState { core, retries, plan, .. } = &mut self.tries;
        if !retries.count(&core.queue, self.was_in_line) {
            return Err(self.tries.turned_away(&ticket));
        }
        let deadline = if plan.wait.is_zero() {
            core.clock().now() + plan.node_timeout
        } else {
            self.started + plan.wait
        };
        Ok(self.pause(Wait::Permit, deadline, ticket))
    }

    fn pause(&mut self, wait: Wait, deadline: Timestamp, ticket: Ticket) -> Step {
        Step::Pausing(RetryTask::start(wait, deadline, (ticket, self.tries.hand_over())))
    }

    /// What follows an attempt that failed: a pause, or the end.
    fn after_failure(
        &mut self,
        ticket: Ticket,
        error: LockError,
        lease: &ActiveLease,
    ) -> Result<Step, LockError> {
        let error = self.tries.retries.failed(error, lease.tally().0, lease.refused_by_lead());
        crate::log::debug!(%error, attempt = self.tries.begun, "attempt failed");
        if self.tries.plan.wait.is_zero() || self.tries.plan.max_attempts == Some(self.tries.begun)
        {
            return Err(error);
        }
        if self.deadline() <= self.tries.core.clock().now() {
            return Err(self.timed_out(error));
        }
        let RetryState { core, retries, .. } = &mut self.tries;
        if !retries.count(&core.queue, self.was_in_line) {
            crate::log::debug!("too many requests wait: one is told at once");
            return Err(error);
        }
        let deadline = self.deadline();
        let pause = self.tries.retries.pause(
            &self.tries.core,
            &self.tries.resource,
            &self.tries.plan,
            deadline,
        );
        Ok(self.pause(Wait::Pause(pause), deadline, ticket))
    }

    fn deadline(&self) -> Timestamp {
        self.started + self.tries.plan.wait
    }

    /// Whether there is time left to stand in line; if so, the task is woken when it is over.
    fn is_waiting(&mut self, cx: &mut Context<'_>) -> bool {
        let deadline = if self.tries.plan.wait.is_zero() {
            // Who wants one attempt leaves with the head's verdict, which is never farther than
            // this, unless nobody polls the head.
            self.started + self.tries.plan.node_timeout * LONGEST_ATTEMPT
        } else {
            self.deadline()
        };
        let alarm = self.alarm.get_or_insert_with(|| self.tries.core.timers.sleep_until(deadline));
        Pin::new(alarm).poll(cx).is_pending()
    }

    fn timed_out(&self, last: LockError) -> LockError {
        let waited = self.elapsed();
        LockError::WaitTimedOut { waited, last: Box::new(last) }
    }

    fn elapsed(&self) -> Duration {
        self.tries.core.clock().now().since(self.started)
    }

    fn end(&mut self, mut result: Result<Lock, LockError>) -> Poll<Result<Lock, LockError>> {
        self.tries.retries.ended();
        if let Err(error) = &mut result {
            let RetryState { core, resource, plan, .. } = &self.tries;
            error.set_retry_after(|expires_in| {
                let ahead = core.queue.turn_away(resource);
                core.usual.retry_after(resource, ahead, expires_in, plan.retry_after)
            });
        }
        metrics::acquire(result.as_ref().map(|_| ()), || self.elapsed());
        if !self.tries.span.is_disabled() {
            self.tries.span.record("elapsed", field::debug(self.elapsed()));
            match &result {
                Ok(_) => self.tries.span.record("outcome", "acquired"),
                Err(error) => self.tries.span.record("outcome", field::display(error)),
            };
            match &result {
                Ok(_) => crate::log::debug!("acquired"),
                Err(LockError::NoQuorum { votes }) => {
                    self.tries.span.record("votes", field::display(votes));
                    crate::log::debug!("not acquired");
                }
                Err(_) => crate::log::debug!("not acquired"),
            }
        }
        Poll::Ready(result)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        match &self.step {
            Step::Asking { lease, .. } => lease.release(false),
            Step::Pausing(retry_task) => retry_task.leave(),
            Step::Queueing(_) | Step::Ready(_) | Step::Done => {}
        }
    }
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Acquire");
        if let State::Working(work) = &self.0 {
            shown.field("resource", &work.tries.resource).field("attempts", &work.tries.begun);
        }
        shown.finish_non_exhaustive()
    }
}
