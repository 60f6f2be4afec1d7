//! Jobs that nothing uses any more.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};

use super::{control::JobControl, read::controls, stored_schedule::schedule_of};
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
    /// Since when: the first tick that was not run, or the latest event of the job where its next tick is not
    /// known. The Unix epoch if the servers have no information about the job.
    #[cfg_attr(feature = "config", serde(with = "humantime_serde"))]
    pub since: SystemTime,
    /// Whether the schedule shows that it is unused. Otherwise its next tick may be to come: the schedule is
    /// a custom rule, one that this program cannot read, or not stored, as by an earlier version; or it is the
    /// one tick of a [`job_tick`](Redlock::job_tick), which would run again.
    pub is_certain: bool,
}

/// # Jobs that are gone
impl Redlock {
    /// Enumerates the jobs of the namespace that have been unused for that long, as
    /// [`locks`](Self::locks) enumerates locks.
    ///
    /// A job is unused from the first tick after its last run on: a replica that had the job would have run
    /// it. So a job with one tick a year is in use for that year. A pause without an end, or with an end to
    /// come, keeps a job in use; any other command counts from its time on.
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
                let (mut listed, mut failed) = (Vec::new(), None);
                for name in names {
                    match name {
                        Ok(name) => listed.push(name),
                        Err(error) => failed = Some(Err(error)),
                    }
                }
                let found = unused(&redlock, &listed, unused_for).await?;
                // The error of a set that is down is the last item.
                Ok::<_, LockError>(stream::iter(found.into_iter().map(Ok).chain(failed)))
            }
        });
        batches.try_flatten()
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
        let now = WallTime::since_epoch(now);
        let (since, is_certain) = unused_since(kept.latest.as_ref(), &control, now)?;
        let name = Arc::clone(name);
        (since <= before).then(|| UnusedJob { name, since: since.into(), is_certain })
    });
    Ok(unused.collect())
}

/// Returns since when a job is unused, and whether its schedule shows that; `None` if it is paused at `now`.
fn unused_since(
    latest: Option<&LatestClaim>,
    control: &JobControl,
    now: WallTime,
) -> Option<(WallTime, bool)> {
    if control.pause_at(now).is_some() {
        return None;
    }
    let paused_until = control.paused.as_ref().and_then(|pause| pause.until);
    let commanded = control.changed.max(paused_until).map_or(WallTime::ZERO, WallTime::from);
    let Some(latest) = latest else { return Some((commanded, true)) };
    let at = WallTime::since_epoch;
    let (tick, ended) = (at(latest.run.tick), latest.run.ended.map(at));
    let since = latest.schedule.as_ref().map_or(WallTime::ZERO, |mark| at(mark.since));
    let last = at(latest.run.since).max(since).max(ended.unwrap_or(WallTime::ZERO)).max(commanded);
    let Some(schedule) = latest.schedule.as_ref().and_then(schedule_of) else {
        return Some((last, false));
    };
    match schedule.next(tick.max(since), ended) {
        Some(next) => Some((next.max(last), true)),
        // A scheduler knows that its tick was run by the time since which the job exists. A request for a
        // tick exists since that tick.
        None => Some((last, since < tick)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        protocol::{ScheduleMark, TickFates, TickRun},
        scheduler::JobPause,
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
            fates: TickFates::default(),
        }
    }

    fn since(text: &str) -> Option<(WallTime, bool)> {
        unused_since(Some(&ran(text)), &JobControl::default(), day(1_000))
    }

    #[test]
    fn unused_from_the_tick_not_run() {
        let minute_of = |number| WallTime::from_millis(day(number).as_millis() + 60_000);

        assert_eq!(since("every 86400000 ms, offset 0 ms"), Some((day(11), true)));
        assert_eq!(since("every 31536000000 ms, offset 0 ms"), Some((day(365), true)));
        assert_eq!(since("86400000 ms after each end"), Some((minute_of(11), true)));
        assert_eq!(since("at 864000000 ms"), Some((minute_of(10), true)));
        for unknown in ["custom banking days", "of a later version"] {
            assert_eq!(since(unknown), Some((minute_of(10), false)), "{unknown}");
        }
    }

    #[test]
    fn requested_tick_would_run_again() {
        let mut requested = ran("at 864000000 ms");
        requested.schedule.as_mut().unwrap().since = requested.run.tick;

        let (_, is_certain) =
            unused_since(Some(&requested), &JobControl::default(), day(1_000)).unwrap();
        assert!(!is_certain);
    }

    #[test]
    fn commands_keep_a_job_in_use() {
        let at = |number| SystemTime::from(day(number));
        let pause = |until| JobPause { by: "b".into(), why: None, at: at(12), until };
        let with = |paused, changed| {
            let control = JobControl { paused, changed, ..JobControl::default() };
            let latest = ran("every 86400000 ms, offset 0 ms");
            unused_since(Some(&latest), &control, day(1_000)).map(|(since, _)| since)
        };

        assert_eq!(with(Some(pause(None)), None), None);
        assert_eq!(with(Some(pause(Some(at(1_001)))), None), None);
        assert_eq!(with(Some(pause(Some(at(300)))), Some(at(12))), Some(day(300)));
        assert_eq!(with(None, Some(at(400))), Some(day(400)));
    }

    #[test]
    fn nothing_known_is_unused() {
        let none = unused_since(None, &JobControl::default(), day(1));
        assert_eq!(none, Some((WallTime::ZERO, true)));
    }
}
