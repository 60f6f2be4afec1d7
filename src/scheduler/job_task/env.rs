//! What all phases of a job's task use: the job, the clock, the lock manager and the events.

use std::{sync::Arc, time::Duration};

pub(super) use super::super::tick_policy::{Due, JobRecord, MissedTicks, OnDemandSpan};
use super::super::{
    JobEventKind, context::RunInfo, event_sink::EventSink, job::JobOptions, roster::Roster,
    shared_job::SharedJob, tick_policy, wall_timer::WallTimer,
};
use crate::{
    error::LockError,
    lock::Redlock,
    resource::Resource,
    schedule::{Schedule, WallTime},
    time::Sleep,
};

/// The parts of a job that stay the same from one tick to the next.
pub(super) struct JobEnv {
    pub(super) redlock: Redlock,
    pub(super) wall_timer: Arc<WallTimer>,
    pub(super) events: Arc<EventSink>,
    pub(super) roster: Arc<Roster>,
    pub(super) job: Arc<SharedJob>,
    pub(super) schedule: Schedule,
    pub(super) options: JobOptions,
}

/// Purpose of acquiring the job's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Tick(WallTime),
    /// A run that was triggered on this replica.
    Trigger,
    /// A run that was requested of the whole fleet.
    Request,
    /// Stores since when the job exists, how its latest run ended, or that ticks are reported which do not run.
    Settle,
}

/// A job's next step, as far as it is known.
pub(super) struct NextStep {
    pub(super) due: Due,
    /// Why the nodes could not be queried for missed ticks and interrupted runs.
    pub(super) unknown: Option<LockError>,
}

impl JobEnv {
    pub(super) fn now(&self) -> WallTime {
        self.wall_timer.now()
    }

    /// Lets the locks of the job's runs be watched while a run is in progress on another replica.
    pub(super) fn watch_lock(&self) {
        let name = &self.job.name;
        let Ok(job) = Resource::of_job(name) else { return };
        let slots = |name| Resource::of_slots(name, self.options.parallel).shared_names().to_vec();
        let names = if self.options.is_parallel() {
            job.names().flat_map(slots).collect()
        } else {
            job.shared_names().to_vec()
        };
        let ttl = self.options.lock.ttl.unwrap_or(self.redlock.default_ttl());
        self.job.watch(names, ttl);
    }

    pub(super) fn sleep(&self, time: Duration) -> Sleep {
        self.redlock.sleep(time)
    }

    /// Sends an event of the job.
    pub(super) fn emit(&self, tick: WallTime, kind: JobEventKind) {
        self.events.emit(&self.job, tick, kind);
    }

    /// Sends an event of a run.
    pub(super) fn emit_of_run(&self, run: &RunInfo, kind: JobEventKind) {
        self.events.emit_of_run(&self.job, run, kind);
    }

    /// See [`tick_policy::due`].
    pub(super) fn due(&self, record: &JobRecord, now: WallTime) -> Due {
        let due = |record: &JobRecord| {
            tick_policy::due(&self.schedule, &self.job.name, &self.options.policy, record, now)
        };
        if self.options.is_parallel() {
            // No tick is late because another run lasted, or had not ended.
            return due(&JobRecord { last_end: None, on_demand: None, ..record.clone() });
        }
        due(record)
    }

    /// See [`tick_policy::given_up`].
    pub(super) fn given_up(&self, record: &JobRecord, now: WallTime) -> Option<WallTime> {
        tick_policy::given_up(&self.schedule, &self.job.name, &self.options.policy, record, now)
    }

    /// See [`tick_policy::next_overlap`].
    pub(super) fn next_overlap(
        &self,
        running: WallTime,
        seen: WallTime,
    ) -> Option<(WallTime, WallTime)> {
        tick_policy::next_overlap(&self.schedule, &self.job.name, running, seen)
    }
}
