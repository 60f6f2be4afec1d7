//! The median and the spread of samples.

/// The results of several rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Computes the spread; `None` without values.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            f64::midpoint(values[middle - 1], values[middle])
        } else {
            values[middle]
        };
        Some(Self { least, median, most })
    }

    /// Converts the values to another unit, or to their reciprocals.
    pub(crate) fn map(self, f: impl Fn(f64) -> f64) -> Self {
        let Self { least, median, most } = self;
        let (least, most) = (f(least), f(most));
        Self { least: least.min(most), median: f(median), most: least.max(most) }
    }
}

/// Returns the smallest value that `percent` percent of the values do not exceed.
///
/// # Panics
///
/// If there are no values.
pub(crate) fn rank(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]
}
