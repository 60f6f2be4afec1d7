//! What was stored by a clock that was wrong.

use std::time::Duration;

use super::driver::{Driver, millis};
use crate::{
    protocol::{ScheduleMark, TickRun},
    quorum::claims::Latest,
    schedule::WallTime,
};

/// Values of the future that are remembered.
const MAX_REMEMBERED: usize = 16;

/// A stored value that lies in the future, and when it was found.
pub(super) type FromFuture = (Duration, WallTime);

/// What is stored of a job, without what lies in the future.
#[derive(Default)]
pub(super) struct Sane {
    pub(super) latest: Option<Latest>,
    /// Nothing is known of the job's runs but that there were some, up to then.
    pub(super) unknown_until: Option<WallTime>,
}

impl Driver {
    /// What lies more than a minute ahead counts as unknown: an end as the moment when the run
    /// began, a run as the one before it. The next claim stores what is true.
    pub(super) fn sane(&mut self, latest: Option<Latest>) -> Sane {
        let Some(latest) = latest else { return Sane::default() };
        let schedule = latest.schedule.clone().filter(|mark: &ScheduleMark| {
            !self.is_of_future("the moment since which it has its schedule", mark.since)
        });
        let before = latest.before.and_then(|run| self.sane_run(run));
        if let Some(run) = self.sane_run(latest.run) {
            let latest = Some(Latest { run, before, schedule, ..latest });
            return Sane { latest, unknown_until: None };
        }
        if let Some(run) = before {
            let is_replicated = false;
            let latest = Some(Latest { run, owner: None, before: None, schedule, is_replicated });
            return Sane { latest, unknown_until: None };
        }
        // Ticks up to now may have run.
        let run = latest.run;
        let is_of_run = |of: &&FromFuture| of.0 == run.tick || of.0 == run.since;
        let found = self.from_future.iter().find(is_of_run).map(|(_, at)| *at);
        Sane { latest: None, unknown_until: Some(found.unwrap_or_else(|| self.shared.now())) }
    }

    pub(super) fn sane_run(&mut self, run: TickRun) -> Option<TickRun> {
        if self.is_of_future("the latest tick", run.tick) {
            return None;
        }
        let mut sane = run;
        if self.is_of_future("the start of the latest run", run.since) {
            if run.tick.is_zero() {
                return None;
            }
            sane.since = run.tick;
        }
        if let Some(end) = run.ended
            && self.is_of_future("the end of the latest run", end)
        {
            sane.ended = Some(sane.since);
        }
        Some(sane)
    }

    fn is_of_future(&mut self, what: &str, value: Duration) -> bool {
        if WallTime::since_epoch(value) <= self.shared.alarms.limit() {
            return false;
        }
        if self.from_future.iter().all(|(of, _)| *of != value) {
            let now = self.shared.now();
            let ahead = value.saturating_sub(millis(now));
            crate::log::warn!(
                job = %self.job.name,
                what,
                stored_ms = value.as_millis(),
                ?ahead,
                "what is stored of the job lies in the future, and is not counted: the clock of the \
                 replica that stored it was wrong; the next run stores it anew"
            );
            if self.from_future.len() == MAX_REMEMBERED {
                self.from_future.remove(0);
            }
            self.from_future.push((value, now));
        }
        true
    }
}
