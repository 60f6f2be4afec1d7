//! Reads from the nodes what the fleet did with a job, and decides the job's next step by it.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    env::{Due, NextStep, Purpose},
    knowledge::ClockReading,
    task::JobTask,
};
use crate::{
    error::LockError,
    lock::claims::{self, JobHistory},
    random,
    schedule::WallTime,
};

/// Delay before a new job or schedule is stored; random, to spread the load.
const REGISTER_DELAY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(5);
/// Delay before ticks that do not run are reported; random, as replicas find them at the same time.
const REPORT_DELAY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_millis(200);

impl JobTask {
    /// Returns the job's next step. Other replicas may have run ticks that seem missed, while this
    /// one was paused, stood by or did not reach the nodes: ticks count as missed only after a
    /// query.
    pub(super) async fn next(&mut self, now: WallTime) -> NextStep {
        let mut unknown = None;
        let limit = self.env.wall_timer.limit();
        if self.fleet.record.tick.max(self.fleet.record.last_end) > Some(limit) {
            // The clock was set back: times that it showed before are not waited for.
            let _ = self.sync().await;
        }
        let mut due = self.env.due(&self.fleet.record, now);
        let (Due::Wait { missed, .. } | Due::Never { missed }) = due else {
            return NextStep { due, unknown };
        };
        let start = |tick| self.env.schedule.start(&self.env.job.name, tick);
        if let Some(queued) = self.fleet.still_queued(self.waits.queued, missed, start) {
            return NextStep { due: queued, unknown };
        }
        if missed.is_some() && (self.fleet.settle_at.is_none() || self.reports.is_out()) {
            match self.sync().await {
                Ok(()) => due = self.env.due(&self.fleet.record, now),
                Err(error) => unknown = Some(error),
            }
            if unknown.is_none() && due.missed().is_some() && self.fleet.settle_at.is_none() {
                self.settle_soon();
            }
        }
        NextStep { due, unknown }
    }

    /// Whether there is something to store or to report under the job's lock, beside the run of a tick.
    pub(super) fn has_to_settle(&self, now: WallTime) -> bool {
        let fleet = &self.fleet;
        let is_missed = || {
            let due = self.env.due(&fleet.record, now);
            let is_idle = !matches!(due, Due::Run { .. });
            is_idle && due.missed().is_some() && self.env.job.pause_at(now).is_none()
        };
        fleet.latest.is_none()
            || fleet.own_schedule.replaces()
            || fleet.is_end_unreplicated()
            || (fleet.is_lock_over && fleet.has_open_run())
            || self.lost_ticks().is_some()
            || !self.unreported.is_empty()
            || is_missed()
    }

    /// Lets the fates of ticks that do not run be stored and reported.
    pub(super) fn settle_soon(&mut self) {
        let at = self.env.redlock.now() + random::within(&REPORT_DELAY);
        self.fleet.settle_at = Some(self.fleet.settle_at.map_or(at, |known| known.min(at)));
    }

    /// Reads the job's claims from the nodes. Keeps the known state on an error.
    pub(super) async fn sync(&mut self) -> Result<(), LockError> {
        let job = std::slice::from_ref(&self.env.job.name);
        let kept = claims::read(&self.env.redlock, job, &self.fleet.never_started).await?;
        self.reports.note_answered(&self.env);
        if let Some(kept) = kept.into_iter().next() {
            self.apply(kept);
        }
        Ok(())
    }

    /// The lock of the latest run is free: the run has ended, or was interrupted.
    pub(super) async fn note_lock_over(&mut self) {
        if self.sync().await.is_err() || !self.fleet.has_open_run() {
            return;
        }
        if self.fleet.record.unfinished {
            // It is repeated, or given up.
            self.env.job.unwatch();
        } else {
            self.fleet.is_lock_over = true;
            self.settle_soon();
        }
    }

    /// Takes over what the nodes keep of the job.
    pub(super) fn apply(&mut self, kept: JobHistory) {
        let env = &self.env;
        let clock = ClockReading {
            now: env.now(),
            limit: env.wall_timer.limit(),
            settle_at: env.redlock.now() + random::within(&REGISTER_DELAY),
        };
        let known = self.fleet.record.tick;
        let forgot_until = WallTime::since_epoch(kept.assumed_run_until);
        if let Some(conflict) = self.fleet.apply(kept, &clock) {
            env.events.report_conflict(&env.redlock, &env.job, conflict);
        }
        let latest = self.fleet.latest.clone();
        self.tell_counted();
        let base = self.fleet.record.base;
        self.reports.note_forgotten(&self.env, base, known, forgot_until);
        if self.lost_ticks().is_some() && self.fleet.settle_at.is_none() {
            self.settle_soon();
        }
        self.env.job.seen(latest.as_ref());
        if self.fleet.has_open_run() {
            self.env.roster.runs_elsewhere.notify_one();
        }
    }

    /// Lets the job's state be stored within a few seconds.
    pub(super) fn register_soon(&mut self) {
        let delay = random::within(&REGISTER_DELAY);
        self.fleet.settle_at = Some(self.env.redlock.now() + delay);
    }

    /// Whether the tick of this purpose is started. `seen`: the record's tick when it was due.
    pub(super) fn is_started(&self, purpose: Purpose, seen: Option<WallTime>) -> bool {
        let moves = self.env.schedule.is_after_end();
        matches!(purpose, Purpose::Tick(tick) if self.fleet.is_started(tick, seen, moves))
    }
}
