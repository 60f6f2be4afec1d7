//! The task that begins a request's next attempt, which may be the first, when its wait ends.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use tracing::Span;

use super::pause::{Pause, RetryHistory, Yield};
use crate::{
    error::{LockError, Reason, VoteOutcome},
    lock::{
        attempts::{Permit, PermitWait},
        core::Core,
        lease::ActiveLease,
        queue::Ticket,
        settings::Plan,
        wait_mark::MarkedRequest,
        waker_set::WakerKey,
    },
    resource::Resource,
    sync::{Guard, Mutex},
    time::Timestamp,
};

/// The state of a request at the head of the line, from attempt to attempt.
pub(crate) struct RetryState {
    pub(crate) core: Arc<Core>,
    pub(crate) resource: Resource,
    pub(crate) plan: Arc<Plan>,
    /// Number of attempts that have begun.
    pub(crate) begun: u32,
    pub(crate) retries: RetryHistory,
    /// The mark that its attempts may have left, if it waits for an exclusive lock.
    pub(crate) marked: Option<MarkedRequest>,
    pub(crate) span: Span,
}

/// The wait before an attempt.
pub(crate) enum RetryWait {
    /// The wait before the first attempt, in which other processes have their turn.
    Yield(Yield),
    /// The wait before a later attempt.
    Pause(Pause),
    /// The wait before the first attempt if only a permit is missing.
    Permit,
}

/// A request that pauses before an attempt. A task of the manager begins the attempt when the pause
/// ends, so that the time from a release to the next grant does not depend on the task of the
/// request, which may be busy.
pub(crate) struct RetryTask(Mutex<RetryTaskState>);

enum RetryTaskState {
    Pausing {
        /// The request; `None` while it is polled, which calls foreign code.
        paused: Option<Box<PausedRequest>>,
        /// Whether a wake-up came while it was polled.
        missed: bool,
        /// Wakers of the request's task and of the manager's.
        task: Option<Waker>,
        own: Option<Arc<Waker>>,
    },
    /// The attempt is being sent.
    Beginning {
        task: Option<Waker>,
    },
    Begun(Box<StartedAttempt>),
    /// The request was dropped.
    Left,
}

struct PausedRequest {
    wait: RetryWait,
    /// The wait for a permit, after the pause.
    entry: Option<PermitWait>,
    deadline: Timestamp,
    ticket: Ticket,
    retry: RetryState,
}

/// An attempt that has begun.
pub(crate) struct StartedAttempt {
    pub(crate) retry: RetryState,
    /// The lease of the attempt, with the watch of the request's task.
    pub(crate) lease: Result<(Arc<ActiveLease>, WakerKey), LockError>,
}

/// The task that polls the request.
#[derive(Clone, Copy)]
enum PolledBy {
    Request,
    Manager,
}

impl RetryState {
    /// Moves the history to a new state, and leaves an empty one.
    pub(crate) fn take(&mut self) -> Self {
        Self {
            core: Arc::clone(&self.core),
            resource: self.resource.clone(),
            plan: Arc::clone(&self.plan),
            begun: self.begun,
            retries: std::mem::take(&mut self.retries),
            marked: self.marked.take(),
            span: self.span.clone(),
        }
    }

    pub(crate) fn begin(
        &mut self,
        ticket: Ticket,
        permit: Permit,
    ) -> Result<Arc<ActiveLease>, LockError> {
        if self.core.client.is_closed() {
            return Err(LockError::Closed);
        }
        self.begun += 1;
        self.span.record("attempt", self.begun);
        let plan = match self.retries.begin() {
            None => Arc::clone(&self.plan),
            lead_node => Arc::new(Plan { lead_node, ..*self.plan }),
        };
        let lease = ActiveLease::start(
            Arc::clone(&self.core.client),
            self.resource.clone(),
            plan,
            ticket,
            permit,
            self.marked.as_ref().map(|marked| Arc::clone(marked.mark())),
        )?;
        if let (None, Some(mark)) = (&self.marked, lease.wait_mark()) {
            self.marked = Some(MarkedRequest::new(mark, &self.core.client));
        }
        self.retries.tried = Some(lease.started());
        Ok(lease)
    }

    /// Returns the error for too many attempts in flight, and reports it to the line.
    pub(crate) fn refuse_overloaded(&self, ticket: &Ticket) -> LockError {
        let overloaded = VoteOutcome::NotCounted(Reason::Overloaded);
        let votes = self.core.client.votes(vec![overloaded; self.core.client.nodes.len()]);
        let error = self.retries.last.clone().unwrap_or(LockError::NoQuorum { votes });
        ticket.report(&error);
        error
    }
}

impl PausedRequest {
    /// Polls for the permit for the next attempt. Ready with `None` at the deadline.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Permit>> {
        let RetryState { core, resource, plan, retries, begun, .. } = &mut self.retry;
        let entry = match &mut self.entry {
            Some(entry) => entry,
            entry => {
                ready!(match &mut self.wait {
                    RetryWait::Yield(yielding) => {
                        ready!(yielding.poll(cx));
                        retries.lead_crowd(&core.client, resource, plan, self.deadline);
                        Poll::Ready(())
                    }
                    RetryWait::Pause(pause) => pause.poll(retries, &core.client, plan, cx),
                    RetryWait::Permit => Poll::Ready(()),
                });
                entry.insert(core.client.attempts.enter(*begun == 0, self.deadline))
            }
        };
        let permit = ready!(entry.poll(cx));
        retries.permit_wait = entry.waited();
        Poll::Ready(permit)
    }
}

impl RetryTask {
    /// Starts the wait. The attempt begins by `deadline`, or not at all.
    pub(crate) fn start(
        wait: RetryWait,
        deadline: Timestamp,
        ticket: Ticket,
        retry: RetryState,
    ) -> Arc<Self> {
        let spawner = Arc::clone(&retry.core.client.spawner);
        let paused = Some(Box::new(PausedRequest { wait, entry: None, deadline, ticket, retry }));
        let state = RetryTaskState::Pausing { paused, missed: false, task: None, own: None };
        let this = Arc::new(Self(Mutex::new(state)));
        spawner.spawn(Box::pin(Arc::clone(&this).run()));
        this
    }

    /// Polls for the begun attempt.
    ///
    /// # Panics
    ///
    /// If polled again after it was ready.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<StartedAttempt> {
        let waker = crate::sync::clone_waker(cx.waker());
        let (own, replaced) = match &mut *self.state() {
            RetryTaskState::Pausing { task, own, .. } => (own.clone(), task.replace(waker)),
            RetryTaskState::Beginning { task } => (None, task.replace(waker)),
            RetryTaskState::Begun(_) | RetryTaskState::Left => (None, Some(waker)),
        };
        drop(replaced);
        let waker = own.unwrap_or_else(|| Arc::new(crate::sync::clone_waker(cx.waker())));
        // The first task that polls in time begins the attempt. Wake-ups go to the manager's task.
        let _ = self.advance(waker, PolledBy::Request);
        let mut state = self.state();
        match std::mem::replace(&mut *state, RetryTaskState::Left) {
            RetryTaskState::Begun(begun) => Poll::Ready(*begun),
            RetryTaskState::Left => panic!("polled after it was ready"),
            waiting => {
                *state = waiting;
                Poll::Pending
            }
        }
    }

    /// Drops the request.
    pub(crate) fn leave(&self) {
        let left = std::mem::replace(&mut *self.state(), RetryTaskState::Left);
        match left {
            RetryTaskState::Pausing { own: Some(own), .. } => crate::sync::wake_by_ref(&own),
            RetryTaskState::Begun(begun) => {
                if let Ok((lease, _)) = begun.lease {
                    lease.release(false);
                }
            }
            _ => {}
        }
    }

    /// Begins the attempt if it is time for it.
    fn advance(&self, mut waker: Arc<Waker>, by: PolledBy) -> Poll<()> {
        let (permit, paused, own) = loop {
            let mut taken = match &mut *self.state() {
                RetryTaskState::Pausing { paused, missed, .. } => {
                    let Some(paused) = paused.take() else {
                        // The task that is polling it polls once more.
                        *missed = true;
                        return Poll::Pending;
                    };
                    paused
                }
                _ => return Poll::Ready(()),
            };
            let polled = taken.poll(&mut Context::from_waker(&waker));
            let mut state = self.state();
            let RetryTaskState::Pausing { paused, missed, task, own } = &mut *state else {
                // The request was dropped.
                drop(state);
                drop(taken);
                return Poll::Ready(());
            };
            if let Poll::Ready(permit) = polled {
                let (task, own) = (task.take(), own.take());
                *state = RetryTaskState::Beginning { task };
                break (permit, taken, own);
            }
            *paused = Some(taken);
            if !std::mem::take(missed) {
                return Poll::Pending;
            }
            let own = own.clone();
            drop(state);
            waker = own.unwrap_or(waker);
        };
        let PausedRequest { wait, entry, ticket, mut retry, .. } = *paused;
        drop((wait, entry));
        let span = retry.span.clone();
        let lease = span.in_scope(|| match permit {
            Some(permit) => retry.begin(ticket, permit),
            None => Err(retry.refuse_overloaded(&ticket)),
        });
        self.begun(retry, lease);
        // Wakes the manager's task, which then ends.
        if let (Some(own), PolledBy::Request) = (own, by) {
            crate::sync::wake_by_ref(&own);
        }
        Poll::Ready(())
    }

    /// Runs in a task of the manager.
    async fn run(self: Arc<Self>) {
        let _end = ManagerTaskGuard(&self);
        poll_fn(|cx| {
            let waker = Arc::new(crate::sync::clone_waker(cx.waker()));
            let replaced = match &mut *self.state() {
                RetryTaskState::Pausing { own, .. } => own.replace(Arc::clone(&waker)),
                _ => None,
            };
            drop(replaced);
            self.advance(waker, PolledBy::Manager)
        })
        .await;
    }

    fn begun(&self, retry: RetryState, lease: Result<Arc<ActiveLease>, LockError>) {
        let task = match &mut *self.state() {
            RetryTaskState::Beginning { task } => task.take(),
            _ => None,
        };
        let mut is_decided = true;
        let lease = lease.map(|lease| {
            let mut watch = WakerKey::default();
            if let Some(task) = &task {
                // From here on the request's task only waits for the decision.
                is_decided = lease.watch_for_decision(&mut watch, &Context::from_waker(task));
            }
            (lease, watch)
        });
        let mut state = self.state();
        let RetryTaskState::Beginning { task: polled } = &mut *state else {
            drop(state);
            if let Ok((lease, _)) = lease {
                lease.release(false);
            }
            return;
        };
        // A poll of the request's task in between did not see that the attempt has begun.
        let polled = polled.take();
        *state = RetryTaskState::Begun(Box::new(StartedAttempt { retry, lease }));
        drop(state);
        if let Some(task) = polled.or_else(|| task.filter(|_| is_decided)) {
            crate::sync::wake(task);
        }
    }

    fn state(&self) -> Guard<'_, RetryTaskState> {
        crate::sync::lock(&self.0)
    }
}

/// Handles the end of the manager's task or of its runtime: only the request's task can be woken
/// from then on.
struct ManagerTaskGuard<'a>(&'a RetryTask);

impl Drop for ManagerTaskGuard<'_> {
    fn drop(&mut self) {
        let (task, own) = match &mut *self.0.state() {
            RetryTaskState::Pausing { task, own, .. } => (task.take(), own.take()),
            _ => return,
        };
        drop(own);
        if let Some(task) = task {
            crate::sync::wake(task);
        }
    }
}

opaque_debug!(RetryTask);
