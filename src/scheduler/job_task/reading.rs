//! Reads from the nodes what the fleet did with a job, and decides the job's next step by it.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    env::{Due, Purpose},
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

/// A job's next step, as far as it is known.
pub(super) struct NextStep {
    pub(super) due: Due,
    /// Why the nodes could not be queried for missed ticks and interrupted runs.
    pub(super) unknown: Option<LockError>,
}

impl JobTask {
    /// Returns the job's next step. Other replicas may have run ticks that seem missed, while this
    /// one was paused, stood by or did not reach the nodes: ticks count as missed only after a
    /// query.
    pub(super) async fn next(&mut self, now: WallTime) -> NextStep {
        let mut unknown = self.store_end_late().await.err();
        let limit = self.env.wall_timer.limit();
        if self.fleet.record.tick.max(self.fleet.record.last_end) > Some(limit) {
            // The clock was set back: times that it showed before are not waited for.
            let _ = self.sync().await;
        }
        let mut due = self.due(now);
        let (Due::Wait { missed, .. } | Due::Never { missed }) = due else {
            return NextStep { due, unknown };
        };
        let start = |tick| self.env.schedule.start(&self.env.job.name, tick);
        if let Some(queued) = self.fleet.still_queued(self.waits.queued, missed, start) {
            return NextStep { due: queued, unknown };
        }
        if missed.is_some_and(|missed| self.reports.is_news(missed)) {
            match self.sync().await {
                Ok(()) => {
                    due = self.due(now);
                    // A replica that reaches other nodes may take a claim that a minority keeps for
                    // the latest, and repeat its tick. What is stored under the lock excludes that.
                    if self.fleet.is_end_unreplicated() {
                        due = due.without_missed();
                    }
                }
                Err(error) => {
                    due = due.without_missed();
                    unknown = Some(error);
                }
            }
        }
        NextStep { due, unknown }
    }

    fn due(&mut self, now: WallTime) -> Due {
        self.give_up(now);
        self.env.due(&self.fleet.record, now)
    }

    /// Gives up a tick whose runs were interrupted, once it is too late or has had `max_attempts`.
    pub(super) fn give_up(&mut self, now: WallTime) {
        if let Some(tick) = self.env.given_up(&self.fleet.record, now) {
            self.fleet.record.unfinished = false;
            self.reports.given_up(&self.env, tick, self.fleet.record.attempt);
        }
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

    /// Takes over what the nodes keep of the job.
    pub(super) fn apply(&mut self, kept: JobHistory) {
        let env = &self.env;
        let clock = ClockReading {
            now: env.now(),
            limit: env.wall_timer.limit(),
            register_at: env.redlock.now() + random::within(&REGISTER_DELAY),
        };
        let known = self.fleet.record.tick;
        let forgot_until = WallTime::since_epoch(kept.assumed_run_until);
        if let Some(conflict) = self.fleet.apply(kept, &clock) {
            env.events.report_conflict(&env.redlock, &env.job, conflict);
        }
        self.reports.forgotten(&self.env, (self.fleet.record.base, known), forgot_until);
        env.job.seen(self.fleet.latest.as_ref());
    }

    /// Lets the job's state be stored within a few seconds.
    pub(super) fn register_soon(&mut self) {
        let delay = random::within(&REGISTER_DELAY);
        self.fleet.register_at = Some(self.env.redlock.now() + delay);
    }

    /// Whether the tick of this purpose is started. `seen`: the record's tick when it was due.
    pub(super) fn is_started(&self, purpose: Purpose, seen: Option<WallTime>) -> bool {
        let moves = self.env.schedule.is_after_end();
        matches!(purpose, Purpose::Tick(tick) if self.fleet.is_started(tick, seen, moves))
    }
}
