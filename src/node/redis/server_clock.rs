//! Estimates a server's clock, for the deadlines of commands.

use std::time::Duration;

use crate::time::Timestamp;

/// A reading of a server's clock: it showed `server_micros` after `sent`.
///
/// Deadlines use the upper bound: a deadline that is too late lets a late command run; one that is
/// too early costs a vote.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerClock {
    sent: Timestamp,
    server_micros: u64,
}

impl ServerClock {
    /// Creates a reading from the server's TIME in the answer to a command that was sent at `sent`.
    pub(super) fn new(sent: Timestamp, server_micros: u64) -> Self {
        Self { sent, server_micros }
    }

    /// Returns the latest time that the server's clock can show at `now`, in µs since the Unix
    /// epoch.
    fn latest(self, now: Timestamp) -> u64 {
        let passed = now.saturating_duration_since(self.sent).as_micros();
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

    /// Returns the earliest time that the server's clock shows from now on, unless it is set back.
    pub(super) const fn earliest(self) -> u64 {
        self.server_micros
    }

    /// Returns the deadline, by the server's clock, of a command that is sent now.
    pub(super) fn deadline(self, now: Timestamp, patience: Duration) -> u64 {
        let patience = u64::try_from(patience.as_micros()).unwrap_or(u64::MAX);
        self.latest(now).saturating_add(patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadline_counts_from_latest_server_time() {
        let at = |ms| Timestamp::ZERO + Duration::from_millis(ms);
        let clock = ServerClock::new(at(1_000), 5_000_000);
        assert_eq!(clock.deadline(at(1_250), Duration::from_millis(100)), 5_350_000);
        assert_eq!(clock.expiry(at(1_250), Duration::from_micros(100_001)), 5_351);
        assert_eq!(clock.earliest(), 5_000_000);
    }
}
