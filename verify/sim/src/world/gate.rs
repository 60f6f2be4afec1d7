//! The process of a client: its tasks, which are paused and ended together.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use tokio::task::JoinHandle;
use tower_redlock::{
    lock::Spawner,
    switches::{self, Switch},
};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A process. Clones are the same process.
#[derive(Clone, Default)]
pub(super) struct Gate(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    is_paused: bool,
    pauses: u64,
    is_gone: bool,
    /// The guard that this process lacks.
    lacks: Option<Switch>,
    waiting: Vec<Waker>,
    tasks: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

impl Gate {
    /// Creates a process without this guard.
    pub(super) fn lacking(switch: Option<Switch>) -> Self {
        Self(Arc::new(Mutex::new(State { lacks: switch, ..State::default() })))
    }

    /// Runs a task of the process.
    pub(super) fn run(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut state = self.lock();
        if state.is_gone {
            return;
        }
        state.tasks.retain(|task| !task.is_finished());
        let gated = Gated { gate: self.clone(), task: Box::pin(task) };
        state.tasks.push(tokio::spawn(tokio::task::unconstrained(gated)));
    }

    /// Pauses or resumes the process.
    pub(super) fn pause(&self, is_paused: bool) {
        let mut state = self.lock();
        state.is_paused = is_paused;
        state.pauses += 1;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Number of times that the process was paused or resumed.
    pub(super) fn pauses(&self) -> u64 {
        self.lock().pauses
    }

    /// Ends the process: its tasks are dropped.
    pub(super) fn kill(&self) {
        let mut state = self.lock();
        state.is_gone = true;
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        tasks.iter().for_each(JoinHandle::abort);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Gated {
    gate: Gate,
    task: Task,
}

impl Future for Gated {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let lacks = {
            let mut state = self.gate.lock();
            if state.is_gone {
                return Poll::Ready(());
            }
            if state.is_paused {
                state.waiting.push(cx.waker().clone());
                return Poll::Pending;
            }
            state.lacks
        };
        let Some(switch) = lacks else { return self.task.as_mut().poll(cx) };
        switches::take_out(Some(switch));
        let polled = self.task.as_mut().poll(cx);
        switches::take_out(None);
        polled
    }
}

impl Spawner for Gate {
    fn spawn(&self, task: Task) {
        self.run(task);
    }

    fn runs_jobs(&self) -> bool {
        true
    }
}
