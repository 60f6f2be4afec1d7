//! The schedule of a job: its rule, custom rules, and the jitter.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

#[cfg(feature = "cron")]
use super::cron::ticks::CronTicks;
use super::{
    error::ScheduleError,
    latest::latest,
    wall_time::{WallTime, millis},
};
use crate::hash::{fnv, mix};

/// When a job is due.
///
/// Cheap to clone, and computed without a clock: the same on every replica. An invalid schedule has
/// no ticks, and [`check`](Schedule::check) returns its error.
///
/// Displayed as `every 5 min` or `every day at 03:00 (Europe/Berlin)`, for example.
#[derive(Clone)]
#[must_use = "a schedule does nothing until a job has it"]
pub struct Schedule {
    pub(super) rule: Result<Rule, ScheduleError>,
    pub(super) jitter: Duration,
}

#[derive(Clone)]
pub(super) enum Rule {
    /// Period and offset, in ms. The offset is below the period.
    Every {
        period: u64,
        offset: u64,
    },
    /// A delay in ms, above zero.
    AfterEnd(u64),
    At(WallTime),
    #[cfg(feature = "cron")]
    Cron(Arc<CronTicks>),
    Custom {
        name: Arc<str>,
        rule: Arc<dyn Recurrence>,
    },
}

impl Schedule {
    /// Creates a schedule with a tick every `period`, counted from the Unix epoch: all replicas
    /// have the same ticks, whenever they were started. A period of a day ticks at midnight UTC, or
    /// [later](Self::offset).
    ///
    /// The period is at least 1 ms, in whole milliseconds.
    #[doc(alias = "interval")]
    pub fn every(period: Duration) -> Self {
        Self::new(whole_millis(period).map(|period| Rule::Every { period, offset: 0 }))
    }

    /// Moves the ticks of [`every`](Self::every): each is `offset` after a multiple of the period, counted
    /// from the Unix epoch. Default: zero.
    ///
    /// ```
    /// use std::time::Duration;
    /// # use redlock_core as tower_redlock;
    /// use tower_redlock::{schedule::WallTime, Schedule};
    ///
    /// let minute = Duration::from_secs(60);
    /// let quarters = Schedule::every(15 * minute).offset(5 * minute);
    /// let nine = WallTime::from_millis(1_763_715_600_000);
    /// assert_eq!(nine.to_string(), "2025-11-21T09:00:00Z");
    /// let next: Vec<_> = quarters.ticks(nine, WallTime::MAX).take(2).collect();
    /// assert_eq!(next[0].to_string(), "2025-11-21T09:05:00Z");
    /// assert_eq!(next[1].to_string(), "2025-11-21T09:20:00Z");
    /// ```
    ///
    /// The offset is below the period, in whole milliseconds. Another one, or an offset of a
    /// schedule without a period, is an error of [`check`](Self::check) and of the start.
    pub fn offset(self, offset: Duration) -> Self {
        let rule = self.rule.and_then(|rule| match rule {
            Rule::Every { period, .. } => {
                if !is_whole_millis(offset) {
                    return Err(ScheduleError::FractionalOffset { offset });
                }
                let millis = millis(offset);
                if millis >= period {
                    let period = Duration::from_millis(period);
                    return Err(ScheduleError::OffsetTooLong { offset, period });
                }
                Ok(Rule::Every { period, offset: millis })
            }
            _ => Err(ScheduleError::OffsetWithoutPeriod { offset }),
        });
        Self { rule, ..self }
    }

    /// Creates a schedule whose runs start `delay` after the end of the last one, on any replica;
    /// the first starts at once.
    ///
    /// Such a schedule has no ticks of its own: the next run follows from the end of the last one,
    /// and none is missed. The delay is at least 1 ms, in whole milliseconds.
    pub fn every_after(delay: Duration) -> Self {
        Self::new(whole_millis(delay).map(Rule::AfterEnd))
    }

    /// Creates a schedule with one tick, at `moment`, rounded up to whole milliseconds.
    ///
    /// A moment that passed before any replica started the job is not run; the scheduler reports it
    /// at the start, see [`check_at`](Self::check_at).
    pub fn at(moment: SystemTime) -> Self {
        let tick = WallTime::not_before(moment).ok_or(ScheduleError::MomentOutOfRange);
        Self::new(tick.map(Rule::At))
    }

    /// Creates a schedule of a custom rule.
    ///
    /// `name` describes the rule (`"first banking day of the month"`) to people and to other
    /// replicas: two rules with one name count as the same schedule, as their code can't be
    /// compared. Change the name when the ticks change, and include what they depend on, such as
    /// the version of a list of holidays. An empty name is an error of [`check`](Self::check).
    pub fn custom(name: impl Into<Arc<str>>, rule: impl Recurrence) -> Self {
        let name = name.into();
        if name.trim().is_empty() {
            return Self::new(Err(ScheduleError::UnnamedRule));
        }
        Self::new(Ok(Rule::Custom { name, rule: Arc::new(rule) }))
    }

    pub(super) const fn new(rule: Result<Rule, ScheduleError>) -> Self {
        Self { rule, jitter: Duration::ZERO }
    }

    /// Delays the start of each run by up to `limit`, in whole milliseconds. Default: zero.
    ///
    /// The delay is a hash of the job's name and the tick. It spreads jobs that share a tick, and
    /// is the same on every replica: of random delays the smallest would win, and the starts of a
    /// large fleet would be close to the tick again. The tick keeps its name, and a run starts
    /// before the next tick.
    pub const fn jitter(mut self, limit: Duration) -> Self {
        self.jitter = limit;
        self
    }

    /// Checks whether the schedule is valid.
    ///
    /// # Errors
    ///
    /// The [`ScheduleError`] of its constructor or setters.
    pub fn check(&self) -> Result<(), ScheduleError> {
        self.rule.as_ref().map(|_| ()).map_err(Clone::clone)
    }

    /// Checks whether the schedule is valid and has a tick after `now`.
    ///
    /// A moment that has passed ([`at`](Self::at)) is not wrong by itself: after the run, a restarted
    /// fleet has the same jobs. If the tick was not run, a scheduler reports it by a WARN and by
    /// `JobStatus::finding`.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// # use redlock_core as tower_redlock;
    /// use tower_redlock::{schedule::{ScheduleError, WallTime}, Schedule};
    ///
    /// let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(1_763_715_600);
    /// let once = Schedule::at(moment);
    /// assert!(once.check_at(WallTime::ZERO).is_ok());
    /// let error = once.check_at(moment.into()).unwrap_err();
    /// assert_eq!(error, ScheduleError::NoTickLeft { last: Some(moment.into()) });
    /// assert!(error.to_string().contains("2025-11-21T09:00:00Z"));
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check), and [`ScheduleError::NoTickLeft`].
    pub fn check_at(&self, now: WallTime) -> Result<(), ScheduleError> {
        self.check()?;
        match self.next(now, None) {
            Some(_) => Ok(()),
            None => Err(ScheduleError::NoTickLeft { last: self.latest(now) }),
        }
    }

    /// Returns the earliest tick strictly after `after`, if any.
    ///
    /// `last_end`, the end of the last run, is used by [`every_after`](Schedule::every_after) only;
    /// there, `None` means that the job never ran, and is due at once.
    pub fn next(&self, after: WallTime, last_end: Option<WallTime>) -> Option<WallTime> {
        let Ok(Rule::AfterEnd(delay)) = self.rule else { return self.tick_after(after) };
        let soonest = after.plus(1)?;
        last_end.map_or(Some(soonest), |end| end.plus(delay)).map(|due| due.max(soonest))
    }

    /// Returns the latest tick that is not after `at`; `None` if there is none, and for
    /// [`every_after`](Schedule::every_after). Takes fewer than a hundred steps for any number of
    /// ticks.
    pub fn latest(&self, at: WallTime) -> Option<WallTime> {
        latest(|after| self.tick_after(after), at)
    }

    /// Returns when the run of `tick` starts, for the job with this name: the tick plus its
    /// [jitter](Schedule::jitter).
    pub fn start(&self, job: &str, tick: WallTime) -> WallTime {
        let limit = millis(self.jitter);
        if limit == 0 {
            return tick;
        }
        let span = self
            .tick_after(tick)
            .map_or(limit, |next| limit.min(next.as_millis() - tick.as_millis()));
        tick.plus(jitter_delay(job, tick, span)).unwrap_or(WallTime::MAX)
    }

    /// Returns whether it is [`every_after`](Schedule::every_after), which has no ticks of its own.
    #[doc(hidden)]
    pub const fn is_after_end(&self) -> bool {
        matches!(self.rule, Ok(Rule::AfterEnd(_)))
    }

    pub(super) fn tick_after(&self, after: WallTime) -> Option<WallTime> {
        let tick = match self.rule.as_ref().ok()? {
            Rule::Every { period, offset } => {
                // No overflow: all three are at most the year 9999.
                let passed = (after.as_millis() + (period - offset)) % period;
                after.plus(period - passed)
            }
            Rule::AfterEnd(_) => None,
            Rule::At(tick) => Some(*tick),
            #[cfg(feature = "cron")]
            Rule::Cron(cron) => cron.next(after),
            Rule::Custom { rule, .. } => rule.next(after),
        };
        tick.filter(|tick| *tick > after)
    }
}

fn whole_millis(period: Duration) -> Result<u64, ScheduleError> {
    if period.is_zero() {
        return Err(ScheduleError::ZeroPeriod);
    }
    if !is_whole_millis(period) {
        return Err(ScheduleError::FractionalPeriod { period });
    }
    match millis(period) {
        millis if millis <= WallTime::MAX.as_millis() => Ok(millis),
        _ => Err(ScheduleError::PeriodTooLong { period }),
    }
}

const fn is_whole_millis(time: Duration) -> bool {
    time.subsec_nanos().is_multiple_of(1_000_000)
}

/// Returns a delay below `span`, the same on every replica for the same job and tick.
fn jitter_delay(job: &str, tick: WallTime, span: u64) -> u64 {
    let mixed = mix(fnv(job) ^ mix(tick.as_millis()));
    // The upper half of the product is uniform enough for jitter, and never reaches the span.
    let product = u128::from(mixed) * u128::from(span);
    u64::try_from(product >> 64).unwrap_or(0)
}

/// A custom rule for the ticks of a job; see [`Schedule::custom`].
///
/// The ticks must depend on the rule only: a replica that computes other ticks runs the job at
/// other times. Closures are rules, too:
///
/// ```
/// # use redlock_core as tower_redlock;
/// use tower_redlock::{schedule::WallTime, Schedule};
///
/// // Twice as late each time: after 1 ms, 2 ms, 4 ms, …
/// let doubling = |after: WallTime| {
///     (after.as_millis() + 1).checked_next_power_of_two().map(WallTime::from_millis)
/// };
/// let schedule = Schedule::custom("doubling", doubling);
/// let at = WallTime::from_millis;
/// assert_eq!(schedule.next(at(4), None), Some(at(8)));
/// assert_eq!(schedule.latest(at(1_000)), Some(at(512)));
/// ```
pub trait Recurrence: Send + Sync + 'static {
    /// Returns the earliest tick strictly after `after`, if any.
    ///
    /// A later `after` must not return an earlier tick. A tick that is not after `after` counts as
    /// none.
    fn next(&self, after: WallTime) -> Option<WallTime>;
}

impl<F> Recurrence for F
where
    F: Fn(WallTime) -> Option<WallTime> + Send + Sync + 'static,
{
    fn next(&self, after: WallTime) -> Option<WallTime> {
        self(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_spread_by_job_and_tick() {
        let tick = WallTime::from_millis(1_763_694_000_000);
        let mut tenths = [[0_u32; 10]; 2];

        for i in 0..1_000_u32 {
            let by_job = jitter_delay(&format!("job-{i}"), tick, 10_000);
            let by_tick = jitter_delay("job", tick.plus(u64::from(i) * 60_000).unwrap(), 10_000);
            for (tenths, delay) in tenths.iter_mut().zip([by_job, by_tick]) {
                tenths[usize::try_from(delay / 1_000).unwrap()] += 1;
            }
        }

        assert!(tenths.as_flattened().iter().all(|n| (50..=150).contains(n)), "{tenths:?}");
        assert_eq!(jitter_delay("job", tick, 0), 0);
        assert_eq!(jitter_delay("job", tick, 1), 0);
    }
}
