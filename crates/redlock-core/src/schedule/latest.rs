//! Finds the latest tick of a rule that returns the next one.

use super::wall_time::WallTime;

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
