//! Jobs that nothing uses any more.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};

use super::{
    control::JobControl, error::ControlError, read::controls, stored_schedule::schedule_of,
};
use crate::{
    error::LockError,
    lock::{Redlock, claims},
    quorum::claims::LatestClaim,
    schedule::WallTime,
};

/// Number of jobs in one query.
const BATCH: usize = 100;

/// A job that nothing uses, as far as the servers know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Serialize))]
#[non_exhaustive]
pub struct UnusedJob {
    /// Its name.
    pub name: Arc<str>,
    /// Since when: the first tick that was not run, or the last thing that happened to the job where its
    /// schedule has no further tick or is a custom rule. The Unix epoch where nothing is known.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub since: SystemTime,
}

/// # Jobs that are gone
impl Redlock {
    /// Enumerates the jobs of the namespace that have been unused for that long, as
    /// [`locks`](Self::locks) enumerates locks.
    ///
    /// A job is unused from the first tick after its last run on: a replica that had the job would have run
    /// it. So a job with one tick a year is in use for that year. A custom rule is not known to the servers,
    /// nor is the schedule of a job that an earlier version stored: such a job is unused from the end of its
    /// last run on. A pause without an end, or with an end to come, keeps a job in use.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    pub fn unused_jobs(
        &self,
        unused_for: Duration,
    ) -> impl Stream<Item = Result<UnusedJob, LockError>> + Send + use<> {
        let redlock = self.clone();
        let batches = self.job_registers().chunks(BATCH).then(move |names| {
            let redlock = redlock.clone();
            async move {
                let names: Vec<Arc<str>> = names.into_iter().collect::<Result<_, _>>()?;
                let found = unused(&redlock, &names, unused_for).await?;
                Ok::<_, LockError>(stream::iter(found).map(Ok))
            }
        });
        batches.try_flatten()
    }

    /// [Forgets](Self::forget_job) all jobs that have been [unused](Self::unused_jobs) for that long. Each is
    /// looked at again under its lock. Returns those that were unused, with the result for each: an error of
    /// one job ends nothing.
    ///
    /// A [`Scheduler`](crate::Scheduler) does this once a day, with the time of
    /// [`forget_unused_after`](crate::Scheduler::forget_unused_after).
    ///
    /// # Errors
    ///
    /// [`LockError::NoQuorum`] if too few nodes could be read: jobs may be missing.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not undo it. Run it again.
    pub async fn forget_unused_jobs(
        &self,
        unused_for: Duration,
    ) -> Result<Vec<(UnusedJob, Result<bool, ControlError>)>, LockError> {
        let mut forgotten = Vec::new();
        let mut jobs = pin!(self.unused_jobs(unused_for));
        while let Some(job) = jobs.try_next().await? {
            let result = self.forget(&job.name, Some(unused_for)).await;
            forgotten.push((job, result));
        }
        Ok(forgotten)
    }
}

/// Returns the unused ones of these jobs.
pub(super) async fn unused(
    redlock: &Redlock,
    names: &[Arc<str>],
    unused_for: Duration,
) -> Result<Vec<UnusedJob>, LockError> {
    let now = redlock.nodes_wall();
    let before = WallTime::since_epoch(now.saturating_sub(unused_for));
    let kept = claims::read(redlock, names, &[]).await?;
    let controls = controls(redlock, names).await?;
    let jobs = names.iter().zip(kept).zip(controls);
    let unused = jobs.filter_map(|((name, kept), control)| {
        let since = unused_since(kept.latest.as_ref(), &control, WallTime::since_epoch(now))?;
        (since <= before).then(|| UnusedJob { name: Arc::clone(name), since: since.into() })
    });
    Ok(unused.collect())
}

/// Returns since when a job is unused; `None` if it is paused at `now`.
fn unused_since(
    latest: Option<&LatestClaim>,
    control: &JobControl,
    now: WallTime,
) -> Option<WallTime> {
    if control.pause_at(now).is_some() {
        return None;
    }
    let paused_until = control.paused.as_ref().and_then(|pause| pause.until);
    let requested = control.requested.iter().map(|request| request.at);
    let commanded = requested.chain(paused_until).map(WallTime::from).max();
    let run = latest.map(|latest| {
        let at = WallTime::since_epoch;
        let (run, ended) = (&latest.run, latest.run.ended.map(at));
        let since = latest.schedule.as_ref().map_or(WallTime::ZERO, |mark| at(mark.since));
        let last = at(run.since).max(since).max(ended.unwrap_or(WallTime::ZERO));
        let schedule = latest.schedule.as_ref().and_then(schedule_of);
        let next = schedule.and_then(|schedule| schedule.next(at(run.tick).max(since), ended));
        next.map_or(last, |next| next.max(last))
    });
    Some(run.max(commanded).unwrap_or(WallTime::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        protocol::{ScheduleMark, TickRun},
        scheduler::{JobPause, RequestedRun},
    };

    const DAY: u64 = 86_400;

    fn day(day: u64) -> WallTime {
        WallTime::since_epoch(Duration::from_secs(day * DAY))
    }

    /// A job that exists since the first day, and ran on the tenth.
    fn ran(text: &str) -> LatestClaim {
        let at = |day| Duration::from_secs(day * DAY);
        let mark = ScheduleMark::new(1, at(1), "a".into()).described(text, None);
        LatestClaim {
            run: TickRun::new(at(10), 1, at(10)).ended(at(10) + Duration::from_secs(60)),
            owner: None,
            before: None,
            schedule: Some(mark),
            is_replicated: true,
        }
    }

    fn since(text: &str) -> Option<WallTime> {
        unused_since(Some(&ran(text)), &JobControl::default(), day(1_000))
    }

    #[test]
    fn unused_from_the_tick_not_run() {
        let minute_of = |number| WallTime::from_millis(day(number).as_millis() + 60_000);

        assert_eq!(since("every 86400000 ms, offset 0 ms"), Some(day(11)));
        assert_eq!(since("every 31536000000 ms, offset 0 ms"), Some(day(365)));
        assert_eq!(since("86400000 ms after each end"), Some(minute_of(11)));
        for without in ["at 864000000 ms", "custom banking days", "of a later version"] {
            assert_eq!(since(without), Some(minute_of(10)), "{without}");
        }
    }

    #[test]
    fn commands_keep_a_job_in_use() {
        let at = |number| SystemTime::from(day(number));
        let pause = |until| JobPause { by: "b".into(), why: None, at: at(12), until };
        let with = |paused, requested| {
            let control = JobControl { paused, requested, stop: None };
            unused_since(Some(&ran("every 86400000 ms, offset 0 ms")), &control, day(1_000))
        };
        let request = RequestedRun { id: 1, by: "b".into(), why: None, at: at(400), until: None };

        assert_eq!(with(Some(pause(None)), vec![]), None);
        assert_eq!(with(Some(pause(Some(at(1_001)))), vec![]), None);
        assert_eq!(with(Some(pause(Some(at(300)))), vec![]), Some(day(300)));
        assert_eq!(with(None, vec![request]), Some(day(400)));
    }

    #[test]
    fn nothing_known_is_unused() {
        assert_eq!(unused_since(None, &JobControl::default(), day(1)), Some(WallTime::ZERO));
    }
}
