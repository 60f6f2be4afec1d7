//! Pauses between the attempts of a campaign, and between the terms of a candidate.

use std::{ops::RangeInclusive, time::Duration};

use crate::protocol::formulas;

/// Pauses between the attempts of a candidate, unless a release wakes it earlier.
///
/// While a leader renews: one renewal interval, which also bounds the delay after a release that
/// was not reported. Once the keys are about to expire: until the expiry, then a few short pauses
/// in case several candidates split the vote. At most a tenth of the TTL passes after the expiry.
#[derive(Debug)]
pub(super) struct CampaignBackoff {
    ttl: Duration,
    interval: Duration,
    /// Remaining short pauses; zero unless the keys were about to expire.
    quick_tries: u32,
    pause: Duration,
}

const QUICK_TRIES: u32 = 3;
/// Divisor of the TTL for a short pause: 2 %, with three more 8 %.
const SHORT: u32 = 50;

impl CampaignBackoff {
    pub(super) fn new(ttl: Duration, validity: Duration) -> Self {
        let interval = formulas::renewal_interval(validity);
        Self { ttl, interval, quick_tries: 0, pause: ttl / SHORT }
    }

    /// Returns the range of the random pause after an attempt that met a holder.
    pub(super) fn after_held(&mut self, expires_in: Option<Duration>) -> RangeInclusive<Duration> {
        let short = self.ttl / SHORT;
        self.pause = short;
        if let Some(expiry) = expires_in.filter(|expiry| *expiry < self.interval) {
            self.quick_tries = QUICK_TRIES;
            return expiry + PRECISION..=(expiry + short).max(expiry + PRECISION);
        }
        if self.quick_tries > 0 {
            self.quick_tries -= 1;
            return self.short();
        }
        self.interval..=self.interval + self.interval / 10
    }

    /// Returns the range of the random pause if the lock is likely to be free, for several candidates.
    pub(super) fn short(&self) -> RangeInclusive<Duration> {
        let short = self.ttl / SHORT;
        short / 8..=short
    }

    /// Returns the range of the random pause after another failure. Doubles each time.
    pub(super) fn after_failure(&mut self) -> RangeInclusive<Duration> {
        let pause = self.pause;
        self.pause = (pause * 2).min(self.interval);
        pause / 2..=pause
    }
}

/// Precision of the servers' expiry.
const PRECISION: Duration = Duration::from_millis(1);

/// Pauses between the terms of a candidate whose work returns.
#[derive(Debug, Default)]
pub(super) struct TermBackoff {
    /// Consecutive short terms.
    terms: u32,
}

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl TermBackoff {
    /// Returns the longest pause after a term of this duration.
    pub(super) fn after(&mut self, led_for: Duration) -> Duration {
        if led_for > LONGEST_PAUSE {
            self.terms = 0;
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << self.terms.min(16)).min(LONGEST_PAUSE);
        self.terms = self.terms.saturating_add(1);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);
    const INTERVAL: Duration = Duration::from_secs(3);

    fn campaign() -> CampaignBackoff {
        CampaignBackoff::new(TTL, INTERVAL * 3)
    }

    #[test]
    fn renewing_leader_costs_attempt_per_interval() {
        let mut backoff = campaign();
        for left in [TTL, TTL * 7 / 10, TTL] {
            let pause = backoff.after_held(Some(left));
            assert!(*pause.start() >= INTERVAL && *pause.end() < INTERVAL * 2, "{pause:?}");
        }
        assert!(*backoff.after_held(None).start() >= INTERVAL);
    }

    #[test]
    fn collisions_after_expiry_cost_little_time() {
        let mut backoff = campaign();
        let expiry = Duration::from_secs(2);
        let first = backoff.after_held(Some(expiry));
        assert!(*first.start() > expiry, "not before the keys are gone");
        // Three times another candidate was met whose keys were fresh.
        let rest: Duration = (0..3).map(|_| *backoff.after_held(Some(TTL)).end()).sum();
        assert!(*first.end() + rest <= expiry + TTL / 10);
        assert!(*backoff.after_held(Some(TTL)).start() >= INTERVAL, "then it is a leader's");
    }

    #[test]
    fn failure_pauses_grow_until_holder_answers() {
        let mut backoff = campaign();
        let pauses: Vec<_> = (0..8).map(|_| *backoff.after_failure().end()).collect();
        assert_eq!(pauses[0], TTL / SHORT);
        assert!(pauses.is_sorted());
        assert_eq!(pauses[7], INTERVAL);
        backoff.after_held(None);
        assert_eq!(*backoff.after_failure().end(), TTL / SHORT);
    }

    #[test]
    fn pauses_double_up_to_a_minute() {
        let mut backoff = TermBackoff::default();
        let pauses: Vec<_> = (0..8).map(|_| backoff.after(LONGEST_PAUSE).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn a_long_term_begins_anew() {
        let mut backoff = TermBackoff::default();
        for _ in 0..8 {
            backoff.after(FIRST_PAUSE);
        }
        assert_eq!(backoff.after(LONGEST_PAUSE + FIRST_PAUSE), FIRST_PAUSE);
        assert_eq!(backoff.after(FIRST_PAUSE), FIRST_PAUSE * 2);
    }
}
