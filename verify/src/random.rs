//! Numbers that a seed determines, on every machine and in every version.

use std::ops::Range;
use std::time::Duration;

/// `SplitMix64` (Steele, Lea, Flood: *Fast splittable pseudorandom number generators*, 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Another sequence for each `stream` of the same seed.
    pub fn stream(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed ^ stream.wrapping_mul(0xA24B_AED4_963E_E407));
        Self(random.number())
    }

    /// A number of 64 bits.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from zero to `limit - 1`; zero for a limit of zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        let product = u128::from(self.number()) * u128::from(limit);
        u64::try_from(product >> 64).expect("the upper half of 128 bits")
    }

    /// An index of a slice of this length.
    pub fn index(&mut self, len: usize) -> usize {
        let len = u64::try_from(len).expect("a length fits");
        usize::try_from(self.below(len)).expect("less than a length")
    }

    /// Returns an element; `None` for an empty slice.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.index(items.len()))
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns a random time of whole milliseconds.
    pub fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(range.start + self.below(range.end.saturating_sub(range.start)))
    }

    /// From `least` to `most` times the unit.
    pub fn times(&mut self, unit: Duration, least: f64, most: f64) -> Duration {
        let share = f64::from(u32::try_from(self.below(1 << 20)).expect("20 bits")) / 1_048_576.0;
        unit.mul_f64(least + (most - least) * share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_the_numbers() {
        // The reference implementation's first numbers for this seed.
        let mut random = Random(1_234_567);
        assert_eq!(random.number(), 6_457_827_717_110_365_317);
        assert_eq!(random.number(), 3_203_168_211_198_807_973);
        assert_ne!(Random::stream(1, 0).number(), Random::stream(1, 1).number());
    }

    #[test]
    fn numbers_stay_in_their_range() {
        let mut random = Random(7);
        for _ in 0..1_000 {
            assert!(random.below(3) < 3);
            assert!((10..20).contains(&random.millis(10..20).as_millis()));
            let times = random.times(Duration::from_secs(1), 0.5, 2.0).as_secs_f64();
            assert!((0.5..2.0).contains(&times));
        }
        assert_eq!(random.pick::<u8>(&[]), None);
    }
}
