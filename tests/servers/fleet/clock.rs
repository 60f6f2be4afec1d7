//! A wall clock with a changing offset.

use std::time::Duration;

use tower_redlock::time::{Clock, SystemClock, Timestamp};

/// The system's clock with a wall clock that is ahead, by an amount that changes every two seconds:
/// each replica is sometimes the first, and clocks jump back and forward.
#[derive(Debug)]
pub(super) struct WanderingClock {
    pub(super) seed: u64,
}

/// Maximum difference between two clocks.
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

/// The finalizer of `SplitMix64`: similar inputs give unrelated outputs.
pub(super) const fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
