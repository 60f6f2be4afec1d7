use crate::schedule::WallTime;

/// What the fleet knows of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::scheduler) struct Record {
    /// The watermark: the newest tick that anyone claimed. It only rises.
    pub(in crate::scheduler) tick: Option<WallTime>,
    /// When the run of that tick ended, or a later one that was triggered, by the runner's clock;
    /// `None` where that is not known, as the run is still going or was broken off.
    pub(in crate::scheduler) last_end: Option<WallTime>,
    /// The watermark's tick has to be run again: its run did not end, and the job claims at the end.
    pub(in crate::scheduler) unfinished: bool,
    /// Which attempt at the watermark's tick the latest run was, from 1.
    pub(in crate::scheduler) attempt: u32,
    /// Ticks up to then may have run: what was known of them is lost.
    pub(in crate::scheduler) burnt: Option<WallTime>,
    /// Since when the job has its schedule: ticks up to then are none of its own.
    pub(in crate::scheduler) base: WallTime,
}

impl Record {
    /// Of a job that never ran.
    pub(in crate::scheduler) const fn new(base: WallTime) -> Self {
        Self { tick: None, last_end: None, unfinished: false, attempt: 0, burnt: None, base }
    }

    /// Ticks up to this are done with.
    pub(super) fn floor(&self) -> WallTime {
        self.base.max(self.tick.max(self.burnt).unwrap_or(WallTime::ZERO))
    }
}
