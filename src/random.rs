//! Randomness for jitter; not for secrets.

use std::{
    ops::RangeInclusive,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A number below `limit`; zero if `limit` is zero, or if the system has no random numbers.
pub(crate) fn below(limit: u64) -> u64 {
    let mut bytes = [0; 8];
    if limit == 0 || getrandom::fill(&mut bytes).is_err() {
        return 0;
    }
    // The upper half of the product is uniform enough for jitter, and never reaches the limit.
    let product = u128::from(u64::from_le_bytes(bytes)) * u128::from(limit);
    u64::try_from(product >> 64).unwrap_or(0)
}

/// A number that is not drawn twice.
pub(crate) fn number() -> u64 {
    let mut bytes = [0; 8];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u64::from_le_bytes(bytes),
        // No two moments of a wall clock are the same, nearly always.
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| {
            u64::try_from(now.as_nanos() & u128::from(u64::MAX)).unwrap_or_default()
        }),
    }
}

/// A duration within the range, at a resolution of 1 µs.
pub(crate) fn within(range: &RangeInclusive<Duration>) -> Duration {
    let span = range.end().saturating_sub(*range.start()).as_micros();
    *range.start() + Duration::from_micros(below(u64::try_from(span).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_range_and_vary() {
        let range = Duration::from_millis(5)..=Duration::from_millis(25);
        let drawn: Vec<_> = (0..100).map(|_| within(&range)).collect();
        assert!(drawn.iter().all(|d| range.contains(d)));
        assert!(drawn.iter().any(|d| *d != drawn[0]));
        assert_eq!(below(0), 0);
        assert_eq!(below(1), 0);
    }
}
