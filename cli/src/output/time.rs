//! Times for people and for programs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns a time with one decimal digit at most.
pub(crate) fn time(time: Duration) -> String {
    if time.subsec_nanos() == 0 { format!("{time:?}") } else { format!("{time:.1?}") }
}

/// Returns a time in few characters: `840ms`, `9.8s`, `42s`, `3m05s`, `4h02m`, `12d03h`.
pub(crate) fn short(time: Duration) -> String {
    let (millis, seconds) = (time.as_millis(), time.as_secs());
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        0 => format!("{millis}ms"),
        1..10 => format!("{}.{}s", seconds, millis % 1000 / 100),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m{:02}s", seconds % 60),
        3600..86400 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

/// Returns the time since then; zero for a clock that is ahead of ours.
pub(crate) fn age(at: SystemTime) -> Duration {
    at.elapsed().unwrap_or_default()
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the milliseconds since the epoch; `None` before it.
pub(crate) fn unix_millis(at: SystemTime) -> Option<u64> {
    at.duration_since(UNIX_EPOCH).ok().map(millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_times() {
        let cases = [
            (0, "0ms"),
            (999, "999ms"),
            (1_000, "1.0s"),
            (9_999, "9.9s"),
            (10_000, "10s"),
            (59_999, "59s"),
            (60_000, "1m00s"),
            (3_599_999, "59m59s"),
            (3_600_000, "1h00m"),
            (86_400_000, "1d00h"),
            (1_036_800_000 + 10_800_000, "12d03h"),
        ];
        for (millis, text) in cases {
            assert_eq!(short(Duration::from_millis(millis)), text);
        }
    }
}
