//! Counts of a manager's requests and losses, and the times that requests waited.

use std::time::Duration;

use crate::{
    error::LockError,
    sync::atomic::{AtomicU64, Ordering},
};

/// Number of octaves of the histogram: from 64 µs, up to about 71 min.
const OCTAVES: usize = 26;
/// Base-2 logarithm of the upper bound of the first bucket, in µs.
const FIRST: u32 = 6;
/// Number of buckets of equal width in an octave.
const STEPS: usize = 4;
/// Number of buckets: one below the first octave, and one above the last.
const BUCKETS: usize = OCTAVES * STEPS + 2;

/// Counts of the requests that this manager has answered since it was built, and of the locks that it has lost.
///
/// The difference of two counts covers the time between them:
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use tower_redlock::Redlock;
///
/// let redlock = Redlock::embedded();
/// let before = redlock.counts();
/// let _lock = redlock.lock("invoice:42").await?;
/// let since = redlock.counts().since(&before);
/// assert_eq!((since.acquired(), since.refused, since.lost), (1, 0, 0));
/// assert!(since.waits.quantile(0.99).is_some());
/// # Ok::<_, tower_redlock::LockError>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockCounts {
    /// Requests that ended without a lock. A candidate for leading and a tick of a job that find another
    /// holder are not counted.
    pub refused: u64,
    /// Locks that ended before their release, and not by `max_hold` or because they are not renewed.
    pub lost: u64,
    /// Records of work done [once](mod@crate::once) that too few nodes stored before the lock of the work
    /// ended: the work may run again, or may have run elsewhere.
    pub unrecorded: u64,
    /// Times from the request to the lock, of the requests that were granted.
    pub waits: WaitTimes,
}

impl LockCounts {
    /// Returns the number of requests that were granted.
    pub fn acquired(&self) -> u64 {
        self.waits.count()
    }

    /// Returns what was counted after `earlier`, which is an earlier count of the same manager.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            refused: self.refused.saturating_sub(earlier.refused),
            lost: self.lost.saturating_sub(earlier.lost),
            unrecorded: self.unrecorded.saturating_sub(earlier.unrecorded),
            waits: self.waits.since(&earlier.waits),
        }
    }

    /// Adds other counts, of another manager or of another time.
    pub fn add(&mut self, other: &Self) {
        self.refused += other.refused;
        self.lost += other.lost;
        self.unrecorded += other.unrecorded;
        self.waits.add(&other.waits);
    }
}

/// A histogram of times.
///
/// A bucket's upper bound is at most 25 % above its lower bound, from 64 µs to about 71 min.
#[derive(Clone, PartialEq, Eq)]
pub struct WaitTimes([u64; BUCKETS]);

impl WaitTimes {
    /// Returns the number of times.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns an upper bound of a quantile: the end of the bucket that has it. `None` without any time.
    ///
    /// `quantile` is from 0 to 1; 0.5 is the median. A quantile above 71 min is returned as 71 min.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank is not negative, and may be rounded"
        )]
        let rank = ((self.count() as f64 * quantile.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut below = 0;
        let reached = self.0.iter().position(|count| {
            below += count;
            below >= rank
        });
        reached.map(|bucket| Duration::from_micros(upper_bound(bucket)))
    }

    fn add(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(&other.0) {
            *count += more;
        }
    }

    fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|bucket| self.0[bucket].saturating_sub(earlier.0[bucket])))
    }
}

impl Default for WaitTimes {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl std::fmt::Debug for WaitTimes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitTimes")
            .field("count", &self.count())
            .field("median", &self.quantile(0.5))
            .finish_non_exhaustive()
    }
}

/// Returns the bucket of a time.
fn bucket(time: Duration) -> usize {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let log = micros.max(1).ilog2();
    let Some(octave) = log.checked_sub(FIRST) else { return 0 };
    // The two bits after the highest one are the step within the octave.
    let step = usize::try_from((micros >> (log - 2)) & 3).unwrap_or(0);
    let octave = usize::try_from(octave).unwrap_or(OCTAVES);
    (1 + octave * STEPS + step).min(BUCKETS - 1)
}

/// Returns the upper bound of a bucket, in µs; of the last one its lower bound.
fn upper_bound(bucket: usize) -> u64 {
    let (octave, step) = (bucket / STEPS, bucket % STEPS);
    let (octave, steps) = (octave.min(OCTAVES), if octave < OCTAVES { step } else { 0 });
    // The bounds of an octave are 4, 5, 6 and 7 quarters of its begin.
    let quarter = (1_u64 << FIRST << octave) / 4;
    quarter * u64::try_from(STEPS + steps).unwrap_or(0)
}

/// The counters behind [`LockCounts`]. A request costs one relaxed addition.
pub(super) struct LockCounters {
    refused: AtomicU64,
    lost: AtomicU64,
    unrecorded: AtomicU64,
    waits: Box<[AtomicU64]>,
}

opaque_debug!(LockCounters);

impl LockCounters {
    pub(super) fn new() -> Self {
        let [refused, lost, unrecorded] = std::array::from_fn(|_| AtomicU64::new(0));
        Self { refused, lost, unrecorded, waits: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Counts the end of a request.
    pub(super) fn ended(&self, result: Result<(), &LockError>, waited: Duration) {
        let counter = match result {
            Ok(()) => &self.waits[bucket(waited)],
            Err(_) => &self.refused,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn unrecorded(&self) {
        self.unrecorded.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> LockCounts {
        let waits = |bucket: usize| self.waits[bucket].load(Ordering::Relaxed);
        LockCounts {
            refused: self.refused.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            unrecorded: self.unrecorded.load(Ordering::Relaxed),
            waits: WaitTimes(std::array::from_fn(waits)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_within_their_bucket() {
        let times = (0..34).flat_map(|log| [0, 1, 3, 7].map(|more| (1_u64 << log) + more));
        for micros in times {
            let bucket = bucket(Duration::from_micros(micros));
            let upper = upper_bound(bucket);

            if bucket == BUCKETS - 1 {
                assert!(micros >= upper, "{micros} µs");
            } else {
                assert!(micros < upper, "{micros} µs is not below {upper} µs");
                assert!(bucket == 0 || upper_bound(bucket - 1) <= micros, "{micros} µs");
            }
        }
    }

    #[test]
    fn buckets_are_at_most_a_quarter_wide() {
        let bounds: Vec<_> = (0..BUCKETS - 1).map(upper_bound).collect();

        assert_eq!((bounds[0], bounds[1], bounds[4]), (64, 80, 128));
        assert!(bounds.is_sorted_by(|a, b| a < b && 4 * b <= 5 * a), "{bounds:?}");
    }

    #[test]
    fn quantiles_are_upper_bounds() {
        let counters = LockCounters::new();
        for millis in 1..=100 {
            counters.ended(Ok(()), Duration::from_millis(millis));
        }

        let waits = counters.read().waits;

        for (quantile, exact) in [(0.0, 1), (0.5, 50), (0.99, 99), (1.0, 100)] {
            let exact = Duration::from_millis(exact);
            let found = waits.quantile(quantile).unwrap();
            assert!(found >= exact && found <= exact * 5 / 4, "{quantile}: {found:?}");
        }
        assert_eq!(WaitTimes::default().quantile(0.5), None);
    }
}
