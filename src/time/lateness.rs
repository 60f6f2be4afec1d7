//! The lateness of timers, and how much earlier than a deadline they are set.

use std::time::Duration;

use super::Timestamp;

/// Minimum assumed lateness beyond the timers' granularity: the time to wake a thread on an idle
/// machine.
const MIN_LATENESS: Duration = Duration::from_micros(500);
/// Maximum assumed lateness; a longer delay is a pause of the process.
const MAX_LATENESS: Duration = Duration::from_millis(10);
/// Time in which the worst lateness is halved.
const HALF_LIFE: Duration = Duration::from_secs(10);
/// Threads woken in sequence until guarded work is dropped: the crate's own, and the one that polls
/// the work.
const HOPS: u32 = 2;

/// The recent maximum of the lateness beyond the timers' granularity; it decays with time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lateness {
    worst: Duration,
    seen: Timestamp,
}

impl Lateness {
    pub(super) const fn new() -> Self {
        Self { worst: Duration::ZERO, seen: Timestamp::ZERO }
    }

    /// Records a timer, and returns the lead for the next ones.
    pub(super) fn record(
        &mut self,
        due: Timestamp,
        fired: Timestamp,
        granularity: Duration,
    ) -> Duration {
        let late =
            fired.saturating_duration_since(due).saturating_sub(granularity).min(MAX_LATENESS);
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

/// Returns how long before a deadline a timer must be due for the woken task to finish in time.
/// Zero for timers that fire exactly on time.
fn lead(granularity: Duration, late: Duration) -> Duration {
    if granularity.is_zero() {
        return Duration::ZERO;
    }
    granularity + late.max(MIN_LATENESS) * HOPS
}

/// Returns the lead before the first timer has fired; the minimum.
pub(super) fn min_lead(granularity: Duration) -> Duration {
    lead(granularity, MIN_LATENESS)
}

/// Returns the maximum lead.
pub(super) fn max_lead(granularity: Duration) -> Duration {
    lead(granularity, MAX_LATENESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRANULARITY: Duration = Duration::from_millis(2);
    const MIN_LEAD: Duration = Duration::from_millis(3);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn punctual_timers_need_minimum() {
        let mut lateness = Lateness::new();
        assert_eq!(min_lead(GRANULARITY), MIN_LEAD);
        for (due, fired) in [(1_000, 1_000), (2_000, 1_900), (3_000, 3_002)] {
            assert_eq!(lateness.record(at(due), at(fired), GRANULARITY), MIN_LEAD);
        }
    }

    #[test]
    fn lateness_counts_for_both_hops() {
        let mut lateness = Lateness::new();
        assert_eq!(lateness.record(at(1_000), at(1_005), GRANULARITY), ms(2 + 2 * 3));
        assert_eq!(lateness.record(at(1_100), at(1_106), GRANULARITY), ms(2 + 2 * 4));
    }

    #[test]
    fn worst_lateness_is_halved() {
        let mut lateness = Lateness::new();
        lateness.record(at(0), at(10), GRANULARITY);
        let mut punctual = |moment| lateness.record(at(moment), at(moment), GRANULARITY);
        assert_eq!(punctual(10_009), ms(2 + 2 * 8));
        assert_eq!(punctual(10_010), ms(2 + 2 * 4));
        assert_eq!(punctual(20_010), ms(2 + 2 * 2));
        assert_eq!(punctual(500_000), MIN_LEAD);
        assert_eq!(punctual(u64::MAX / 2_000_000), MIN_LEAD);
    }

    #[test]
    fn worse_lateness_restarts_decay() {
        let mut lateness = Lateness::new();
        lateness.record(at(0), at(10), GRANULARITY);
        assert_eq!(lateness.record(at(20_000), at(20_005), GRANULARITY), ms(2 + 2 * 4));
        assert_eq!(lateness.record(at(20_010), at(20_015), GRANULARITY), ms(2 + 2 * 3));
        assert_eq!(lateness.record(at(30_000), at(30_000), GRANULARITY), ms(2 + 2 * 3));
    }

    #[test]
    fn pause_counts_as_maximum() {
        let mut lateness = Lateness::new();
        let lead = lateness.record(at(0), at(3_600_000), GRANULARITY);
        assert_eq!(lead, max_lead(GRANULARITY));
        assert_eq!(lead, ms(22));
    }

    #[test]
    fn exact_timers_need_no_lead() {
        let mut lateness = Lateness::new();
        assert_eq!(lateness.record(at(0), at(1_000), Duration::ZERO), Duration::ZERO);
        assert_eq!(min_lead(Duration::ZERO), Duration::ZERO);
        assert_eq!(max_lead(Duration::ZERO), Duration::ZERO);
    }
}
