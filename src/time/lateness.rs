//! How late timers fire, and how much earlier a deadline is aimed at for that.

use std::time::Duration;

use super::Timestamp;

/// Least lateness that is reckoned with, beyond the granularity of the timers: a thread on an idle
/// machine has to be woken.
const LEAST: Duration = Duration::from_micros(500);
/// Greatest lateness that is reckoned with; what is later was a pause of the process.
const GREATEST: Duration = Duration::from_millis(10);
/// Time in which the greatest lateness seen counts for half.
const HALF_LIFE: Duration = Duration::from_secs(10);
/// Threads that are woken one after the other until guarded work is dropped: the crate's own, by
/// the timer, and the one that polls the work.
const HOPS: u32 = 2;

/// The greatest lateness of late, beyond the granularity of the timers; it halves with time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lateness {
    worst: Duration,
    seen: Timestamp,
}

impl Lateness {
    pub(super) const fn new() -> Self {
        Self { worst: Duration::ZERO, seen: Timestamp::ZERO }
    }

    /// Takes note of a timer, and returns the lead that its lateness calls for.
    pub(super) fn note(
        &mut self,
        due: Timestamp,
        fired: Timestamp,
        granularity: Duration,
    ) -> Duration {
        let late = fired.saturating_duration_since(due).saturating_sub(granularity).min(GREATEST);
        let half_lives =
            fired.saturating_duration_since(self.seen).as_nanos() / HALF_LIFE.as_nanos();
        let halvings = u32::try_from(half_lives).unwrap_or(u32::MAX);
        let remembered = self.worst / 2_u32.checked_pow(halvings).unwrap_or(u32::MAX);
        if late >= remembered {
            *self = Self { worst: late, seen: fired };
        }
        lead(granularity, late.max(remembered))
    }
}

/// How long before a deadline a timer has to be due, so that what it wakes is done in time. Zero
/// for timers that fire exactly on time.
fn lead(granularity: Duration, late: Duration) -> Duration {
    if granularity.is_zero() {
        return Duration::ZERO;
    }
    granularity + late.max(LEAST) * HOPS
}

/// The lead while nothing is known of the lateness.
pub(super) fn least_lead(granularity: Duration) -> Duration {
    lead(granularity, LEAST)
}

/// The longest lead that there can be.
pub(super) fn longest_lead(granularity: Duration) -> Duration {
    lead(granularity, GREATEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRANULARITY: Duration = Duration::from_millis(2);
    const LEAST_LEAD: Duration = Duration::from_millis(3);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn timers_within_granularity_need_least() {
        let mut lateness = Lateness::new();
        assert_eq!(least_lead(GRANULARITY), LEAST_LEAD);
        for (due, fired) in [(1_000, 1_000), (2_000, 1_900), (3_000, 3_002)] {
            assert_eq!(lateness.note(at(due), at(fired), GRANULARITY), LEAST_LEAD);
        }
    }

    #[test]
    fn a_late_timer_counts_for_both_hops() {
        let mut lateness = Lateness::new();
        assert_eq!(lateness.note(at(1_000), at(1_005), GRANULARITY), ms(2 + 2 * 3));
        assert_eq!(lateness.note(at(1_100), at(1_106), GRANULARITY), ms(2 + 2 * 4));
    }

    #[test]
    fn the_worst_is_remembered_and_halves() {
        let mut lateness = Lateness::new();
        lateness.note(at(0), at(10), GRANULARITY);
        let mut punctual = |moment| lateness.note(at(moment), at(moment), GRANULARITY);
        assert_eq!(punctual(10_009), ms(2 + 2 * 8));
        assert_eq!(punctual(10_010), ms(2 + 2 * 4));
        assert_eq!(punctual(20_010), ms(2 + 2 * 2));
        assert_eq!(punctual(500_000), LEAST_LEAD);
        assert_eq!(punctual(u64::MAX / 2_000_000), LEAST_LEAD);
    }

    #[test]
    fn what_is_worse_than_remembered_counts_from_then() {
        let mut lateness = Lateness::new();
        lateness.note(at(0), at(10), GRANULARITY);
        assert_eq!(lateness.note(at(20_000), at(20_005), GRANULARITY), ms(2 + 2 * 4));
        assert_eq!(lateness.note(at(20_010), at(20_015), GRANULARITY), ms(2 + 2 * 3));
        assert_eq!(lateness.note(at(30_000), at(30_000), GRANULARITY), ms(2 + 2 * 3));
    }

    #[test]
    fn a_pause_counts_as_the_greatest() {
        let mut lateness = Lateness::new();
        let lead = lateness.note(at(0), at(3_600_000), GRANULARITY);
        assert_eq!(lead, longest_lead(GRANULARITY));
        assert_eq!(lead, ms(22));
    }

    #[test]
    fn exact_timers_need_none() {
        let mut lateness = Lateness::new();
        assert_eq!(lateness.note(at(0), at(1_000), Duration::ZERO), Duration::ZERO);
        assert_eq!(least_lead(Duration::ZERO), Duration::ZERO);
        assert_eq!(longest_lead(Duration::ZERO), Duration::ZERO);
    }
}
