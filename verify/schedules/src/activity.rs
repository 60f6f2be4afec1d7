//! Tracks which tasks and threads of a schedule are active. Time moves when none is.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker},
};

/// The active tasks and threads.
///
/// Its mutexes come from the standard library, so that they add no points to the schedule: no such
/// point lies between their locking and unlocking.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    state: Mutex<ActivityState>,
}

#[derive(Debug, Default)]
struct ActivityState {
    active: usize,
    /// The task that waits in [`Activity::idle`].
    waker: Option<Waker>,
}

/// A task or thread. It is active from its creation until its guard is dropped, except while it
/// waits.
#[derive(Debug)]
pub(crate) struct Actor {
    activity: Arc<Activity>,
    state: Mutex<ActorState>,
    /// The waker of the task or thread.
    waker: Mutex<Option<Waker>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ActorState {
    Running,
    /// It was woken while it ran.
    Woken,
    Waiting,
    /// It has ended; wakers of its last wait may outlive it.
    Ended,
}

impl ActorState {
    fn is_active(self) -> bool {
        matches!(self, Self::Running | Self::Woken)
    }
}

impl Activity {
    pub(crate) fn actor(self: &Arc<Self>) -> Arc<Actor> {
        self.begin();
        Arc::new(Actor {
            activity: Arc::clone(self),
            state: Mutex::new(ActorState::Running),
            waker: Mutex::default(),
        })
    }

    /// Waits until every task and thread waits.
    pub(crate) async fn idle(&self) {
        poll_fn(|cx| {
            let mut state = locked(&self.state);
            if state.active == 0 {
                return Poll::Ready(());
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn begin(&self) {
        locked(&self.state).active += 1;
    }

    fn end(&self) {
        let waker = {
            let mut state = locked(&self.state);
            state.active -= 1;
            if state.active == 0 { state.waker.take() } else { None }
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Actor {
    /// Runs a future. The task or thread is not active while the future waits.
    pub(crate) async fn run<F: Future>(self: &Arc<Self>, future: F) -> F::Output {
        let mut future = Box::pin(future);
        poll_fn(|cx| self.poll(future.as_mut(), cx)).await
    }

    fn poll<F: Future>(self: &Arc<Self>, future: Pin<&mut F>, cx: &Context<'_>) -> Poll<F::Output> {
        *locked(&self.waker) = Some(cx.waker().clone());
        self.set(ActorState::Running);
        let waker = Waker::from(Arc::clone(self));
        let polled = future.poll(&mut Context::from_waker(&waker));
        let is_woken = *locked(&self.state) == ActorState::Woken;
        if polled.is_pending() && !is_woken {
            self.set(ActorState::Waiting);
        }
        polled
    }

    fn set(&self, next: ActorState) {
        let before = {
            let mut state = locked(&self.state);
            if *state == ActorState::Ended {
                return;
            }
            std::mem::replace(&mut *state, next)
        };
        match (before.is_active(), next.is_active()) {
            (false, true) => self.activity.begin(),
            (true, false) => self.activity.end(),
            _ => {}
        }
    }
}

impl Wake for Actor {
    fn wake(self: Arc<Self>) {
        self.set(ActorState::Woken);
        let waker = locked(&self.waker).clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Ends a task or thread when it is dropped.
#[derive(Debug)]
pub(crate) struct ActorGuard(pub(crate) Arc<Actor>);

impl Drop for ActorGuard {
    fn drop(&mut self) {
        self.0.set(ActorState::Ended);
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
