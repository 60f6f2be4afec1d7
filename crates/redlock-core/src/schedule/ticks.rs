//! Iterates over ticks from either end.

use std::iter::FusedIterator;

use super::{Schedule, WallTime};

/// An iterator over the ticks of a span, from either end; see [`Schedule::ticks`].
#[derive(Clone, Debug)]
pub struct Ticks<'a> {
    schedule: &'a Schedule,
    /// Ticks are strictly after this.
    after: WallTime,
    /// Ticks are not after this.
    until: WallTime,
}

impl<'a> Ticks<'a> {
    pub(super) const fn new(schedule: &'a Schedule, after: WallTime, until: WallTime) -> Self {
        Self { schedule, after, until }
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

/// Returns the latest tick that is not after `at`, of a rule that returns the next one.
///
/// The next tick after a time is not after `at` if and only if the time is before the latest tick.
/// So bisection finds it, with at most twice 48 calls for any number of ticks.
pub(super) fn latest(
    next: impl Fn(WallTime) -> Option<WallTime>,
    at: WallTime,
) -> Option<WallTime> {
    let found = |after: u64| next(WallTime::from_millis(after)).filter(|tick| *tick <= at);
    // Steps back that double: most schedules tick often.
    let mut step = 1_000;
    let mut late = at.as_millis();
    let mut best = loop {
        let early = at.as_millis().saturating_sub(step);
        match found(early) {
            Some(tick) => break tick,
            None if early == 0 => return None,
            None => (late, step) = (early, step * 2),
        }
    };
    // Some tick comes after every moment before `best`, and none after `late`.
    while best.as_millis() < late {
        let middle = best.as_millis().midpoint(late);
        match found(middle) {
            Some(tick) => best = tick,
            None => late = middle,
        }
    }
    Some(best)
}

fn before(tick: WallTime) -> WallTime {
    WallTime::from_millis(tick.as_millis().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn latest_tick_takes_few_steps() {
        for period in [1, 2, 3, 999, 60_000, 31_536_000_000, WallTime::MAX.as_millis()] {
            for at in [1, 500, 59_999, 1_763_715_286_123, WallTime::MAX.as_millis()] {
                let asked = Cell::new(0);
                let next = |after: WallTime| {
                    asked.set(asked.get() + 1);
                    WallTime::ZERO.plus((after.as_millis() / period + 1) * period)
                };
                let expected = at / period * period;

                let tick = latest(next, WallTime::from_millis(at)).map(WallTime::as_millis);

                assert_eq!(tick, (expected > 0).then_some(expected), "{period} {at}");
                assert!(asked.get() <= 96, "{period} {at}: {}", asked.get());
            }
        }
    }
}
