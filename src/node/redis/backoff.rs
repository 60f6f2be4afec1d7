//! The pause before the next attempt to connect.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(20);
const LAST: Duration = Duration::from_secs(1);

/// Exponential backoff with jitter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Backoff {
    /// Returns half to all of the pause, so that a fleet does not reconnect in step, and doubles the
    /// next one.
    pub(super) fn next(&mut self) -> Duration {
        let Self(pause) = std::mem::replace(self, Self((self.0 * 2).min(LAST)));
        let half = pause / 2;
        let jitter = crate::random::below(u64::try_from(half.as_micros()).unwrap_or(u64::MAX));
        half + Duration::from_micros(jitter)
    }
}
