//! When the next health check of a session is due, and the next reading of the server's clock.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{protocol::formulas, time::Timestamp};

/// Interval of health checks, and maximum interval between the tests of whether one is due.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of health checks of a server that is not used. Its clock is read each second.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of reads and changes of a record within one health check.
const MAX_CHANGES: u8 = 6;

/// Maximum number of health checks per second. A clock that jumps causes checks of the other nodes,
/// so two clocks that jump at each reading would cause checks without a pause.
const MAX_CHECKS: u32 = 10;

/// The health checks of a session.
pub(super) struct CheckProgress {
    /// Whether the next health check must begin now.
    pub(super) is_due: bool,
    /// Number of reads and changes of the record in the health check under way, if any.
    changes: Option<u8>,
    /// The run id that the server reported first.
    pub(super) run_id: Option<Arc<str>>,
    /// Number of health checks in the current second.
    begun: u32,
    counted_since: Instant,
    /// When the latest health check began.
    latest: Timestamp,
    /// When operations were last written.
    used: Timestamp,
    /// When TIME was last sent by itself.
    asked_time: Timestamp,
    /// The current interval of health checks.
    interval: Duration,
}

impl CheckProgress {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            is_due: true,
            changes: None,
            run_id: None,
            begun: 0,
            counted_since: Instant::now(),
            latest: now,
            used: now,
            asked_time: now,
            interval: CHECK_INTERVAL,
        }
    }

    /// Returns whether a health check must begin now. A check beyond the maximum rate is due in the
    /// next second.
    pub(super) fn may_begin(&self) -> bool {
        self.is_due && self.changes.is_none() && self.begun < MAX_CHECKS
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.changes.is_some()
    }

    pub(super) fn begin(&mut self, now: Timestamp) {
        assert!(self.may_begin(), "health checks do not overlap");
        self.changes = Some(0);
        self.begun += 1;
        self.latest = now;
    }

    /// Returns whether the health check may read or change the record once more, and counts that.
    pub(super) fn may_change(&mut self) -> bool {
        let Some(changes) = &mut self.changes else { unreachable!("a check is under way") };
        debug_assert!(*changes <= MAX_CHANGES, "changes are limited");
        let may_change = *changes < MAX_CHANGES;
        *changes += u8::from(may_change);
        may_change
    }

    pub(super) fn end(&mut self) {
        assert!(self.changes.take().is_some(), "a health check ends once");
    }

    /// Records that operations are written. The first one of an unused server is followed by a
    /// health check.
    pub(super) fn note_use(&mut self, now: Timestamp) {
        self.used = now;
        self.is_due |= self.interval > CHECK_INTERVAL;
        self.interval = CHECK_INTERVAL;
    }

    /// Updates the interval, and whether it has passed since the latest health check. `longest` is the longest
    /// TTL of a lock.
    ///
    /// After that time without an operation, no lock of this client depends on the server, and the
    /// next vote is judged by its own TIME, and by its own view. Two readings of the clock within
    /// `longest` show each jump that may have expired keys of others.
    pub(super) fn update_interval(&mut self, now: Timestamp, longest: Duration, all_vote: bool) {
        let is_idle = all_vote && now.saturating_duration_since(self.used) > longest;
        self.interval = if is_idle {
            (longest / 2).clamp(CHECK_INTERVAL, IDLE_CHECK_INTERVAL)
        } else {
            CHECK_INTERVAL
        };
        self.is_due |= now.saturating_duration_since(self.latest) >= self.interval;
    }

    /// Returns whether the clock is to be read by itself: no check is due, and a reading was last sent
    /// at `read`, [`READ_INTERVAL`] ago or almost. This is called at intervals of `interval`.
    pub(super) fn must_read(
        &mut self,
        now: Timestamp,
        read: Timestamp,
        interval: Duration,
    ) -> bool {
        let latest = read.max(self.asked_time);
        let must_read = !self.is_due
            && self.changes.is_none()
            && now.saturating_duration_since(latest) + interval / 2 >= formulas::READ_INTERVAL;
        if must_read {
            self.asked_time = now;
        }
        must_read
    }

    /// Resets the count if a second is over.
    pub(super) fn count_anew(&mut self) {
        if self.counted_since.elapsed() >= CHECK_INTERVAL {
            (self.begun, self.counted_since) = (0, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_server_is_checked_less_often() {
        let at = |seconds: f64| Timestamp::ZERO + Duration::from_secs_f64(seconds);
        let longest = Duration::from_secs(8);
        let mut checks = CheckProgress::new(at(0.0));
        // Looks each second, and returns the seconds in which checks began.
        let mut begun = |seconds: std::ops::Range<u32>, all_vote, used_at: u32| {
            seconds
                .filter(|second| {
                    let now = at(f64::from(*second));
                    if *second == used_at {
                        checks.note_use(now);
                    }
                    checks.update_interval(now, longest, all_vote);
                    let is_due = std::mem::take(&mut checks.is_due);
                    if is_due {
                        checks.latest = now;
                    }
                    is_due
                })
                .collect::<Vec<_>>()
        };

        assert_eq!(begun(0..9, true, 0), [0, 1, 2, 3, 4, 5, 6, 7, 8], "it may have locks");
        assert_eq!(begun(9..22, true, 0), [12, 16, 20], "half of the longest TTL");
        assert_eq!(begun(22..25, true, 22), [22, 23, 24], "at once when it is used");
        assert_eq!(begun(25..35, true, 0), [25, 26, 27, 28, 29, 30, 34]);
        assert_eq!(begun(35..37, false, 0), [35, 36], "a node begins its probation");
    }

    #[test]
    fn first_use_after_idleness_is_checked_at_once() {
        let at = |seconds| Timestamp::ZERO + Duration::from_secs(seconds);
        let mut checks = CheckProgress::new(at(0));
        (checks.is_due, checks.latest) = (false, at(100));
        checks.update_interval(at(100), Duration::from_secs(60), true);
        assert!(!checks.is_due);

        checks.note_use(at(100));

        assert!(std::mem::take(&mut checks.is_due), "the server may have changed meanwhile");
        checks.note_use(at(100));
        assert!(!checks.is_due, "it is in use");
    }

    #[test]
    fn clock_is_read_each_second_between_checks() {
        let at = |millis| Timestamp::ZERO + Duration::from_millis(millis);
        for interval in [200, 500, 1_000].map(Duration::from_millis) {
            let mut checks = CheckProgress::new(at(0));
            checks.is_due = false;
            let (mut read, mut longest) = (at(0), Duration::ZERO);

            // Looks come up to 1 ms late, and are answered after 10 ms. A check begins each 5 s.
            for number in 1..100_u32 {
                let now = Timestamp::ZERO
                    + interval * number
                    + Duration::from_millis(u64::from(number % 2));
                checks.update_interval(now, Duration::from_secs(10), true);
                checks.interval = IDLE_CHECK_INTERVAL;
                let begins = std::mem::take(&mut checks.is_due);
                if begins {
                    checks.latest = now;
                }
                if begins || checks.must_read(now, read, interval) {
                    longest = longest.max(now.saturating_duration_since(read));
                    read = now;
                }
            }

            assert!(longest <= Duration::from_millis(1_010), "{interval:?}: {longest:?}");
            assert!(longest >= Duration::from_millis(990), "{interval:?}: {longest:?}");
        }
    }

    #[test]
    fn votes_and_checks_spare_readings() {
        let at = |millis| Timestamp::ZERO + Duration::from_millis(millis);
        let interval = Duration::from_millis(500);
        let mut checks = CheckProgress::new(at(0));

        assert!(!checks.must_read(at(5_000), at(0), interval), "a check is due");
        checks.is_due = false;
        assert!(!checks.must_read(at(5_000), at(4_500), interval), "a vote read it");
        assert!(checks.must_read(at(5_000), at(4_000), interval));
        assert!(!checks.must_read(at(5_500), at(4_000), interval), "it is being read");
        checks.changes = Some(0);
        assert!(!checks.must_read(at(9_000), at(4_000), interval), "a check is under way");
    }

    #[test]
    fn short_ttls_keep_the_interval() {
        let at = |seconds| Timestamp::ZERO + Duration::from_secs(seconds);
        let is_due = |longest: u64, seconds: u64| {
            let mut checks = CheckProgress::new(at(0));
            checks.is_due = false;
            checks.latest = at(100);
            checks.update_interval(at(100 + seconds), Duration::from_secs(longest), true);
            checks.is_due
        };

        assert!(is_due(1, 1) && is_due(2, 1));
        assert!(!is_due(60, 4) && is_due(60, 5));
    }
}
