//! What the tasks and handles of a scheduler share.

use std::{future::pending, sync::Arc, time::Duration};

use tokio::sync::{Semaphore, watch};

use super::{event_sink::EventSink, roster::Roster, wall_timer::WallTimer};
use crate::{
    leader::Leader,
    lock::{Redlock, Spawner},
    sync::atomic::{AtomicU64, Ordering},
};

/// Phase of a scheduler's shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Running,
    /// No new runs; current ones get a stop request.
    Stopping,
    /// Runs are dropped.
    Stopped,
    /// No more waiting: only blocking work is left.
    Left,
}

/// Control signals for all jobs of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Control {
    pub(super) phase: Phase,
    /// Whether this replica may run jobs: false only if the scheduler has a leader elsewhere.
    pub(super) leads: bool,
}

/// What the tasks and the blocking jobs of a scheduler run on.
#[derive(Clone)]
pub(super) struct Executor {
    pub(super) spawner: Arc<dyn Spawner>,
    /// Runtime context of blocking jobs.
    pub(super) runtime: Option<tokio::runtime::Handle>,
}

pub(super) struct SchedulerShared {
    pub(super) redlock: Redlock,
    pub(super) leader: Option<Leader>,
    pub(super) wall_timer: Arc<WallTimer>,
    pub(super) executor: Executor,
    pub(super) control: watch::Sender<Control>,
    pub(super) events: Arc<EventSink>,
    pub(super) roster: Arc<Roster>,
    /// Limits concurrent runs.
    pub(super) slots: Option<Arc<Semaphore>>,
    /// See [`Scheduler::forget_unused_after`](super::Scheduler::forget_unused_after).
    pub(super) forget_unused_after: Duration,
    /// Number of triggered runs.
    pub(super) triggers: AtomicU64,
}

/// Interval between checks whether the manager of a scheduler without jobs is shut down.
const CLOSED_CHECK: Duration = Duration::from_secs(60);

impl SchedulerShared {
    pub(super) fn control(&self) -> Control {
        *self.control.borrow()
    }

    pub(super) fn is_running(&self) -> bool {
        self.control().phase == Phase::Running
    }

    /// Enters a phase of the shutdown, unless a later one has begun.
    pub(super) fn enter(&self, phase: Phase) {
        self.control.send_modify(|control| control.phase = control.phase.max(phase));
        debug_assert!(self.control().phase >= phase, "a shutdown does not go back");
    }

    /// Waits until no job is left, and none can be added any more.
    pub(super) async fn ended(&self) {
        let (mut tasks, mut control) = (self.roster.changes(), self.control.subscribe());
        loop {
            let is_empty = *tasks.borrow_and_update() == 0;
            let is_over = control.borrow_and_update().phase > Phase::Running;
            if is_empty && (is_over || self.redlock.is_closed()) {
                return;
            }
            // The manager sends no notification of its shutdown.
            let check = async {
                if is_empty { self.redlock.sleep(CLOSED_CHECK).await } else { pending().await }
            };
            tokio::select! {
                biased;
                _ = tasks.changed() => {}
                _ = control.changed() => {}
                () = check => {}
            }
        }
    }

    pub(super) fn next_trigger(&self) -> u64 {
        self.triggers.fetch_add(1, Ordering::Relaxed) + 1
    }
}
