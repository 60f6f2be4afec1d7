//! The schedule of a job as the servers keep it.

use std::{sync::Arc, time::SystemTime};

use super::read::checked;
use crate::{
    error::LockError,
    lock::{Redlock, claims},
    protocol::ScheduleMark,
    schedule::{Schedule, WallTime},
};

/// The schedule of a job, as the replica that claimed a tick last has stored it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoredSchedule {
    /// Its text, in the form in which the servers keep it: `every 60000 ms, offset 0 ms`,
    /// `cron 0 0 3 * * * in Europe/Berlin`, `custom banking days`. `None` if a replica of an earlier version
    /// has stored it.
    pub text: Option<Arc<str>>,
    /// The schedule; `None` for a custom rule, whose code the servers don't know, and without a text.
    pub schedule: Option<Schedule>,
    /// Time from which the job has it.
    pub since: SystemTime,
    /// The owner that gave it to the job.
    pub by: Arc<str>,
    /// Version of the time zone database by which its ticks are computed; `None` if they depend on none.
    pub zones: Option<Arc<str>>,
    /// The latest tick that was run.
    pub tick: Option<SystemTime>,
    /// End of the latest run; `None` while it lasts, and if it was interrupted.
    pub ended: Option<SystemTime>,
}

impl StoredSchedule {
    /// Returns the next ticks after a time, at most so many. Of a schedule that counts from the end of a run
    /// only the first is known, and none during a run.
    pub fn next_ticks(&self, after: SystemTime, most: usize) -> Vec<SystemTime> {
        let Some(schedule) = &self.schedule else { return Vec::new() };
        let after = WallTime::from(after);
        if schedule.is_after_end() {
            let next = self.ended.and_then(|ended| schedule.next(after, Some(ended.into())));
            return next.into_iter().take(most).map(SystemTime::from).collect();
        }
        schedule.ticks(after, WallTime::MAX).take(most).map(SystemTime::from).collect()
    }
}

/// # Jobs of a fleet
impl Redlock {
    /// Returns the schedule of a job, and its latest run; `None` if the servers know no such job. The job
    /// need not be known to this process.
    ///
    /// # Errors
    ///
    /// [`LockError::NoQuorum`] if too few nodes answered, and [`LockError::InvalidResource`].
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    pub async fn job_schedule(&self, name: &str) -> Result<Option<StoredSchedule>, LockError> {
        let name = checked(self, name)?;
        let kept = claims::read(self, &[name], &[]).await?.pop();
        let Some(latest) = kept.and_then(|kept| kept.latest) else { return Ok(None) };
        let Some(mark) = latest.schedule else { return Ok(None) };
        let at = |time| SystemTime::from(WallTime::since_epoch(time));
        Ok(Some(StoredSchedule {
            schedule: schedule_of(&mark),
            text: mark.text,
            since: at(mark.since),
            by: mark.owner,
            zones: mark.zones,
            tick: (!latest.run.tick.is_zero()).then(|| at(latest.run.tick)),
            ended: latest.run.ended.map(at),
        }))
    }
}

/// Returns the schedule that a mark describes, where its text says it.
pub(in super::super) fn schedule_of(mark: &ScheduleMark) -> Option<Schedule> {
    Schedule::from_fingerprint_text(mark.text.as_deref()?)
}
