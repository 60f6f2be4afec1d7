use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Wake, Waker},
};

use tracing::Span;

use super::{
    pause::{Pause, Retries},
    way::Way,
};
use crate::{
    error::LockError,
    lock::{core::Core, lease::ActiveLease, queue::Ticket, settings::Plan, watchers::Watch},
    resource::Resource,
};

/// One try after the other, of a request that is at the head of the line.
pub(crate) struct Tries {
    pub(crate) core: Arc<Core>,
    pub(crate) resource: Resource,
    pub(crate) plan: Plan,
    /// How many have begun.
    pub(crate) begun: u32,
    pub(crate) retries: Retries,
    pub(crate) span: Span,
}

/// What a request waits for before its next try.
pub(crate) enum Wait {
    /// Its first: for others that are to have their turn.
    Way(Way),
    /// A later one.
    Pause(Pause),
}

/// A request that pauses before a try. What ends the pause begins the next try, on the thread
/// where that happens: the way from a release to the next grant does not lead through the task that
/// waits, which may be busy, or on a processor that sleeps.
pub(crate) struct Standby(Mutex<State>);

enum State {
    Pausing {
        pause: Wait,
        ticket: Ticket,
        tries: Tries,
        /// The task that waits.
        task: Option<Waker>,
    },
    /// The next try is being sent.
    Beginning {
        task: Option<Waker>,
    },
    Begun(Begun),
    /// The request has left.
    Left,
}

/// A try that has begun.
pub(crate) struct Begun {
    pub(crate) tries: Tries,
    /// With the task's watch.
    pub(crate) lease: Result<(Arc<ActiveLease>, Watch), LockError>,
}

impl Tries {
    /// What goes on elsewhere; what stays here knows nothing of earlier tries.
    pub(crate) fn hand_over(&mut self) -> Self {
        Self {
            core: Arc::clone(&self.core),
            resource: self.resource.clone(),
            plan: self.plan,
            begun: self.begun,
            retries: std::mem::take(&mut self.retries),
            span: self.span.clone(),
        }
    }

    pub(crate) fn begin(&mut self, ticket: Ticket) -> Result<Arc<ActiveLease>, LockError> {
        if self.core.is_closed() {
            return Err(LockError::Closed);
        }
        self.begun += 1;
        self.span.record("attempt", self.begun);
        let plan = self.retries.begin(&self.core, self.plan);
        ActiveLease::start(Arc::clone(&self.core), self.resource.clone(), plan, ticket)
    }
}

impl Standby {
    pub(crate) fn new(pause: Wait, ticket: Ticket, tries: Tries) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State::Pausing { pause, ticket, tries, task: None })))
    }

    /// Ready when the next try has begun.
    ///
    /// # Panics
    ///
    /// If polled again after it was ready.
    pub(crate) fn poll(self: &Arc<Self>, cx: &Context<'_>) -> Poll<Begun> {
        let replaced = match &mut *self.state() {
            State::Pausing { task, .. } | State::Beginning { task } => {
                task.replace(cx.waker().clone())
            }
            State::Begun(_) | State::Left => None,
        };
        drop(replaced);
        self.go_on();
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::Left) {
            State::Begun(begun) => Poll::Ready(begun),
            State::Left => panic!("polled after it was ready"),
            waiting => {
                *state = waiting;
                Poll::Pending
            }
        }
    }

    /// The request is not wanted any more.
    pub(crate) fn leave(&self) {
        let left = std::mem::replace(&mut *self.state(), State::Left);
        if let State::Begun(Begun { lease: Ok((lease, _)), .. }) = &left {
            lease.release(false);
        }
    }

    /// Begins the next try if it is time for it.
    fn go_on(self: &Arc<Self>) {
        let (ticket, mut tries, pause) = {
            let mut state = self.state();
            let State::Pausing { pause, tries, .. } = &mut *state else { return };
            let waker = Waker::from(Arc::clone(self));
            let mut cx = Context::from_waker(&waker);
            let pause = match pause {
                Wait::Way(way) => way.poll(&mut cx),
                Wait::Pause(pause) => {
                    pause.poll(&mut tries.retries, &tries.core, &tries.plan, &mut cx)
                }
            };
            if pause.is_pending() {
                return;
            }
            let State::Pausing { pause, ticket, tries, task } =
                std::mem::replace(&mut *state, State::Left)
            else {
                return;
            };
            *state = State::Beginning { task };
            (ticket, tries, pause)
        };
        drop(pause);
        let span = tries.span.clone();
        let lease = span.in_scope(|| tries.begin(ticket));
        self.begun(tries, lease);
    }

    fn begun(&self, tries: Tries, lease: Result<Arc<ActiveLease>, LockError>) {
        let mut state = self.state();
        let State::Beginning { task } = &mut *state else {
            drop(state);
            if let Ok(lease) = lease {
                lease.release(false);
            }
            return;
        };
        let task = task.take();
        let mut decided = true;
        let lease = lease.map(|lease| {
            let mut watch = Watch::default();
            if let Some(task) = &task {
                // From here on the task waits for the decision, which is all that it wants to know.
                decided = lease.watch_for_decision(&mut watch, &Context::from_waker(task));
            }
            (lease, watch)
        });
        *state = State::Begun(Begun { tries, lease });
        drop(state);
        if let (Some(task), true) = (task, decided) {
            task.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        crate::sync::lock(&self.0)
    }
}

impl Wake for Standby {
    fn wake(self: Arc<Self>) {
        self.go_on();
    }
}

impl fmt::Debug for Standby {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Standby").finish_non_exhaustive()
    }
}
