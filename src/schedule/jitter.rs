//! Delays that spread the starts of jobs which share a tick.

use super::WallTime;
use crate::{random::mix, stripe::fnv};

/// A delay below `span`; the same for the same job and tick, on every replica.
pub(super) fn delay(job: &str, tick: WallTime, span: u64) -> u64 {
    let mixed = mix(fnv(job) ^ mix(tick.as_millis()));
    // The upper half of the product is uniform enough for jitter, and never reaches the span.
    let product = u128::from(mixed) * u128::from(span);
    u64::try_from(product >> 64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_spread_by_job_and_tick() {
        let tick = WallTime::from_millis(1_763_694_000_000);
        let mut tenths = [[0_u32; 10]; 2];
        for i in 0..1_000_u32 {
            let by_job = delay(&format!("job-{i}"), tick, 10_000);
            let by_tick = delay("job", tick.plus(u64::from(i) * 60_000).unwrap(), 10_000);
            for (tenths, delay) in tenths.iter_mut().zip([by_job, by_tick]) {
                tenths[usize::try_from(delay / 1_000).unwrap()] += 1;
            }
        }
        assert!(tenths.as_flattened().iter().all(|n| (50..=150).contains(n)), "{tenths:?}");
        assert_eq!(delay("job", tick, 0), 0);
        assert_eq!(delay("job", tick, 1), 0);
    }
}
