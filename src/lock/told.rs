//! Warnings of one kind, so many at most.

use std::time::Duration;

use crate::time::Timestamp;

/// Least time between two warnings of the same.
const INTERVAL: Duration = Duration::from_secs(60);

/// When was warned last, and how often there was reason to since.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    last: Option<Timestamp>,
    since: u64,
}

impl Told {
    /// One more reason to warn. How many there were since the last warning, if it is time for one.
    pub(super) fn warns(&mut self, now: Timestamp) -> Option<u64> {
        self.since += 1;
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < INTERVAL) {
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_in_a_minute_is_told_and_the_others_counted() {
        let at = |seconds| Timestamp::ZERO + Duration::from_secs(seconds);
        let mut told = Told::default();
        let warned = [0, 1, 59, 60, 119, 120, 300].map(|seconds| told.warns(at(seconds)));
        assert_eq!(warned, [Some(1), None, None, Some(3), None, Some(2), Some(1)]);
    }
}
