use std::{ops::RangeInclusive, time::Duration};

use crate::protocol::rules;

/// When a candidate tries again, if no release wakes it before.
///
/// While the lock is renewed, once per renewal interval: so it is known when the keys would expire,
/// and where no release is told, that is how soon a leader that gave the lock back is followed. The keys of one that died expire earlier than that in the end; then at that moment,
/// and quickly again a few times where several candidates met and none of them got a quorum.
/// In all, no more than a tenth of the TTL passes after the expiry.
#[derive(Debug)]
pub(super) struct Pace {
    ttl: Duration,
    interval: Duration,
    /// How often it is tried again at once; none before the keys were about to expire.
    quick_tries: u32,
    back_off: Duration,
}

const QUICK_TRIES: u32 = 3;
/// Of a TTL: 2 %. With three quick tries, 8 %.
const SHORT: u32 = 50;

impl Pace {
    pub(super) fn new(ttl: Duration, validity: Duration) -> Self {
        let interval = rules::renewal_interval(validity);
        Self { ttl, interval, quick_tries: 0, back_off: ttl / SHORT }
    }

    /// The pause, at random within the range, after an attempt that met a holder.
    pub(super) fn after_held(&mut self, expires_in: Option<Duration>) -> RangeInclusive<Duration> {
        let short = self.ttl / SHORT;
        self.back_off = short;
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

    /// The pause where the lock is likely to be free and several candidates know it.
    pub(super) fn short(&self) -> RangeInclusive<Duration> {
        let short = self.ttl / SHORT;
        short / 8..=short
    }

    /// The same after an attempt that failed otherwise: longer each time.
    pub(super) fn after_failure(&mut self) -> RangeInclusive<Duration> {
        let pause = self.back_off;
        self.back_off = (pause * 2).min(self.interval);
        pause / 2..=pause
    }
}

/// Of the servers' expiry.
const PRECISION: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);
    const INTERVAL: Duration = Duration::from_secs(3);

    fn pace() -> Pace {
        Pace::new(TTL, INTERVAL * 3)
    }

    #[test]
    fn a_leader_that_renews_is_asked_after_once_per_renewal_interval() {
        let mut pace = pace();
        for left in [TTL, TTL * 7 / 10, TTL] {
            let pause = pace.after_held(Some(left));
            assert!(*pause.start() >= INTERVAL && *pause.end() < INTERVAL * 2, "{pause:?}");
        }
        assert!(*pace.after_held(None).start() >= INTERVAL);
    }

    #[test]
    fn expiry_and_three_collisions_cost_no_more_than_a_tenth_of_the_ttl() {
        let mut pace = pace();
        let expiry = Duration::from_secs(2);
        let first = pace.after_held(Some(expiry));
        assert!(*first.start() > expiry, "not before the keys are gone");
        // Three times another candidate was met whose keys were fresh.
        let rest: Duration = (0..3).map(|_| *pace.after_held(Some(TTL)).end()).sum();
        assert!(*first.end() + rest <= expiry + TTL / 10);
        assert!(*pace.after_held(Some(TTL)).start() >= INTERVAL, "then it is a leader's");
    }

    #[test]
    fn failures_back_off_up_to_the_renewal_interval_until_somebody_is_met() {
        let mut pace = pace();
        let pauses: Vec<_> = (0..8).map(|_| *pace.after_failure().end()).collect();
        assert_eq!(pauses[0], TTL / SHORT);
        assert!(pauses.is_sorted());
        assert_eq!(pauses[7], INTERVAL);
        pace.after_held(None);
        assert_eq!(*pace.after_failure().end(), TTL / SHORT);
    }
}
