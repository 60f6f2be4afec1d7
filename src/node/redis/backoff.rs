//! Pauses between connections to one server.

use std::time::Duration;

/// The first pause before connecting again.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// Maximum pause, and the duration of a connection that resets the pause. A server that keeps
/// closing its connections therefore gets about one new connection in each such interval.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The pauses between connections to a server: exponential, with jitter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    first: Duration,
    next: Duration,
    longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(FIRST_PAUSE, LONGEST_PAUSE)
    }
}

impl Backoff {
    pub(super) const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, next: first, longest }
    }

    /// Returns the pause after a connection that lasted for `lasted`; zero for a connection that
    /// failed to open.
    ///
    /// The pause is half to all of its maximum, so that a fleet does not reconnect in step. The
    /// maximum doubles each time. A connection that lasted for [`LONGEST_PAUSE`] resets it.
    pub(super) fn after(&mut self, lasted: Duration) -> Duration {
        if lasted >= LONGEST_PAUSE {
            self.next = self.first;
        }
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        debug_assert!(self.first <= pause && pause <= self.next, "pauses grow up to the longest");
        crate::random::within(&(pause / 2..=pause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_connections_keep_pauses_growing() {
        let mut backoff = Backoff::default();
        for most in [20, 40, 80, 160, 320, 640, 1_000, 1_000] {
            let most = Duration::from_millis(most);
            let pause = backoff.after(LONGEST_PAUSE.saturating_sub(Duration::from_nanos(1)));
            assert!(pause >= most / 2 && pause <= most, "{pause:?} of {most:?}");
        }
        assert!(backoff.after(LONGEST_PAUSE) <= FIRST_PAUSE);
        assert!(backoff.after(Duration::ZERO) > FIRST_PAUSE / 2);
    }

    #[test]
    fn clients_pause_for_different_times() {
        let pauses: std::collections::BTreeSet<_> =
            (0..100).map(|_| Backoff::default().after(Duration::ZERO)).collect();
        assert!(pauses.len() > 90, "{} pauses", pauses.len());
    }
}
