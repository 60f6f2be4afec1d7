//! What a scheduler's parts share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Semaphore, broadcast, watch};

use super::{JobEvent, JobEventKind, alarms::Alarms, shared_job::SharedJob};
use crate::{
    leader::Leader,
    lock::{Redlock, Spawner},
    schedule::WallTime,
    time::Sleep,
};

/// How far a scheduler has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Running,
    /// No new runs; those that are going are asked to stop.
    Stopping,
    /// Runs are dropped.
    Stopped,
    /// Nothing is waited for any more: what is left blocks.
    Left,
}

/// What all jobs of a scheduler are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Control {
    pub(super) phase: Phase,
    /// Whether this replica may run jobs: always, unless the scheduler is led and another one leads.
    pub(super) leads: bool,
}

pub(super) struct Shared {
    pub(super) redlock: Redlock,
    pub(super) leader: Option<Leader>,
    pub(super) alarms: Arc<Alarms>,
    pub(super) spawner: Arc<dyn Spawner>,
    /// What blocking jobs run in.
    pub(super) runtime: Option<tokio::runtime::Handle>,
    pub(super) control: watch::Sender<Control>,
    pub(super) events: broadcast::Sender<JobEvent>,
    pub(super) jobs: Box<[Arc<SharedJob>]>,
    /// How many of the jobs' tasks have not ended.
    pub(super) alive: watch::Sender<usize>,
    /// Limits the runs that go at once.
    pub(super) slots: Option<Arc<Semaphore>>,
    /// How many runs were asked for.
    pub(super) triggers: AtomicU64,
}

impl Shared {
    pub(super) fn control(&self) -> Control {
        *self.control.borrow()
    }

    pub(super) fn now(&self) -> WallTime {
        self.alarms.now()
    }

    pub(super) fn sleep(&self, time: Duration) -> Sleep {
        self.redlock.sleep(time)
    }

    pub(super) fn next_trigger(&self) -> u64 {
        self.triggers.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn emit(&self, job: &SharedJob, tick: WallTime, kind: JobEventKind) {
        // Ticks come while a run that was asked for goes on.
        let trigger = job.trigger().filter(|_| !kind.concerns_ticks());
        self.emit_for(job, tick, trigger, kind);
    }

    /// Tells of what concerns a run that was asked for, or none.
    pub(super) fn emit_for(
        &self,
        job: &SharedJob,
        tick: WallTime,
        trigger: Option<u64>,
        kind: JobEventKind,
    ) {
        crate::log::debug!(job = %job.name, %tick, trigger, event = ?kind, "job");
        let (job, at) = (Arc::clone(&job.name), self.now().into());
        let event = JobEvent { job, tick, trigger, at, kind };
        // Nobody may be listening.
        let _ = self.events.send(event);
    }
}
