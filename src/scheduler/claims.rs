//! The parts of claims that a job's task and a single tick use alike.

use std::{sync::Arc, time::Duration};

use super::JobConflict;
use crate::{
    hash::fnv,
    protocol::ScheduleMark,
    quorum::claims::LatestClaim,
    schedule::{Schedule, WallTime},
};

/// Sequence number, under the claim's token, of the entry that replaces it: the end of its run, or
/// the claim before it.
pub(super) const AFTER_CLAIM: u32 = 1;

/// A time as claims have it.
pub(super) fn millis(time: WallTime) -> Duration {
    Duration::from_millis(time.as_millis())
}

/// Returns the hash of a schedule's text, and of what runs at its ticks.
fn fingerprint(schedule: &str, work: Option<&str>) -> u64 {
    let of_both = work.map(|work| fnv(&format!("{schedule}\n{work}")));
    // Above zero: zero means none.
    of_both.unwrap_or_else(|| fnv(schedule)).max(1)
}

/// The job's schedule on this replica, and the stored one.
#[derive(Debug)]
pub(super) struct OwnSchedule {
    /// As this replica stores it. It counts since the earliest moment at which it was known.
    pub(super) mark: ScheduleMark,
    /// A replica has stored it.
    pub(super) is_known: bool,
    /// Another schedule that is stored in its place.
    pub(super) other: Option<ScheduleMark>,
}

impl OwnSchedule {
    /// Counts from now until an earlier start is known. `work` identifies what runs at the ticks, where that
    /// is known.
    pub(super) fn new(
        schedule: &Schedule,
        work: Option<&str>,
        now: Duration,
        owner: Arc<str>,
    ) -> Self {
        let text = schedule.fingerprint_text();
        let fingerprint = fingerprint(&text, work);
        let mark =
            ScheduleMark::new(fingerprint, now, owner).described(&text, schedule.zone_database());
        Self { mark, is_known: false, other: None }
    }

    /// Returns the conflict with a program that has run a tick of this one by a stored mark, unless both may
    /// be the same.
    pub(super) fn conflict(&self, latest: &LatestClaim) -> Option<JobConflict> {
        let stored =
            latest.schedule.as_ref().filter(|it| it.fingerprint != self.mark.fingerprint)?;
        // Of an earlier version, and of a long text, only the fingerprint is known.
        let (own_text, other) = (self.mark.text.as_deref()?, stored.text.as_ref()?);
        let by = Arc::clone(latest.owner.as_ref().unwrap_or(&stored.owner));
        if **other != *own_text {
            return Some(JobConflict::Schedule { by, other: Some(Arc::clone(other)) });
        }
        // A request without such an id says only its schedule.
        let of_schedule = fingerprint(own_text, None);
        let is_known = ![stored.fingerprint, self.mark.fingerprint].contains(&of_schedule);
        is_known.then_some(JobConflict::Work { by })
    }

    /// Whether it replaces the stored one and has not been stored yet.
    pub(super) fn replaces(&self) -> bool {
        self.other.is_some() && !self.is_known
    }

    /// Compares it with a stored mark. If that has the same schedule, takes over since when the job has it,
    /// and by whom. `owner`: the owner name of this replica.
    pub(super) fn compare(
        &mut self,
        stored: &ScheduleMark,
        latest: &LatestClaim,
        owner: &str,
    ) -> Option<JobConflict> {
        if !stored.has_same_ticks(&self.mark) {
            let (by, other) = (Arc::clone(&stored.owner), stored.text.clone());
            return Some(JobConflict::Schedule { by, other });
        }
        self.mark.adopt(stored);
        debug_assert!(self.mark.since <= stored.since, "a schedule counts from its first start");
        let (own, other) = (self.mark.zones.clone()?, stored.zones.clone()?);
        // A replica that stores its schedule leaves the claim to the one that ran the tick.
        let by = latest.owner.clone().filter(|by| **by != *owner);
        let by = by.unwrap_or_else(|| "another replica".into());
        (own != other).then_some(JobConflict::ZoneDatabase { by, own, other })
    }

    /// Records that a claim with it is stored. Returns the schedule that it replaced, if it did.
    pub(super) fn stored(&mut self) -> Option<ScheduleMark> {
        let replaced = self.other.take().filter(|_| !self.is_known);
        self.is_known = true;
        debug_assert!(!self.replaces(), "a schedule replaces another one once");
        replaced
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{FormerClaim, TickRun};

    const TICK: Duration = Duration::from_secs(7_200);

    fn own(period: u64, work: Option<&str>) -> OwnSchedule {
        OwnSchedule::new(&Schedule::every(Duration::from_secs(period)), work, TICK, "me".into())
    }

    /// The latest run of a job, by the schedule and the work of another program.
    fn latest(mark: ScheduleMark) -> LatestClaim {
        let run = FormerClaim::from(TickRun::new(TICK, 1, TICK));
        let (owner, schedule) = (Some("other".into()), Some(mark));
        LatestClaim::of_former(FormerClaim { owner, schedule, ..run })
    }

    #[test]
    fn schedulers_compare_ticks_only() {
        let cron = own(60, Some("./sync eu")).mark;
        let mut scheduler = own(60, None);

        assert_eq!(scheduler.compare(&cron, &latest(cron.clone()), "me"), None);
        assert!(own(90, None).compare(&cron, &latest(cron.clone()), "me").is_some());
    }

    #[test]
    fn unknown_schedule_is_no_conflict() {
        let other = own(60, Some("./sync eu")).mark;
        let unknown = ScheduleMark { text: None, ..other.clone() };
        let conflict = |own: OwnSchedule, stored| own.conflict(&latest(stored));

        assert!(matches!(
            conflict(own(60, Some("./sync us")), other.clone()),
            Some(JobConflict::Work { by }) if &*by == "other"
        ));
        assert!(conflict(own(90, Some("./sync us")), other.clone()).is_some());
        assert_eq!(conflict(own(60, Some("./sync eu")), other.clone()), None);
        assert_eq!(conflict(own(60, None), other), None, "it says only its schedule");
        assert_eq!(conflict(own(60, Some("./sync us")), unknown), None);
    }
}
