//! Formats numbers for display.

use crate::spread::Spread;

/// Formats a number with two or three digits.
pub(crate) fn significant(value: f64) -> String {
    match value {
        f64::INFINITY => "∞".into(),
        1e6.. => format!("{} M", significant(value / 1e6)),
        1e3.. => format!("{} k", significant(value / 1e3)),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        0.1.. => format!("{value:.2}"),
        0.01.. => format!("{value:.3}"),
        0.0 => "0".into(),
        _ if value.is_nan() => "?".into(),
        ..0.0 => format!("−{}", significant(-value)),
        _ => format!("{value:.1e}"),
    }
}

pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        1.0.. => format!("{} s", significant(seconds)),
        1e-3.. => format!("{} ms", significant(seconds * 1e3)),
        1e-6.. => format!("{} µs", significant(seconds * 1e6)),
        ..0.0 => format!("−{}", time(-seconds)),
        _ => format!("{} ns", significant(seconds * 1e9)),
    }
}

/// Formats a size in multiples of 1,024.
pub(crate) fn bytes(number: f64) -> String {
    match number {
        1_048_576.0.. => format!("{} MiB", significant(number / 1_048_576.0)),
        1_024.0.. => format!("{} KiB", significant(number / 1_024.0)),
        _ => format!("{} B", significant(number)),
    }
}

/// Formats the median, followed by the minimum and maximum in brackets.
pub(crate) fn with_spread(spread: Option<Spread>, format: fn(f64) -> String) -> String {
    spread.map_or_else(missing, |Spread { least, median, most }| {
        format!("{} ({} to {})", format(median), format(least), format(most))
    })
}

pub(crate) fn median(spread: Option<Spread>, format: fn(f64) -> String) -> String {
    spread.map_or_else(missing, |spread| format(spread.median))
}

pub(crate) fn times(ratio: f64) -> String {
    format!("× {}", significant(ratio))
}

fn missing() -> String {
    "–".into()
}
