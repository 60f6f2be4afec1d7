//! A job's schedule and the one that others know it by.

use std::{sync::Arc, time::Duration};

use super::driver::Driver;
use crate::{
    protocol::ScheduleMark, quorum::claims::Latest, random, schedule::Schedule, stripe::fnv,
    time::Timestamp,
};

/// Interval between warnings that two schedules are alive.
const WARN_INTERVAL: Duration = Duration::from_secs(3600);
/// New jobs and schedules are made known within this, one after the other.
const REGISTER_WITHIN: Duration = Duration::from_secs(5);

/// What a replica knows of its job's schedule.
#[derive(Debug)]
pub(super) struct OwnSchedule {
    /// As this replica stores it. It counts since the earliest moment at which it was known.
    pub(super) mark: ScheduleMark,
    /// It was stored, by whomever.
    is_known: bool,
    /// The one that is stored in place of it.
    other: Option<ScheduleMark>,
    /// The other one that was warned of last, and when.
    warned: Option<(u64, Timestamp)>,
}

/// Above zero, which stands for none.
fn fingerprint(schedule: &Schedule) -> u64 {
    fnv(&schedule.fingerprint_text()).max(1)
}

impl OwnSchedule {
    /// Since now, as far as it is known.
    pub(super) fn new(schedule: &Schedule, now: Duration, owner: Arc<str>) -> Self {
        let mark = ScheduleMark::new(fingerprint(schedule), now, owner);
        Self { mark, is_known: false, other: None, warned: None }
    }

    /// Whether it replaces the stored one, which is to be stored once.
    pub(super) fn replaces(&self) -> bool {
        self.other.is_some() && !self.is_known
    }
}

impl Driver {
    /// Compares the job's schedule with the one that is stored.
    pub(super) fn compare_schedules(&mut self, latest: &Latest) {
        if latest.owner.is_none() && latest.schedule.is_none() {
            // What stood before a claim that came to nothing: the schedule is not told with it.
            return;
        }
        let own = &mut self.own_schedule;
        own.other = None;
        match &latest.schedule {
            Some(stored) if stored.fingerprint == own.mark.fingerprint => {
                own.is_known = true;
                if stored.since <= own.mark.since {
                    own.mark = stored.clone();
                }
            }
            Some(stored) => {
                own.other = Some(stored.clone());
                if own.is_known {
                    let stored = stored.clone();
                    self.tell_two_schedules(&stored);
                } else if self.register_at.is_none() {
                    self.register_at = Some(self.soon());
                }
                return;
            }
            // Of an earlier version: what it ran was run by this schedule, as far as it is known.
            None => {
                let run = &latest.run;
                let since = if run.tick.is_zero() { run.since } else { run.tick };
                own.mark.since = own.mark.since.min(since);
            }
        }
        self.register_at = None;
    }

    /// When to store what the nodes ought to know of the job.
    pub(super) fn soon(&self) -> Timestamp {
        let delay = random::within(&(Duration::ZERO..=REGISTER_WITHIN));
        self.shared.core().clock().now() + delay
    }

    /// A claim by the job's schedule is stored.
    pub(super) fn schedule_is_stored(&mut self) {
        let own = &mut self.own_schedule;
        let (replaced, was_known) = (own.other.take(), own.is_known);
        own.is_known = true;
        if let (Some(replaced), false) = (replaced, was_known) {
            crate::log::info!(
                job = %self.job.name,
                schedule = %self.schedule,
                by = %self.shared.core().settings.owner,
                since_ms = self.own_schedule.mark.since.as_millis(),
                former = %replaced.owner,
                "the job has another schedule than before: earlier ticks are none of its own"
            );
        }
    }

    /// Both run under one name, and each takes the other's ticks for its own.
    fn tell_two_schedules(&mut self, other: &ScheduleMark) {
        let now = self.shared.core().clock().now();
        let own = &mut self.own_schedule;
        if own.warned.is_some_and(|(of, at)| {
            of == other.fingerprint && now.saturating_duration_since(at) < WARN_INTERVAL
        }) {
            return;
        }
        own.warned = Some((other.fingerprint, now));
        crate::log::warn!(
            job = %self.job.name,
            schedule = %self.schedule,
            by = %self.shared.core().settings.owner,
            other = %other.owner,
            "two schedules are in use under one job name, and keep ticks from each other: expected \
             while a new version is rolled out; otherwise give one of the jobs another name"
        );
    }
}
