//! A wall clock at a chosen time.

use std::time::Duration;

use tower_redlock::time::{Clock, SystemClock, Timestamp};

/// The system's clock, but the wall clock is ahead of it, by another amount every other second: so
/// each replica is the first at times, and clocks jump back as well as forward. `HandClock` needs
/// a task for that.
#[derive(Debug)]
pub(super) struct WanderingClock {
    pub(super) seed: u64,
}

/// Clocks are apart by at most this.
const APART_MS: u64 = 90;
const STEP: Duration = Duration::from_secs(2);

impl Clock for WanderingClock {
    fn now(&self) -> Timestamp {
        SystemClock::new().now()
    }

    fn wall(&self) -> Duration {
        let wall = SystemClock::new().wall();
        let step = wall.as_secs() / STEP.as_secs();
        wall + Duration::from_millis(mix(self.seed ^ (step << 8)) % (APART_MS + 1))
    }
}

/// The finalizer of `SplitMix64`: nearby numbers give numbers that have nothing in common.
pub(super) const fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
