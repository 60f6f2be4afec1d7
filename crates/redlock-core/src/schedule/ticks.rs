//! Iterates over ticks from either end.

use std::iter::FusedIterator;

use super::{latest::latest, schedule::Schedule, wall_time::WallTime};

/// An iterator over the ticks of a span, from either end; see [`Schedule::ticks`].
#[derive(Clone, Debug)]
pub struct Ticks<'a> {
    schedule: &'a Schedule,
    /// Ticks are strictly after this.
    after: WallTime,
    /// Ticks are not after this.
    until: WallTime,
}

impl Schedule {
    /// Returns an iterator over the ticks strictly after `after` and not after `until`; empty for
    /// [`every_after`](Schedule::every_after).
    ///
    /// Ticks are computed lazily, from either end. There may be very many, so bound them: `take(n)`
    /// for the oldest, `rev().take(n)` for the newest.
    pub const fn ticks(&self, after: WallTime, until: WallTime) -> Ticks<'_> {
        Ticks { schedule: self, after, until }
    }
}

impl Iterator for Ticks<'_> {
    type Item = WallTime;

    fn next(&mut self) -> Option<WallTime> {
        let tick = self.schedule.tick_after(self.after).filter(|tick| *tick <= self.until);
        self.after = tick.unwrap_or(self.until);
        tick
    }
}

impl DoubleEndedIterator for Ticks<'_> {
    fn next_back(&mut self) -> Option<WallTime> {
        let tick = latest(|after| self.schedule.tick_after(after), self.until)
            .filter(|tick| *tick > self.after);
        self.until = tick.map_or(self.after, before);
        tick
    }
}

impl FusedIterator for Ticks<'_> {}

fn before(tick: WallTime) -> WallTime {
    WallTime::from_millis(tick.as_millis().saturating_sub(1))
}
