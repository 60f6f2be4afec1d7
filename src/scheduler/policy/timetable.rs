use crate::schedule::{Schedule, WallTime};

/// How many ticks are looked at one by one.
pub(super) const MAX_STEPS: usize = 1_000;

/// Ticks that are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scheduler) struct MissedTicks {
    /// How many; counted up to 1,000.
    pub(in crate::scheduler) count: u64,
    /// There are more than were counted.
    pub(in crate::scheduler) at_least: bool,
    pub(in crate::scheduler) first: WallTime,
    pub(in crate::scheduler) last: WallTime,
}

/// The ticks of one job, with their starts.
///
/// A start comes before the next tick, so starts are in the order of their ticks.
#[derive(Clone, Copy)]
pub(super) struct Timetable<'a> {
    pub(super) schedule: &'a Schedule,
    pub(super) job: &'a str,
}

impl Timetable<'_> {
    pub(super) fn start(self, tick: WallTime) -> WallTime {
        self.schedule.start(self.job, tick)
    }

    /// The first tick strictly after `tick`.
    pub(super) fn next(self, tick: WallTime) -> Option<WallTime> {
        self.schedule.ticks(tick, WallTime::MAX).next()
    }

    /// The newest tick strictly after `floor` whose start is not after `at`.
    pub(super) fn newest_started(self, floor: WallTime, at: WallTime) -> Option<WallTime> {
        // Of the ticks that have come, only the last may have its start ahead.
        self.schedule.ticks(floor, at).rev().take(2).find(|tick| self.start(*tick) <= at)
    }

    /// The first tick strictly after `floor` whose start is strictly after `at`.
    pub(super) fn first_starting_after(self, floor: WallTime, at: WallTime) -> Option<WallTime> {
        let come = self.schedule.ticks(floor, at).next_back();
        come.filter(|tick| self.start(*tick) > at).or_else(|| self.next(floor.max(at)))
    }

    /// The oldest of the newest `at_most` ticks strictly after `floor` up to `newest`, without
    /// those that started before `horizon`; `newest` itself in any case.
    pub(super) fn oldest(
        self,
        floor: WallTime,
        horizon: WallTime,
        newest: WallTime,
        at_most: usize,
    ) -> WallTime {
        let at_most = at_most.clamp(1, MAX_STEPS);
        let Some(oldest) = self
            .first_starting_after(floor, just_before(horizon))
            .filter(|oldest| *oldest < newest)
        else {
            return newest;
        };
        let others = self.schedule.ticks(oldest, newest);
        // Forward first: a step forward is much cheaper than one back.
        if others.clone().nth(at_most - 1).is_none() {
            return oldest;
        }
        others.rev().nth(at_most - 1).unwrap_or(newest)
    }

    /// The ticks strictly after `floor` and not after `until`.
    pub(super) fn given_up(self, floor: WallTime, until: WallTime) -> Option<MissedTicks> {
        let mut ticks = self.schedule.ticks(floor, until);
        let first = ticks.clone().next()?;
        let counted = ticks.clone().take(MAX_STEPS + 1).count();
        Some(MissedTicks {
            count: counted.min(MAX_STEPS) as u64,
            at_least: counted > MAX_STEPS,
            first,
            last: ticks.next_back().unwrap_or(first),
        })
    }
}

/// The last moment before `time`; nothing is before the epoch.
pub(super) fn just_before(time: WallTime) -> WallTime {
    WallTime::from_millis(time.as_millis().saturating_sub(1))
}
