//! What a scheduler's parts share.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use tokio::sync::{Notify, broadcast, watch};

use super::{
    FleetRun, JobCounts, JobEvent, JobEventKind, JobStatus, LastRun, Outcome, RunningJob,
    alarms::Alarms,
};
use crate::{
    leader::Leader,
    lock::{Core, Redlock, Spawner, claims::Kept},
    metrics,
    schedule::WallTime,
    sync::Guard,
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
    pub(super) jobs: Box<[Arc<JobState>]>,
    /// How many of the jobs' tasks have not ended.
    pub(super) alive: watch::Sender<usize>,
}

/// One job, as its task and the handles see it.
pub(super) struct JobState {
    pub(super) name: Arc<str>,
    inner: Mutex<Inner>,
    /// Something was asked for.
    pub(super) asked: Notify,
}

struct Inner {
    status: JobStatus,
    triggers: u32,
    has_ended: bool,
    blocks: bool,
}

/// Requests for runs beyond this are not remembered.
const MAX_TRIGGERS: u32 = 1_000;

impl Shared {
    pub(super) fn core(&self) -> &Arc<Core> {
        self.redlock.core()
    }

    pub(super) fn control(&self) -> Control {
        *self.control.borrow()
    }

    pub(super) fn now(&self) -> WallTime {
        self.alarms.now()
    }

    pub(super) fn sleep(&self, time: Duration) -> Sleep {
        self.core().timers.sleep_until(self.core().clock().now() + time)
    }

    pub(super) fn emit(&self, job: &JobState, tick: WallTime, kind: JobEventKind) {
        crate::log::debug!(job = %job.name, tick = tick.as_millis(), event = ?kind, "job");
        let event = JobEvent { job: Arc::clone(&job.name), tick, at: self.now().into(), kind };
        // Nobody may be listening.
        let _ = self.events.send(event);
    }
}

impl JobState {
    pub(super) fn new(name: Arc<str>, schedule: &str) -> Self {
        let status = JobStatus {
            name: Arc::clone(&name),
            schedule: schedule.into(),
            next_tick: None,
            paused: false,
            running: None,
            last: None,
            fleet: None,
            counts: JobCounts::default(),
        };
        let inner = Inner { status, triggers: 0, has_ended: false, blocks: false };
        Self { name, inner: Mutex::new(inner), asked: Notify::new() }
    }

    fn inner(&self) -> Guard<'_, Inner> {
        crate::sync::lock(&self.inner)
    }

    pub(super) fn status(&self) -> JobStatus {
        self.inner().status.clone()
    }

    pub(super) fn set_paused(&self, paused: bool) {
        self.inner().status.paused = paused;
        self.asked.notify_one();
    }

    pub(super) fn is_paused(&self) -> bool {
        self.inner().status.paused
    }

    pub(super) fn trigger(&self) {
        {
            let mut inner = self.inner();
            inner.triggers = (inner.triggers + 1).min(MAX_TRIGGERS);
        }
        self.asked.notify_one();
    }

    pub(super) fn take_trigger(&self) -> bool {
        let mut inner = self.inner();
        let asked = inner.triggers > 0;
        inner.triggers -= u32::from(asked);
        asked
    }

    pub(super) fn set_next(&self, tick: Option<WallTime>) {
        self.inner().status.next_tick = tick.map(SystemTime::from);
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut JobCounts)) {
        count(&mut self.inner().status.counts);
    }

    pub(super) fn seen(&self, kept: &Kept) {
        let at = |time| SystemTime::from(WallTime::since_epoch(time));
        self.inner().status.fleet = kept.latest.as_ref().map(|latest| FleetRun {
            tick: (!latest.run.tick.is_zero()).then(|| at(latest.run.tick)),
            since: at(latest.run.since),
            ended: latest.run.ended.map(at),
            owner: latest.owner.clone(),
        });
    }

    /// `blocks`: its end can't be hastened.
    pub(super) fn started(&self, running: RunningJob, blocks: bool) {
        let mut inner = self.inner();
        inner.status.next_tick = None;
        inner.status.running = Some(running);
        inner.status.counts.started += 1;
        inner.blocks = blocks;
    }

    pub(super) fn tries_again(&self, attempt: u32) {
        if let Some(running) = &mut self.inner().status.running {
            running.attempt = attempt;
        }
    }

    pub(super) fn ended(&self, outcome: &Outcome, took: Duration) {
        {
            let mut inner = self.inner();
            inner.blocks = false;
            inner.status.counts.count(outcome);
            if let Some(RunningJob { tick, since, .. }) = inner.status.running.take() {
                let outcome = outcome.clone();
                inner.status.last = Some(LastRun { tick, started: since, took, outcome });
            }
        }
        metrics::job_run(&self.name, outcome.label(), took);
    }

    pub(super) fn set_gone(&self) {
        let mut inner = self.inner();
        inner.has_ended = true;
        inner.status.next_tick = None;
        // A thread goes on where the task that waits for it is gone.
        if !inner.blocks {
            inner.status.running = None;
        }
    }

    /// Whether nothing is gained by waiting for it with its work dropped.
    pub(super) fn is_gone_or_blocks(&self) -> bool {
        let inner = self.inner();
        inner.has_ended || inner.blocks
    }

    /// Whether nothing runs, and the last run was broken off.
    pub(super) fn was_stopped(&self) -> bool {
        let status = &self.inner().status;
        let stopped = |last: &LastRun| last.outcome == Outcome::Stopped;
        status.running.is_none() && status.last.as_ref().is_some_and(stopped)
    }

    pub(super) fn is_running(&self) -> bool {
        self.inner().status.running.is_some()
    }
}
