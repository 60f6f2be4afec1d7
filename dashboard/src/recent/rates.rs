//! Counts of the last 15 minutes, in steps.

use std::{collections::VecDeque, time::Duration};

use tower_redlock::lock::LockCounts;

/// Duration of a step of the counts.
pub(crate) const RATE_SLOT: Duration = Duration::from_secs(15);
/// Number of steps: 15 minutes.
const SLOTS: usize = 60;
/// Duration of a step of the harm.
const HARM_SLOT: Duration = Duration::from_secs(60);
/// Number of steps of the harm: an hour.
const HARM_SLOTS: usize = 60;

/// What went wrong: locks that were lost, and work whose record was not stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Harm {
    pub(crate) lost: u64,
    pub(crate) unrecorded: u64,
}

/// The counts of the last 15 minutes, and the harm of the last hour.
///
/// # Invariants
///
/// There are always as many steps; the last one is the current one.
#[derive(Debug)]
pub(crate) struct Rates {
    /// The counts at the latest sample.
    last: LockCounts,
    counts: Steps<LockCounts>,
    harm: Steps<Harm>,
}

/// A ring of steps. Times are counted from the begin of the records.
#[derive(Debug)]
struct Steps<T> {
    length: Duration,
    /// The number of the current step.
    current: u128,
    ring: VecDeque<T>,
}

impl<T: Clone + Default> Steps<T> {
    fn new(length: Duration, count: usize) -> Self {
        Self { length, current: 0, ring: vec![T::default(); count].into() }
    }

    /// Returns the step of a time, which becomes the current one. A time before the current step counts in it.
    fn at(&mut self, at: Duration) -> &mut T {
        let number = (at.as_nanos() / self.length.as_nanos()).max(self.current);
        let passed = usize::try_from(number - self.current).unwrap_or(usize::MAX);
        for _ in 0..passed.min(self.ring.len()) {
            self.ring.pop_front();
            self.ring.push_back(T::default());
        }
        self.current = number;
        self.ring.back_mut().expect("it has steps")
    }
}

/// What [`Rates`] has at a moment.
#[derive(Clone, Debug)]
pub(crate) struct RatesView {
    /// The steps of [`RATE_SLOT`], the oldest first; the last one lasts.
    pub(crate) steps: Vec<LockCounts>,
    /// Their sum.
    pub(crate) total: LockCounts,
    /// What went wrong in the last hour.
    pub(crate) harm: Harm,
    /// Time for which counts have been recorded.
    pub(crate) covered: Duration,
}

impl Rates {
    /// Returns records that begin with these counts.
    pub(crate) fn new(counts: LockCounts) -> Self {
        Self {
            last: counts,
            counts: Steps::new(RATE_SLOT, SLOTS),
            harm: Steps::new(HARM_SLOT, HARM_SLOTS),
        }
    }

    /// Records the manager's counts at a time after the begin.
    pub(crate) fn sample(&mut self, at: Duration, counts: LockCounts) {
        let new = counts.since(&self.last);
        let harm = self.harm.at(at);
        harm.lost += new.lost;
        harm.unrecorded += new.unrecorded;
        self.counts.at(at).add(&new);
        self.last = counts;
        debug_assert_eq!((self.counts.ring.len(), self.harm.ring.len()), (SLOTS, HARM_SLOTS));
    }

    /// Returns what was recorded until the latest sample, which was at a time after the begin.
    pub(crate) fn view(&self, at: Duration) -> RatesView {
        let mut total = LockCounts::default();
        for step in &self.counts.ring {
            total.add(step);
        }
        RatesView {
            steps: self.counts.ring.iter().cloned().collect(),
            total,
            harm: self.harm.ring.iter().fold(Harm::default(), |sum, of| Harm {
                lost: sum.lost + of.lost,
                unrecorded: sum.unrecorded + of.unrecorded,
            }),
            covered: at.min(RATE_SLOT * u32::try_from(SLOTS).unwrap_or(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn refused(refused: u64, lost: u64) -> LockCounts {
        let mut counts = LockCounts::default();
        (counts.refused, counts.lost) = (refused, lost);
        counts
    }

    #[test]
    fn sample_counts_in_its_step() {
        let mut rates = Rates::new(refused(100, 0));
        rates.sample(SECOND, refused(101, 0));
        rates.sample(14 * SECOND, refused(103, 0));
        rates.sample(15 * SECOND, refused(107, 1));
        rates.sample(46 * SECOND, refused(115, 1));

        let view = rates.view(46 * SECOND);

        let last: Vec<_> = view.steps[56..].iter().map(|step| step.refused).collect();
        assert_eq!(last, [3, 4, 0, 8]);
        assert_eq!(
            (view.steps.len(), view.total.refused),
            (60, 15),
            "what was before is not counted"
        );
        assert_eq!((view.harm.lost, view.covered), (1, 46 * SECOND));
    }

    #[test]
    fn old_steps_are_forgotten() {
        let mut rates = Rates::new(refused(0, 0));
        rates.sample(SECOND, refused(5, 1));

        rates.sample(899 * SECOND, refused(5, 1));
        assert_eq!(rates.view(899 * SECOND).total.refused, 5);
        rates.sample(900 * SECOND, refused(5, 1));
        assert_eq!(rates.view(900 * SECOND).total.refused, 0);
        assert_eq!(rates.view(900 * SECOND).harm.lost, 1);
        rates.sample(3_600 * SECOND, refused(5, 1));
        assert_eq!(rates.view(3_600 * SECOND).harm.lost, 0);

        rates.sample(1_000_000 * SECOND, refused(6, 1));
        let view = rates.view(1_000_000 * SECOND);
        assert_eq!((view.total.refused, view.covered), (1, 900 * SECOND));
    }

    #[test]
    fn late_sample_counts_in_the_current_step() {
        let mut rates = Rates::new(refused(0, 0));
        rates.sample(40 * SECOND, refused(1, 0));
        rates.sample(20 * SECOND, refused(2, 0));
        assert_eq!(rates.view(40 * SECOND).steps[59].refused, 2);
    }
}
