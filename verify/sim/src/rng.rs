//! Random numbers from a seed.

use std::time::Duration;

/// `SplitMix64`.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates a generator for one purpose of a seed. Each purpose has its own generator, so that
    /// an additional draw for one purpose does not affect the others.
    pub fn of(seed: u64, purpose: u64) -> Self {
        let mut rng = Self(seed ^ purpose.wrapping_mul(0xd134_2543_de82_ef95));
        rng.number();
        rng
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`; zero for zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        let product = u128::from(self.number()) * u128::from(limit);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// A number from `from` to `to`, both included.
    pub fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// An index of a list of that length.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns a random number of milliseconds.
    pub fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.within(from, to))
    }

    /// 40 hex digits.
    pub fn hex40(&mut self) -> String {
        let all = format!("{:016x}{:016x}{:016x}", self.number(), self.number(), self.number());
        all[..40].into()
    }
}
