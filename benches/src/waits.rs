//! The grants of a contended lock: to whom, how many, and after which waits.

use std::{fmt, time::Duration};

use crate::{
    report::format::{significant, time},
    samples::emit,
    spread::rank,
};

/// One wait that ended with the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) time: Duration,
    /// Whether it ended during the measurement; the last wait of each task does not.
    pub(crate) is_in_time: bool,
}

/// All waits of one measurement.
#[derive(Clone, Debug)]
pub(crate) struct Waits {
    /// The waits in seconds, sorted.
    sorted: Vec<f64>,
    /// Number of grants during the measurement, for each task or process.
    served: Vec<u32>,
    time: Duration,
}

/// The reported quantities, by the names that the report uses.
pub(crate) const RATE: &str = "grants per s";
pub(crate) const MEAN: &str = "mean wait";
pub(crate) const P50: &str = "p50 of the wait";
pub(crate) const P99: &str = "p99 of the wait";
pub(crate) const LONGEST: &str = "longest wait";
pub(crate) const LEAST_TO_MOST: &str = "least to most served";

impl Waits {
    /// Collects the waits of each task or process.
    pub(crate) fn of(groups: &[Vec<Wait>], time: Duration) -> Self {
        let mut sorted: Vec<_> =
            groups.iter().flatten().map(|wait| wait.time.as_secs_f64()).collect();
        sorted.sort_by(f64::total_cmp);
        let in_time = |waits: &Vec<Wait>| waits.iter().filter(|wait| wait.is_in_time).count();
        let served = groups.iter().map(in_time);
        let served = served.map(|count| u32::try_from(count).expect("some millions")).collect();
        Self { sorted, served, time }
    }

    fn rate(&self) -> f64 {
        f64::from(self.served.iter().sum::<u32>()) / self.time.as_secs_f64()
    }

    fn mean(&self) -> f64 {
        let count = u32::try_from(self.sorted.len()).expect("some millions");
        self.sorted.iter().sum::<f64>() / f64::from(count)
    }

    fn least_to_most(&self) -> f64 {
        let (least, most) = (self.served.iter().min(), self.served.iter().max());
        f64::from(*least.unwrap_or(&0)) / f64::from(*most.unwrap_or(&0))
    }

    /// Returns the longest wait, as a multiple of the time in which `others` are served at the
    /// measured rate.
    pub(crate) fn longest_to_fair(&self, others: u32) -> f64 {
        rank(&self.sorted, 100) * self.rate() / f64::from(others)
    }

    pub(crate) fn emit(&self, case: &str, who: &str) {
        eprintln!("  {case}, {who}: {self}");
        emit(case, who, RATE, self.rate());
        emit(case, who, MEAN, self.mean());
        emit(case, who, P50, rank(&self.sorted, 50));
        emit(case, who, P99, rank(&self.sorted, 99));
        emit(case, who, LONGEST, rank(&self.sorted, 100));
        emit(case, who, LEAST_TO_MOST, self.least_to_most());
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} grants per s, wait {} at the mean, {} at p99, least to most served {}",
            significant(self.rate()),
            time(self.mean()),
            time(rank(&self.sorted, 99)),
            significant(self.least_to_most()),
        )
    }
}
