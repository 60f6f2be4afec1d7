//! Estimates a server's clock, for the deadlines of commands.

use std::time::Duration;

use crate::{protocol::formulas, time::Timestamp};

/// A reading of a server's clock: it showed `server_micros` after `sent`.
///
/// Deadlines use the upper bound: a deadline that is too late lets a late command run; one that is
/// too early costs a vote.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerClock {
    sent: Timestamp,
    server_micros: u64,
    /// Drift allowance as a fraction of the time since `sent`.
    drift_factor: f64,
}

impl ServerClock {
    /// Creates a reading from the server's TIME in the answer to a command that was sent at `sent`.
    pub(super) fn new(sent: Timestamp, server_micros: u64, drift_factor: f64) -> Self {
        Self { sent, server_micros, drift_factor }
    }

    /// Returns the latest time that the server's clock can show at `now` without a jump that the
    /// next reading would show, in µs since the Unix epoch.
    fn latest(self, now: Timestamp) -> u64 {
        let passed = now.saturating_duration_since(self.sent);
        let passed = (passed + formulas::drift(passed, self.drift_factor)).as_micros();
        self.server_micros.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// Returns the expiry, in ms of the server's clock, of a key that should live for `life` from
    /// now on.
    ///
    /// An acquire counts only if it is answered within a node timeout and the clock shows no jump
    /// by then. So it ran before the server's clock was a node timeout ahead of this reading. If
    /// `life` includes that timeout, the key lives for its TTL from then on.
    pub(super) fn expiry(self, now: Timestamp, life: Duration) -> u64 {
        self.deadline(now, life).div_ceil(1_000)
    }

    /// Returns when the reading was requested.
    pub(super) const fn sent(&self) -> Timestamp {
        self.sent
    }

    /// Returns the earliest time that the server's clock shows from now on, unless it is set back.
    pub(super) const fn earliest(self) -> u64 {
        self.server_micros
    }

    /// Returns the deadline, by the server's clock, of a command that is sent now.
    pub(super) fn deadline(self, now: Timestamp, max_delay: Duration) -> u64 {
        let max_delay = u64::try_from(max_delay.as_micros()).unwrap_or(u64::MAX);
        self.latest(now).saturating_add(max_delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::offsets::{Interval, Offsets, Reading};

    #[test]
    fn deadline_counts_from_latest_server_time() {
        let at = |ms| Timestamp::ZERO + Duration::from_millis(ms);
        let clock = ServerClock::new(at(1_000), 5_000_000, 0.01);
        assert_eq!(clock.deadline(at(1_250), Duration::from_millis(100)), 5_354_500);
        assert_eq!(clock.expiry(at(1_250), Duration::from_micros(100_501)), 5_356);
        assert_eq!(clock.earliest(), 5_000_000);
    }

    #[test]
    fn undetected_jump_shortens_no_key() {
        let (ttl, timeout) = (Duration::from_millis(200), Duration::from_millis(20));
        let mut detected = 0;
        for (seconds, jump_ms) in [1, 5].into_iter().flat_map(|s| (0..100).map(move |j| (s, j))) {
            let at = |passed: Duration| Timestamp::ZERO + Duration::from_secs(10) + passed;
            let shows = |passed: Duration| 5_000_000 + u64::try_from(passed.as_micros()).unwrap();
            let mut offsets = Offsets::new(Duration::from_secs(10), 0.01);
            let first =
                Interval::new(at(Duration::ZERO), at(Duration::ZERO), shows(Duration::ZERO));
            offsets.observe(first, at(Duration::ZERO), at(Duration::ZERO));
            let clock = ServerClock::new(at(Duration::ZERO), shows(Duration::ZERO), 0.01);

            // The clock jumps, and the command runs at the end of its timeout.
            let sent = Duration::from_secs(seconds);
            let expiry = clock.expiry(at(sent), ttl + timeout);
            let ran = sent + timeout;
            let runs_at = shows(ran + Duration::from_millis(jump_ms));
            let reading = Interval::new(at(ran), at(ran), runs_at);

            if offsets.observe(reading, at(ran), at(ran)) == Reading::Steady {
                let life = Duration::from_micros(expiry * 1_000 - runs_at);
                // The lock itself sets aside the drift since it was sent.
                assert!(life + timeout.mul_f64(0.01) >= ttl, "{life:?} after {jump_ms} ms");
            } else {
                detected += 1;
            }
        }
        assert!(detected > 100, "the longest jumps are detected");
    }
}
