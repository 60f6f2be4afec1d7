//! Latencies in bounded memory.

use std::time::Duration;

/// Values below this many microseconds have a slot each.
const EXACT: u64 = 64;
/// Number of slots between two powers of two above that: a value is off by 3 % at most.
const PARTS: u64 = 32;
const PART_BITS: u32 = PARTS.ilog2();
/// Powers of two from 64 µs to 12 days.
const POWERS: u64 = 35;
#[expect(clippy::cast_possible_truncation, reason = "about a thousand")]
const SLOTS: usize = (EXACT + POWERS * PARTS) as usize;

/// How many times each latency was measured.
#[derive(Clone, Debug)]
pub(super) struct Latencies {
    slots: Vec<u64>,
    count: u64,
    longest: Duration,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { slots: vec![0; SLOTS], count: 0, longest: Duration::ZERO }
    }
}

impl Latencies {
    pub(super) fn record(&mut self, latency: Duration) {
        self.slots[slot(micros(latency))] += 1;
        self.count += 1;
        self.longest = self.longest.max(latency);
    }

    /// Adds what another one has measured.
    pub(super) fn add(&mut self, other: &Self) {
        for (count, more) in self.slots.iter_mut().zip(&other.slots) {
            *count += more;
        }
        self.count += other.count;
        self.longest = self.longest.max(other.longest);
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn longest(&self) -> Duration {
        self.longest
    }

    /// Returns a percentile of the latencies; `None` without any.
    pub(super) fn percentile(&self, percent: u64) -> Option<Duration> {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let at = self.slots.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(Duration::from_micros(last(at as u64)).min(self.longest))
    }
}

fn micros(latency: Duration) -> u64 {
    u64::try_from(latency.as_micros()).unwrap_or(u64::MAX)
}

fn slot(micros: u64) -> usize {
    let slot = if micros < EXACT {
        micros
    } else {
        let power = micros.ilog2();
        let part = (micros >> (power - PART_BITS)) - PARTS;
        EXACT + u64::from(power - EXACT.ilog2()) * PARTS + part
    };
    usize::try_from(slot).map_or(SLOTS - 1, |slot| slot.min(SLOTS - 1))
}

/// Returns the greatest value of a slot.
fn last(slot: u64) -> u64 {
    let Some(above) = slot.checked_sub(EXACT) else { return slot };
    let shift = above / PARTS + u64::from(EXACT.ilog2() - PART_BITS);
    ((above % PARTS + PARTS + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn slots_cover_all_values() {
        for micros in (0..5000).chain([u64::MAX, 1 << 40]) {
            let slot = slot(micros);
            assert!(slot < SLOTS);
            if micros < 1 << 40 {
                assert!(last(slot as u64) >= micros, "{micros}");
                assert!(slot == 0 || last(slot as u64 - 1) < micros, "{micros}");
            }
        }
    }

    #[test]
    fn without_any_there_is_none() {
        assert_eq!(Latencies::default().percentile(50), None);
    }

    proptest! {
        #[test]
        fn percentiles_are_off_slightly(
            mut micros in prop::collection::vec(0..10_000_000_u64, 1..300),
            percent in 1..=100_u64,
        ) {
            let mut latencies = Latencies::default();
            for micros in &micros {
                latencies.record(Duration::from_micros(*micros));
            }
            micros.sort_unstable();
            let rank = (micros.len() * usize::try_from(percent)?).div_ceil(100).max(1);
            let (exact, longest) = (micros[rank - 1], micros[micros.len() - 1]);
            let shown = u64::try_from(latencies.percentile(percent).unwrap().as_micros())?;
            prop_assert!(shown >= exact && shown <= longest, "{shown} {exact}");
            prop_assert!(shown - exact <= exact / 32 + 1, "{shown} {exact}");
        }
    }
}
