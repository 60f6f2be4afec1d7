use std::{sync::Arc, time::Duration};

use crate::token::TOKEN_LEAD;

/// That somebody starts a tick of a job: what a node keeps as the job's watermark.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TickClaim {
    /// The fencing token of the job's lock under which it was claimed: of two claims, the one with
    /// the greater token came later.
    pub token: u64,
    /// The run.
    pub run: TickRun,
    /// Who claimed it, as it calls itself.
    pub owner: Arc<str>,
    /// The latest run before it: what stands where this claim did not reach a majority.
    pub before: Option<TickRun>,
}

/// The run of a tick. Times are those of the wall clock since the Unix epoch, in whole
/// milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TickRun {
    /// The tick; zero for a run on demand before the first tick.
    pub tick: Duration,
    /// Which attempt at the tick this is, from 1.
    pub attempt: u32,
    /// When it was claimed, by the clock of who claimed it.
    pub since: Duration,
    /// When it ended, by the same clock; `None` while it goes on, and after a crash.
    pub ended: Option<Duration>,
}

impl TickClaim {
    /// A claim.
    pub const fn new(token: u64, run: TickRun, owner: Arc<str>, before: Option<TickRun>) -> Self {
        Self { token, run, owner, before }
    }

    /// Where a majority of the nodes lost what they knew, they can't tell which ticks were started
    /// before that: those up to this moment count as started. From the floor that such a node has
    /// for its fences, which lies 60 s ahead of its clock at that time; zero stays zero.
    ///
    /// In the `max_ttl` before that, its probation, nothing was claimed. So this holds as long as
    /// the wall clocks of clients are ahead of the nodes' by less than that.
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
}
