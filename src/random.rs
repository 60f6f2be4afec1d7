//! Random numbers for nonces and jitter.

use std::{
    ops::RangeInclusive,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::protocol::Nonce;

/// Fills `bytes` with random numbers of the system, or of the seed on a thread that runs a test's
/// clock. Fails if the system provides none.
pub(crate) fn fill(bytes: &mut [u8]) -> Result<(), getrandom::Error> {
    #[cfg(any(feature = "testing", redlock_sim))]
    if seeded::fill(bytes) {
        return Ok(());
    }
    system::fill(bytes)
}

#[cfg(not(redlock_shuttle))]
use getrandom as system;

/// Random numbers that belong to the schedule, so that a replay draws the same numbers.
#[cfg(redlock_shuttle)]
mod system {
    use shuttle::rand::{RngCore, thread_rng};

    #[expect(clippy::unnecessary_wraps, reason = "same signature as the system")]
    pub(super) fn fill(bytes: &mut [u8]) -> Result<(), getrandom::Error> {
        thread_rng().fill_bytes(bytes);
        Ok(())
    }
}

/// Random numbers of a test's seed.
#[cfg(any(feature = "testing", redlock_sim))]
pub(crate) mod seeded {
    use std::cell::Cell;

    use redlock_core::hash::{GOLDEN, mix};

    crate::sync::thread_local! {
        static STATE: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// Makes this thread draw from a generator in this state, or from the system if it is `None`.
    /// Returns the state of the previous generator.
    pub(crate) fn replace(state: Option<u64>) -> Option<u64> {
        STATE.with(|cell| cell.replace(state))
    }

    pub(super) fn fill(bytes: &mut [u8]) -> bool {
        let Some(mut state) = STATE.with(Cell::get) else { return false };
        for chunk in bytes.chunks_mut(8) {
            let number = mix(state).to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
            state = state.wrapping_add(GOLDEN);
        }
        STATE.with(|cell| cell.set(Some(state)));
        true
    }
}

/// Returns a number below `limit`; zero if `limit` is zero or the system has no random numbers.
pub(crate) fn below(limit: u64) -> u64 {
    let mut bytes = [0; 8];
    if limit == 0 || fill(&mut bytes).is_err() {
        return 0;
    }
    // The upper half of the product is uniform enough for jitter.
    let product = u128::from(u64::from_le_bytes(bytes)) * u128::from(limit);
    u64::try_from(product >> 64).unwrap_or(0)
}

/// Returns a new nonce. Fails if the system has no random numbers.
pub(crate) fn nonce() -> Result<Nonce, getrandom::Error> {
    let mut bytes = [0; 16];
    fill(&mut bytes)?;
    Ok(Nonce::from_bytes(bytes))
}

/// Returns a unique number.
pub(crate) fn number() -> u64 {
    let mut bytes = [0; 8];
    match fill(&mut bytes) {
        Ok(()) => u64::from_le_bytes(bytes),
        // The time is almost always unique.
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| {
            u64::try_from(now.as_nanos() & u128::from(u64::MAX)).unwrap_or_default()
        }),
    }
}

/// Returns a duration within the range, at a resolution of 1 µs.
pub(crate) fn within(range: &RangeInclusive<Duration>) -> Duration {
    let span = range.end().saturating_sub(*range.start()).as_micros();
    *range.start() + Duration::from_micros(below(u64::try_from(span).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "testing")]
    #[test]
    fn seed_repeats_numbers_until_removed() {
        let drawn = || {
            assert_eq!(seeded::replace(Some(7)), None);
            let drawn = [number(), below(1_000), number()];
            assert!(seeded::replace(None).is_some());
            drawn
        };
        assert_eq!(drawn(), drawn());
        assert_eq!(drawn()[0], redlock_core::hash::mix(7));
        assert_ne!(drawn()[0], drawn()[2]);
        assert_ne!(number(), number(), "from the system");
    }

    #[test]
    fn two_nonces_differ() {
        assert_ne!(nonce().unwrap(), nonce().unwrap());
    }

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
