//! A request to run one tick of a job.

use std::{
    fmt,
    future::Future,
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::{
    super::claims::{OwnSchedule, millis},
    TickContext, TickError, TickOutcome,
    attempt::TickAttempt,
};
use crate::{
    lock::{LockOptions, Redlock},
    resource::Resource,
    schedule::{Schedule, WallTime},
};

/// Default of [`TickRequest::stop_grace`].
const STOP_GRACE: Duration = Duration::from_secs(5);

/// Default of [`TickRequest::early`].
const DEFAULT_EARLY: Duration = Duration::from_secs(5);

/// How far a tick may be ahead of the clocks of the servers.
const MAX_AHEAD: Duration = Duration::from_secs(60);

/// # Ticks without a scheduler
impl Redlock {
    /// Runs the latest tick of a job, unless it was run: for programs that cron, or a `CronJob` of Kubernetes,
    /// starts at each tick on several hosts.
    ///
    /// The tick is claimed on a majority of the servers under the job's lock, as a
    /// [`Scheduler`](crate::Scheduler) does, and counts as done when the work has succeeded. A host that
    /// comes while another one runs it waits, as far as the [`options`](TickRequest::options) say, and then
    /// finds it done. The job's [pauses](Self::pause_job) count, and its [history](Self::job_history) has the run.
    ///
    /// ```
    /// use std::{convert::Infallible, time::Duration};
    /// use tower_redlock::{Redlock, Schedule, scheduler::TickOutcome};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let redlock = Redlock::embedded();
    /// let hourly = Schedule::every(Duration::from_secs(3_600));
    /// let request = redlock.job_tick("report", hourly);
    /// let first = request.clone().run(|cx| async move { Ok::<_, Infallible>(cx.attempt()) });
    /// assert_eq!(first.await?, TickOutcome::Ran(1));
    ///
    /// let second = request.run(|_| async { Ok::<_, Infallible>(2) });
    /// assert!(matches!(second.await?, TickOutcome::AlreadyDone { .. }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn job_tick(&self, job: impl Into<Arc<str>>, schedule: impl Into<Schedule>) -> TickRequest {
        TickRequest {
            redlock: self.clone(),
            job: job.into(),
            schedule: schedule.into(),
            work: None,
            at: None,
            early: DEFAULT_EARLY,
            attempts: 1,
            stop_grace: STOP_GRACE,
            options: LockOptions::new(),
        }
    }
}

/// A request to run one tick of a job.
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until its work is run"]
pub struct TickRequest {
    redlock: Redlock,
    job: Arc<str>,
    schedule: Schedule,
    work: Option<Arc<str>>,
    at: Option<SystemTime>,
    early: Duration,
    attempts: u32,
    stop_grace: Duration,
    options: LockOptions,
}

impl TickRequest {
    /// Sets the time whose latest tick is run. Default: now, by the clock of this host, as it was started by
    /// that. At most a minute ahead of the servers' clocks. A tick before the latest one that was run counts
    /// as done.
    pub const fn at(mut self, time: SystemTime) -> Self {
        self.at = Some(time);
        self
    }

    /// Sets how long before a tick a start means that tick, and waits for it. Default: 5 s; always less than
    /// half of the time between the two ticks around it. Whatever starts the program may have a clock that
    /// is ahead of this host's: without this, such a start would mean the tick before, which is done, and
    /// nothing would start the next one. Not used with [`at`](Self::at).
    pub const fn early(mut self, early: Duration) -> Self {
        self.early = early;
        self
    }

    /// Sets a text that says what runs at the ticks, such as a command line. Only its hash is stored. Of two
    /// programs that use one job name by mistake, the second at a tick then gets
    /// [`TickOutcome::Conflict`], not `AlreadyDone`. Default: none; then only the schedules are compared.
    pub fn work_id(mut self, work: impl Into<Arc<str>>) -> Self {
        self.work = Some(work.into());
        self
    }

    /// Sets how often a tick is tried at most, over all hosts: a run that failed or was interrupted is
    /// repeated by the next request. Default: 1. Zero counts as 1.
    pub const fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets the time between a [request to stop](Redlock::stop_job) and the drop of work that has not
    /// returned. Default: 5 s. `Duration::MAX`: the work is not dropped.
    pub const fn stop_grace(mut self, grace: Duration) -> Self {
        self.stop_grace = grace;
        self
    }

    /// Sets the options of the job's lock: the wait while another host runs the job, the TTL, the longest
    /// run. Default: the manager's.
    pub const fn options(mut self, options: LockOptions) -> Self {
        self.options = options;
        self
    }

    /// Returns the tick that a run which begins now is for; `None` if the schedule has none up to now.
    pub fn tick(&self) -> Option<SystemTime> {
        self.meant().0.map(SystemTime::from)
    }

    /// Returns the time from [that tick](Self::tick) to the next one; `None` if there is none.
    pub fn interval(&self) -> Option<Duration> {
        let tick = self.meant().0?;
        let next = self.schedule.ticks(tick, WallTime::MAX).next()?;
        Some(between(tick, next))
    }

    /// Runs the work if the tick is due. It is stopped if the lock is lost, as by
    /// [`LockRequest::run`](crate::LockRequest::run).
    ///
    /// # Errors
    ///
    /// [`TickError`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, and releases the lock. The attempt counts as interrupted.
    pub async fn run<F, Fut, T, E>(self, work: F) -> Result<TickOutcome<T>, TickError<E>>
    where
        F: FnOnce(TickContext) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: fmt::Display,
    {
        let (tick, early) = self.checked_tick()?;
        if !early.is_zero() {
            self.redlock.sleep(early).await;
        }
        let request = self.redlock.lock_own(Resource::of_job(&self.job)).options(self.options);
        let Self { redlock, job, attempts, stop_grace, .. } = &self;
        let attempt = TickAttempt::new(redlock, job, tick, *attempts, *stop_grace);
        let own = || self.own_schedule(tick);
        match request.run(|context| attempt.run(context, own(), work)).await {
            Ok(outcome) => outcome,
            Err(error) => {
                attempt.note_lost(&error).await;
                Err(TickError::Lock(error))
            }
        }
    }

    fn own_schedule(&self, tick: WallTime) -> OwnSchedule {
        let owner = Arc::clone(self.redlock.owner());
        OwnSchedule::new(&self.schedule, self.work.as_deref(), millis(tick), owner)
    }

    /// Returns the tick, and the time until it begins.
    fn meant(&self) -> (Option<WallTime>, Duration) {
        let (at, early) = match self.at {
            Some(at) => (WallTime::from(at), Duration::ZERO),
            None => (WallTime::since_epoch(self.redlock.wall()), self.early),
        };
        tick_of(&self.schedule, at, early)
    }

    fn checked_tick<E>(&self) -> Result<(WallTime, Duration), TickError<E>> {
        self.schedule.check().map_err(TickError::Schedule)?;
        let (tick, wait) = self.meant();
        let tick = tick.ok_or_else(|| TickError::NoTick { job: Arc::clone(&self.job) })?;
        let now = WallTime::since_epoch(self.redlock.nodes_wall());
        let ahead = between(now, tick).saturating_sub(wait);
        if ahead > MAX_AHEAD { Err(TickError::ClockAhead { by: ahead }) } else { Ok((tick, wait)) }
    }
}

/// Returns the time from one moment to a later one; zero if it is earlier.
fn between(from: WallTime, to: WallTime) -> Duration {
    Duration::from_millis(to.as_millis().saturating_sub(from.as_millis()))
}

/// Returns the tick that a start at this time means, and the time until it begins.
fn tick_of(schedule: &Schedule, at: WallTime, early: Duration) -> (Option<WallTime>, Duration) {
    let latest = schedule.latest(at).filter(|tick| *tick > WallTime::ZERO);
    let Some(next) = schedule.ticks(at, WallTime::MAX).next() else {
        return (latest, Duration::ZERO);
    };
    let wait = between(at, next);
    let is_near = latest.is_none_or(|latest| wait < between(latest, next) / 2);
    if wait <= early && is_near { (Some(next), wait) } else { (latest, Duration::ZERO) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_starts_mean_the_next_tick() {
        let minutes = Schedule::every(Duration::from_secs(60));
        let at = |ms: u64| WallTime::since_epoch(Duration::from_millis(1_700_000_040_000 + ms));
        let five = Duration::from_secs(5);
        for (ms, early, tick, wait) in [
            (0, five, 0, 0),
            (54_999, five, 0, 0),
            (55_000, five, 60_000, 5_000),
            (59_861, five, 60_000, 139),
            (59_861, Duration::ZERO, 0, 0),
            (60_000, five, 60_000, 0),
            // Less than half of the period.
            (30_000, Duration::from_secs(3_600), 0, 0),
            (30_001, Duration::from_secs(3_600), 60_000, 29_999),
        ] {
            let found = tick_of(&minutes, at(ms), early);
            assert_eq!(found, (Some(at(tick)), Duration::from_millis(wait)), "{ms} {early:?}");
        }
        let after = Schedule::every_after(Duration::from_secs(60));
        assert_eq!(tick_of(&after, at(0), five).0, None, "it has no ticks of its own");
        let once = Schedule::at(SystemTime::from(at(0)));
        assert_eq!(tick_of(&once, at(1_000), five), (Some(at(0)), Duration::ZERO));
    }
}
