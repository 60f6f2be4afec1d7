//! The claim of a job's tick.

use std::{sync::Arc, time::Duration};

use crate::token::TOKEN_LEAD;

/// That somebody starts a tick of a job: what a node keeps as the job's watermark.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TickClaim {
    /// The fencing token of the job's lock under which it was claimed: of two claims, the one with
    /// the greater token came later.
    pub token: u64,
    /// The place of the claim among those with its token, from 0: the end of the run, or the claim
    /// taken back, has a greater number than the claim itself.
    pub number: u32,
    /// The run.
    pub run: TickRun,
    /// Who claimed it, as it calls itself.
    pub owner: Arc<str>,
    /// The latest run before it: what stands where this claim did not reach a majority.
    pub before: Option<TickRun>,
    /// The schedule that it was claimed by; `None` in a claim of an earlier version.
    pub schedule: Option<ScheduleMark>,
}

/// The run of a tick. Times are those of the wall clock since the Unix epoch, in whole
/// milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TickRun {
    /// The tick; zero for a run on demand before the first tick.
    pub tick: Duration,
    /// Which attempt at the tick this is, from 1.
    pub attempt: u32,
    /// When it was claimed, by the clock of who claimed it.
    pub since: Duration,
    /// Its end, by the same clock; `None` while it runs, and after a crash.
    pub ended: Option<Duration>,
}

/// Which schedule a job has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ScheduleMark {
    /// A hash of the schedule, above zero: the same in all processes and versions.
    pub fingerprint: u64,
    /// Since when the job has it, in whole milliseconds since the Unix epoch: earlier ticks are
    /// none of the job's.
    pub since: Duration,
    /// The owner that gave it to the job.
    pub owner: Arc<str>,
}

impl TickClaim {
    /// A claim, the first with its token.
    pub const fn new(token: u64, run: TickRun, owner: Arc<str>, before: Option<TickRun>) -> Self {
        Self { token, number: 0, run, owner, before, schedule: None }
    }

    /// The same claim with another [`number`](Self::number).
    #[must_use]
    pub fn numbered(self, number: u32) -> Self {
        Self { number, ..self }
    }

    /// The same claim by this schedule.
    #[must_use]
    pub fn by_schedule(self, schedule: ScheduleMark) -> Self {
        Self { schedule: Some(schedule), ..self }
    }

    /// Whether this claim came after `other` under the same token: a node that keeps it does not
    /// take `other`.
    pub const fn supersedes(&self, other: &Self) -> bool {
        self.token == other.token && self.number > other.number
    }

    /// Where a majority of the nodes lost what they knew, they can't tell which ticks were started
    /// before that: those up to this moment count as started. From the floor that such a node has
    /// for its fences, which lies 60 s ahead of its clock at that time; zero stays zero.
    ///
    /// In the `max_ttl` before that, its probation, nothing was claimed. So this holds while the
    /// wall clocks of clients are ahead of the nodes' by less than that.
    pub const fn burnt_before(floor: u64) -> Duration {
        Duration::from_millis(floor.saturating_sub(TOKEN_LEAD) / 1_000)
    }
}

impl TickRun {
    /// A run that begins.
    pub const fn new(tick: Duration, attempt: u32, since: Duration) -> Self {
        Self { tick, attempt, since, ended: None }
    }

    /// The same run, once it has ended.
    #[must_use]
    pub const fn ended(self, at: Duration) -> Self {
        Self { ended: Some(at), ..self }
    }

    /// Returns whether it is the run of a tick that has not ended.
    #[cfg(feature = "scheduler")]
    pub(crate) const fn is_open(&self) -> bool {
        !self.tick.is_zero() && self.ended.is_none()
    }
}

impl ScheduleMark {
    /// A schedule that a job has since then.
    pub const fn new(fingerprint: u64, since: Duration, owner: Arc<str>) -> Self {
        Self { fingerprint, since, owner }
    }
}
