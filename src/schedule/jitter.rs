//! Delays that spread the starts of jobs which share a tick.

use super::WallTime;
use crate::stripe::fnv;

/// A delay below `span`; the same for the same job and tick, on every replica.
pub(super) fn delay(job: &str, tick: WallTime, span: u64) -> u64 {
    let mixed = mix(fnv(job) ^ mix(tick.as_millis()));
    // The upper half of the product is uniform enough for jitter, and never reaches the span.
    let product = u128::from(mixed) * u128::from(span);
    u64::try_from(product >> 64).unwrap_or(0)
}

/// The output function of `SplitMix64`.
///
/// Source: G. L. Steele, D. Lea, C. H. Flood, *Fast Splittable Pseudorandom Number Generators*
/// (2014), with the constants of D. Stafford's variant 13.
const fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_the_published_one() {
        // The first number of the published generator with the seed 0.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn delays_spread_over_the_span_by_job_and_by_tick() {
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
