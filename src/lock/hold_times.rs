//! Mean hold times by class of names: the estimate of when a refused caller should come back.

use std::time::Duration;

use crate::{
    hash::fnv,
    random,
    resource::Resource,
    stripe::STRIPES,
    sync::atomic::{AtomicU64, Ordering},
};

/// Estimate where no hold was measured.
const UNKNOWN: Duration = Duration::from_secs(1);
/// Minimum estimate.
const SHORTEST: Duration = Duration::from_millis(10);
/// Weight of the newest hold time in the mean, as a divisor.
const WEIGHT: u64 = 8;

/// Exponential moving means of this process's hold times, in µs; 0 where none was measured. The
/// last one is over all names.
///
/// Names of one class differ only in parts that contain a digit, as `account:7` and `account:8`.
/// Classes share stripes, so that memory does not grow with the names.
pub(crate) struct HoldTimes(Box<[AtomicU64]>);

impl HoldTimes {
    pub(crate) fn new() -> Self {
        Self((0..=STRIPES).map(|_| AtomicU64::new(0)).collect())
    }

    pub(crate) fn record(&self, resource: &Resource, time: Duration) {
        let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
        for slot in resource.names().map(class).chain([STRIPES]) {
            let mean = &self.0[slot];
            // A race between two threads may lose a measurement.
            let old = mean.load(Ordering::Relaxed);
            let next = if old == 0 { time } else { old - old / WEIGHT + time / WEIGHT };
            // All threads write here, so what is known is not written again.
            if next.max(1) != old {
                mean.store(next.max(1), Ordering::Relaxed);
            }
        }
    }

    /// Returns the mean hold time of the resource: the longest of its names.
    fn mean(&self, resource: &Resource) -> Option<Duration> {
        let known = |slot: usize| match self.0[slot].load(Ordering::Relaxed) {
            0 => None,
            micros => Some(Duration::from_micros(micros)),
        };
        resource.names().map(class).filter_map(known).max().or_else(|| known(STRIPES))
    }

    /// Returns when to come back for a held resource, with `ahead` callers before this one: about
    /// one mean hold time for each and for the holder, with jitter of one hold time, and at most
    /// `max`. Without a measurement, about a second, or the rest of the holder's lease if that is
    /// shorter.
    pub(crate) fn retry_after(
        &self,
        resource: &Resource,
        ahead: usize,
        expires_in: Option<Duration>,
        max: Duration,
    ) -> Duration {
        let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
        let (mean, ahead) = match self.mean(resource) {
            Some(mean) => (mean.max(SHORTEST), ahead),
            None => (expires_in.map_or(UNKNOWN, |end| end.clamp(SHORTEST, UNKNOWN)), 0),
        };
        let from = mean.saturating_mul(ahead).saturating_add(mean / 2);
        let to = from.saturating_add(mean);
        random::within(&if to > max { max / 2..=max } else { from..=to })
    }
}

opaque_debug!(HoldTimes);

/// Returns the class of a name.
fn class(name: &str) -> usize {
    let parts = name.split([':', '/']).filter(|part| !part.bytes().any(|b| b.is_ascii_digit()));
    let hash = parts.fold(0_u64, |hash, part| hash.rotate_left(7) ^ fnv(part));
    let folded = hash ^ (hash >> 32);
    usize::try_from(folded % STRIPES as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_secs(30);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn resource(name: &str) -> Resource {
        Resource::try_from(name).unwrap()
    }

    /// Returns the minimum and the maximum of many draws.
    fn drawn(draw: impl Fn() -> Duration) -> (Duration, Duration) {
        let all: Vec<_> = (0..500).map(|_| draw()).collect();
        (*all.iter().min().unwrap(), *all.iter().max().unwrap())
    }

    #[test]
    fn callers_get_slots() {
        let hold_times = HoldTimes::new();

        (0..100).for_each(|_| hold_times.record(&resource("account:7"), ms(30)));
        for ahead in [0, 1, 19] {
            let after =
                || hold_times.retry_after(&resource("account:8"), ahead, Some(ms(1_920)), MAX);
            let (least, most) = drawn(after);
            let slot = ms(30) * u32::try_from(ahead).unwrap();
            assert!(least >= slot + ms(14) && most <= slot + ms(46), "{ahead}: {least:?} {most:?}");
            assert!(most > least + ms(20), "spread: {least:?} {most:?}");
        }
    }

    #[test]
    fn classes_have_their_own_means() {
        let hold_times = HoldTimes::new();
        (0..100).for_each(|_| hold_times.record(&resource("job:1"), ms(8_000)));
        (0..100).for_each(|_| hold_times.record(&resource("/accounts/1/withdraw"), ms(40)));
        let known = |name: &str| hold_times.mean(&resource(name)).unwrap();
        let near = |a: Duration, b: Duration| a.abs_diff(b) < b / 10;
        assert!(near(known("job:2"), ms(8_000)));
        assert!(near(known("/accounts/77/withdraw"), ms(40)));
        assert!(near(known("other"), ms(40)), "the mean of all follows the newest");
    }

    #[test]
    fn without_measurement_it_is_a_second() {
        let hold_times = HoldTimes::new();
        let after =
            |expires_in| drawn(|| hold_times.retry_after(&resource("x"), 50, expires_in, MAX));
        let (least, most) = after(Some(ms(8_000)));
        assert!(least >= ms(500) && most <= ms(1_500), "{least:?} {most:?}");
        let (least, most) = after(Some(ms(100)));
        assert!(least >= ms(50) && most <= ms(150), "{least:?} {most:?}");
    }

    #[test]
    fn estimates_are_bounded_with_jitter() {
        let hold_times = HoldTimes::new();
        hold_times.record(&resource("x"), ms(300_000));
        let (least, most) = drawn(|| hold_times.retry_after(&resource("x"), 3, None, MAX));
        assert!(least >= MAX / 2 && most <= MAX && most > least + ms(5_000), "{least:?} {most:?}");
        hold_times.record(&resource("x"), Duration::MAX);
        assert!(hold_times.retry_after(&resource("x"), usize::MAX, None, MAX) <= MAX);
    }
}
