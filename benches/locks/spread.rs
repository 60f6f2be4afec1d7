/// What several rounds brought.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// # Panics
    ///
    /// Without values.
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            f64::midpoint(values[middle - 1], values[middle])
        } else {
            values[middle]
        };
        Self { least: values[0], median, most: values[values.len() - 1] }
    }

    /// Of the ratios of each round.
    pub(crate) fn of_ratios(upper: &[f64], lower: &[f64]) -> Self {
        Self::of(upper.iter().zip(lower).map(|(upper, lower)| upper / lower).collect())
    }
}

/// Two or three digits.
pub(crate) fn significant(value: f64) -> String {
    match value {
        f64::INFINITY => "∞".into(),
        1e3.. => format!("{} k", significant(value / 1e3)),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        0.1.. => format!("{value:.2}"),
        0.01.. => format!("{value:.3}"),
        0.0 => "0".into(),
        _ if value.is_nan() => "?".into(),
        _ => format!("{value:.1e}"),
    }
}

pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        1.0.. => format!("{} s", significant(seconds)),
        1e-3.. => format!("{} ms", significant(seconds * 1e3)),
        _ => format!("{} µs", significant(seconds * 1e6)),
    }
}
