use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

#[cfg(feature = "cron")]
use super::cron::{CronSchedule, CronTicks};
use super::{Recurrence, ScheduleError, Ticks, WallTime, jitter, ticks::latest, wall_time::millis};

/// When a job is due.
///
/// Cheap to clone, and computed without a clock: the same on every replica. A schedule that can't
/// be used has no ticks, and [`check`](Schedule::check) tells why.
#[derive(Clone)]
pub struct Schedule {
    rule: Result<Rule, ScheduleError>,
    jitter: Duration,
}

#[derive(Clone)]
enum Rule {
    /// A period in ms, above zero.
    Every(u64),
    /// A delay in ms, above zero.
    AfterEnd(u64),
    At(WallTime),
    #[cfg(feature = "cron")]
    Cron(Arc<CronTicks>),
    Custom(Arc<dyn Recurrence>),
}

impl Schedule {
    /// A tick every `period`, counted from the Unix epoch: each replica has the same ticks,
    /// whenever it was started. A period of a day ticks at midnight UTC.
    ///
    /// The period is at least 1 ms, and made of whole milliseconds.
    pub fn every(period: Duration) -> Self {
        Self::new(whole_millis(period).map(Rule::Every))
    }

    /// A run starts `delay` after the last one ended, whichever replica ran it; the first at once.
    ///
    /// Such a schedule has no ticks of its own: its next run is known only from when the last one
    /// ended, and none is ever missed. The delay is at least 1 ms, and made of whole milliseconds.
    pub fn every_after(delay: Duration) -> Self {
        Self::new(whole_millis(delay).map(Rule::AfterEnd))
    }

    /// One tick, at `moment`; rounded up to whole milliseconds.
    pub fn at(moment: SystemTime) -> Self {
        let tick = WallTime::not_before(moment).ok_or(ScheduleError::MomentOutOfRange);
        Self::new(tick.map(Rule::At))
    }

    /// The ticks of a cron expression, in UTC unless a [zone](CronSchedule::in_tz) is given.
    #[cfg(feature = "cron")]
    ///
    /// # Errors
    ///
    /// An expression that can't be read, or that no date will ever match; the error names it.
    pub fn cron(expression: impl Into<String>) -> Result<CronSchedule, ScheduleError> {
        CronSchedule::new(expression.into())
    }

    /// The ticks of a rule of one's own.
    pub fn custom(rule: impl Recurrence) -> Self {
        Self::new(Ok(Rule::Custom(Arc::new(rule))))
    }

    #[cfg(feature = "cron")]
    pub(super) const fn of_cron(ticks: Arc<CronTicks>) -> Self {
        Self::new(Ok(Rule::Cron(ticks)))
    }

    const fn new(rule: Result<Rule, ScheduleError>) -> Self {
        Self { rule, jitter: Duration::ZERO }
    }

    /// Starts each run up to `limit` after its tick (zero, the default: at the tick); in whole
    /// milliseconds.
    ///
    /// The delay is computed from the job's name and the tick. So it spreads jobs that share a
    /// tick, and it is the same on every replica: were it drawn by each, the smallest of many
    /// would win, and the starts of a large fleet would crowd at the tick again. The tick keeps
    /// its name, and a run never starts as late as the next tick.
    #[must_use]
    pub const fn jitter(mut self, limit: Duration) -> Self {
        self.jitter = limit;
        self
    }

    /// Whether the schedule can be used.
    ///
    /// # Errors
    ///
    /// What is wrong with it, naming what was given.
    pub fn check(&self) -> Result<(), ScheduleError> {
        self.rule.as_ref().map(|_| ()).map_err(Clone::clone)
    }

    /// The earliest tick strictly after `after`; `None` where there is none.
    ///
    /// `last_end`, when the last run ended, counts for [`every_after`](Schedule::every_after)
    /// only; there, `None` means that the job never ran, and is due at once.
    pub fn next(&self, after: WallTime, last_end: Option<WallTime>) -> Option<WallTime> {
        let Ok(Rule::AfterEnd(delay)) = self.rule else { return self.tick_after(after) };
        let soonest = after.plus(1)?;
        last_end.map_or(Some(soonest), |end| end.plus(delay)).map(|due| due.max(soonest))
    }

    /// The latest tick that is not after `at`; `None` where there is none, and for
    /// [`every_after`](Schedule::every_after). Takes less than a hundred steps, however many ticks
    /// there are.
    pub fn latest(&self, at: WallTime) -> Option<WallTime> {
        latest(|after| self.tick_after(after), at)
    }

    /// The ticks strictly after `after` and not after `until`; none for
    /// [`every_after`](Schedule::every_after).
    ///
    /// They are computed as they are taken, from either end. There may be very many, so bound
    /// them: `take(n)` for the oldest, `rev().take(n)` for the newest.
    pub const fn ticks(&self, after: WallTime, until: WallTime) -> Ticks<'_> {
        Ticks::new(self, after, until)
    }

    /// When the run of `tick` starts, for the job of this name: the tick, and its
    /// [jitter](Schedule::jitter).
    pub fn start(&self, job: &str, tick: WallTime) -> WallTime {
        let limit = millis(self.jitter);
        if limit == 0 {
            return tick;
        }
        let span = self
            .tick_after(tick)
            .map_or(limit, |next| limit.min(next.as_millis() - tick.as_millis()));
        tick.plus(jitter::delay(job, tick, span)).unwrap_or(WallTime::MAX)
    }

    /// Whether it is [`every_after`](Schedule::every_after), which has no ticks of its own.
    pub(crate) const fn is_after_end(&self) -> bool {
        matches!(self.rule, Ok(Rule::AfterEnd(_)))
    }

    pub(super) fn tick_after(&self, after: WallTime) -> Option<WallTime> {
        let tick = match self.rule.as_ref().ok()? {
            Rule::Every(period) => {
                let passed = after.as_millis() % period;
                after.plus(period - passed)
            }
            Rule::AfterEnd(_) => None,
            Rule::At(tick) => Some(*tick),
            #[cfg(feature = "cron")]
            Rule::Cron(cron) => cron.next(after),
            Rule::Custom(rule) => rule.next(after),
        };
        tick.filter(|tick| *tick > after)
    }
}

fn whole_millis(period: Duration) -> Result<u64, ScheduleError> {
    if period.is_zero() {
        return Err(ScheduleError::ZeroPeriod);
    }
    if !period.subsec_nanos().is_multiple_of(1_000_000) {
        return Err(ScheduleError::FractionalPeriod { period });
    }
    match millis(period) {
        millis if millis <= WallTime::MAX.as_millis() => Ok(millis),
        _ => Err(ScheduleError::PeriodTooLong { period }),
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schedule").field("rule", &self.rule).field("jitter", &self.jitter).finish()
    }
}

/// For people: `every 10s, up to 2s later`.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rule {
            Ok(rule) => write!(f, "{rule:?}")?,
            Err(error) => write!(f, "none ({error})")?,
        }
        if self.jitter.is_zero() { Ok(()) } else { write!(f, ", up to {:?} later", self.jitter) }
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every(millis) => write!(f, "every {:?}", Duration::from_millis(*millis)),
            Self::AfterEnd(millis) => {
                write!(f, "{:?} after the last run", Duration::from_millis(*millis))
            }
            Self::At(tick) => write!(f, "at {} ms", tick.as_millis()),
            #[cfg(feature = "cron")]
            Self::Cron(cron) => cron.fmt(f),
            Self::Custom(_) => f.write_str("custom"),
        }
    }
}
