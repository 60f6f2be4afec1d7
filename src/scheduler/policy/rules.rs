use std::time::Duration;

use crate::{
    schedule::WallTime,
    scheduler::{Missed, Overlap},
};

/// The options of a job that decide which ticks run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::scheduler) struct Policy {
    pub(in crate::scheduler) missed: Missed,
    /// How long ago the start of a missed tick may be for it to be made up for.
    pub(in crate::scheduler) catch_up: Duration,
    /// How long after its start a tick is on time, unless the next one's start comes first.
    pub(in crate::scheduler) start_within: Duration,
    pub(in crate::scheduler) overlap: Overlap,
    /// How many runs of a tick may be broken off.
    pub(in crate::scheduler) max_attempts: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            missed: Missed::default(),
            catch_up: Duration::from_secs(24 * 60 * 60),
            start_within: Duration::from_secs(60),
            overlap: Overlap::default(),
            max_attempts: 10,
        }
    }
}

impl Policy {
    /// Whether the newest pending tick, which starts at `start`, is on time.
    pub(super) fn is_on_time(
        &self,
        start: WallTime,
        last_end: Option<WallTime>,
        now: WallTime,
    ) -> bool {
        let startable = match (last_end.filter(|end| *end >= start), self.overlap) {
            (None, _) => start,
            (Some(_), Overlap::Skip) => return false,
            // It had to wait for the run, however long that took.
            (Some(end), Overlap::Queue | Overlap::Stop) => end,
        };
        let since_epoch = Duration::from_millis(startable.as_millis());
        now <= WallTime::since_epoch(since_epoch.saturating_add(self.start_within))
    }

    /// Missed ticks that started before this are given up.
    pub(super) fn horizon(&self, now: WallTime) -> WallTime {
        let since_epoch = Duration::from_millis(now.as_millis());
        WallTime::since_epoch(since_epoch.saturating_sub(self.catch_up))
    }
}
