//! When a job's task tries again.

use std::{ops::RangeInclusive, time::Duration};

use super::super::{Claim, Missed, Overlap, job::JobOptions};
use crate::{lock::SingleAttempts, random, schedule::WallTime, time::Timestamp};

/// Pauses after a refusal, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Pause before a replica requests the lock for a requested run again.
const REQUEST_PAUSE: RangeInclusive<Duration> = Duration::from_secs(3)..=Duration::from_secs(5);

/// When a job's task tries again, and what it waits for.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// A tick, and the earliest time of the next attempt at it.
    pub(super) hold_off: Option<(WallTime, Timestamp)>,
    /// Waits for the release of the lock during `hold_off`; absent if a release changes nothing.
    pub(super) releases: Option<SingleAttempts>,
    /// The tick that waits for a run elsewhere, as last seen.
    pub(super) queued: Option<WallTime>,
    /// Consecutive refusals by the nodes or the local line.
    pub(super) refusals: u32,
    /// When to request the lock for a run that was requested of the fleet, if there is one.
    pub(super) requested_at: Option<Timestamp>,
    /// The start of a tick at which to read whether the job is still paused.
    pub(super) check_pause_at: Option<WallTime>,
}

impl Waits {
    /// Returns a random pause that doubles with each refusal.
    pub(super) fn pause(&mut self) -> Duration {
        let longest = self.longest_pause(FIRST_PAUSE);
        random::within(&(longest / 2..=longest))
    }

    /// Returns a random pause that doubles with each refusal, after an attempt that may have split the votes
    /// with those of other replicas. One of them gets all votes if its next attempt is a round trip ahead of
    /// theirs, so the pauses are spread over more than the duration of the attempt.
    pub(super) fn pause_after_split(&mut self, attempt: Duration) -> Duration {
        let longest = self.longest_pause(FIRST_PAUSE.max(attempt.saturating_mul(2)));
        random::within(&(longest / 4..=longest))
    }

    fn longest_pause(&mut self, first: Duration) -> Duration {
        let longest = first.saturating_mul(1 << self.refusals.min(16)).min(LONGEST_PAUSE);
        self.refusals = self.refusals.saturating_add(1);
        longest
    }

    /// A run begins: the nodes and the holders no longer refuse it.
    pub(super) fn succeeded(&mut self) {
        debug_assert!(self.releases.is_none(), "the lock is acquired");
        debug_assert!(self.queued.is_none(), "the lock is acquired");
        (self.refusals, self.hold_off) = (0, None);
    }

    /// Whether it is time to request the lock for a run that was requested of the fleet. Another replica may
    /// have it, or a run is in progress: the next time is after a pause.
    pub(super) fn is_request_due(&mut self, has_requests: bool, now: Timestamp) -> bool {
        if !has_requests {
            self.requested_at = None;
            return false;
        }
        let is_due = *self.requested_at.get_or_insert(now) <= now;
        if is_due {
            self.requested_at = Some(now + random::within(&REQUEST_PAUSE));
        }
        is_due
    }
}

/// Whether this replica acts on the release of the lock after a refused tick. By default it does not: a
/// tick during a run is missed, and a started tick is done. So a fleet sends no queries when a run ends.
pub(super) fn acts_on_releases(options: &JobOptions) -> bool {
    let waits = options.policy.overlap != Overlap::Skip || options.policy.missed != Missed::Skip;
    waits || options.claim == Claim::AtEnd
}
