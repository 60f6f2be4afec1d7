//! What a job's task knows of the fleet: claims read from the nodes, checked against the clock and
//! the job's own schedule.

use std::{sync::Arc, time::Duration};

use super::{
    Claim, JobConflict,
    driver::{Driver, millis},
    policy::{Due, due},
};
use crate::{
    error::{LockError, ServerText},
    hash::fnv,
    lock::claims::{self, JobHistory},
    protocol::{ScheduleMark, TickRun},
    quorum::claims::LatestClaim,
    random,
    schedule::{Schedule, WallTime},
    time::Timestamp,
};

/// Maximum number of remembered future values.
const MAX_REMEMBERED: usize = 16;

/// A stored value that lies in the future, and the time at which it was found.
pub(super) type FutureValue = (Duration, WallTime);

/// Maximum delay before a new job or schedule is stored; random, to spread the load.
const REGISTER_WITHIN: Duration = Duration::from_secs(5);

/// A job's next step, as far as it is known.
pub(super) struct NextStep {
    pub(super) due: Due,
    /// Why the nodes could not be queried for missed ticks and broken-off runs.
    pub(super) unknown: Option<LockError>,
}

impl Driver {
    /// Returns the job's next step. Other replicas may have run ticks that seem missed, while this
    /// one was paused, stood by or did not reach the nodes: ticks count as missed only after a
    /// query.
    pub(super) async fn next(&mut self, now: WallTime) -> NextStep {
        let mut unknown = self.store_end_late().await.err();
        let limit = self.shared.wall_timer.limit();
        if self.record.tick.max(self.record.last_end) > Some(limit) {
            // The clock was set back: times that it showed before are not waited for.
            let _ = self.sync().await;
        }
        let mut due = self.due(now);
        let (Due::Wait { missed, .. } | Due::Never { missed }) = due else {
            return NextStep { due, unknown };
        };
        if let Some(queued) = self.still_queued(missed) {
            return NextStep { due: queued, unknown };
        }
        if missed.is_some_and(|missed| self.is_news(missed)) {
            match self.sync().await {
                Ok(()) => {
                    due = self.due(now);
                    // A replica that reaches other nodes may take a claim that a minority keeps for
                    // the latest, and repeat its tick. What is stored under the lock excludes that.
                    if self.is_end_unreplicated() {
                        due = due.without_missed();
                    }
                }
                Err(error) => {
                    due = due.without_missed();
                    unknown = Some(error);
                }
            }
        }
        NextStep { due, unknown }
    }

    fn due(&mut self, now: WallTime) -> Due {
        self.give_up(now);
        due(&self.schedule, &self.job.name, &self.options.policy, &self.record, now)
    }

    /// Reads the job's claims from the nodes. Keeps the known state on an error.
    pub(super) async fn sync(&mut self) -> Result<(), LockError> {
        let job = std::slice::from_ref(&self.job.name);
        let kept = claims::read(&self.shared.redlock, job, &self.never_started).await?;
        self.note_answered();
        if let Some(kept) = kept.into_iter().next() {
            self.apply(kept);
        }
        Ok(())
    }

    /// Keeps a known end, even if the nodes that stored it are gone.
    fn remember_end(&mut self, latest: &mut LatestClaim) {
        if !latest.run.is_open() {
            self.known_end = Some(latest.run);
        } else if let Some(end) = self.known_end
            && (TickRun { ended: None, ..end }) == latest.run
            && let Some(end) = self.trusted_run(end)
        {
            latest.run = end;
            latest.is_replicated = false;
        }
    }

    pub(super) fn apply(&mut self, kept: JobHistory) {
        let JobHistory { latest, burnt } = kept;
        let TrustedClaims { mut latest, unknown_until } = self.trusted(latest);
        if let Some(latest) = &mut latest {
            self.remember_end(latest);
        }
        let burnt = WallTime::since_epoch(burnt);
        let burnt = (burnt > WallTime::ZERO).then_some(burnt);
        let register_at = self.register_at;
        if let Some(latest) = &latest {
            self.compare_schedules(latest);
        }
        let run = latest.as_ref().map(|latest| latest.run);
        let tick = run.map(|run| WallTime::since_epoch(run.tick));
        let tick = tick.filter(|tick| *tick > WallTime::ZERO);
        let limit = self.shared.wall_timer.limit();
        self.own_tick = self.own_tick.filter(|own| *own <= limit);
        self.record.base = WallTime::since_epoch(self.own_schedule.mark.since);
        self.record.burnt = burnt.max(unknown_until);
        self.record.tick = tick.max(self.own_tick);
        self.record.attempt = run.map_or(0, |run| run.attempt);
        self.record.last_end = run.and_then(|run| run.ended).map(WallTime::since_epoch);
        self.record.unfinished = self.options.claim == Claim::AtEnd
            && tick.is_some()
            && tick >= self.record.tick.max(self.record.burnt)
            && self.record.last_end.is_none();
        self.latest = latest;
        self.job.seen(self.latest.as_ref());
        if self.is_end_unreplicated() && self.unstored_end.is_none() && self.register_at.is_none() {
            self.register_at = register_at.or_else(|| Some(self.register_time()));
        }
    }

    /// Replaces stored times that lie more than a minute ahead: an end by the start of its run, a
    /// run by the one before it. The next claim overwrites them.
    pub(super) fn trusted(&mut self, latest: Option<LatestClaim>) -> TrustedClaims {
        let Some(latest) = latest else { return TrustedClaims::default() };
        let schedule = latest.schedule.clone().filter(|mark: &ScheduleMark| {
            !self.is_of_future("the moment since which it has its schedule", mark.since)
        });
        let before = latest.before.and_then(|run| self.trusted_run(run));
        if let Some(run) = self.trusted_run(latest.run) {
            let latest = Some(LatestClaim { run, before, schedule, ..latest });
            return TrustedClaims { latest, unknown_until: None };
        }
        if let Some(run) = before {
            let is_replicated = false;
            let latest =
                Some(LatestClaim { run, owner: None, before: None, schedule, is_replicated });
            return TrustedClaims { latest, unknown_until: None };
        }
        // Ticks up to now may have run.
        let run = latest.run;
        let is_of_run = |of: &&FutureValue| of.0 == run.tick || of.0 == run.since;
        let found = self.future_values.iter().find(is_of_run).map(|(_, at)| *at);
        TrustedClaims {
            latest: None,
            unknown_until: Some(found.unwrap_or_else(|| self.shared.now())),
        }
    }

    pub(super) fn trusted_run(&mut self, run: TickRun) -> Option<TickRun> {
        if self.is_of_future("the latest tick", run.tick) {
            return None;
        }
        let mut sane = run;
        if self.is_of_future("the start of the latest run", run.since) {
            if run.tick.is_zero() {
                return None;
            }
            sane.since = run.tick;
        }
        if let Some(end) = run.ended
            && self.is_of_future("the end of the latest run", end)
        {
            sane.ended = Some(sane.since);
        }
        Some(sane)
    }

    fn is_of_future(&mut self, what: &str, value: Duration) -> bool {
        if WallTime::since_epoch(value) <= self.shared.wall_timer.limit() {
            return false;
        }
        if self.future_values.iter().all(|(of, _)| *of != value) {
            let now = self.shared.now();
            let ahead = value.saturating_sub(millis(now));
            crate::log::warn!(
                job = %self.job.name,
                what,
                stored_ms = value.as_millis(),
                ?ahead,
                "what is stored of the job lies in the future, and is not counted: the clock of the \
                 replica that stored it was wrong; the next run stores it anew"
            );
            if self.future_values.len() == MAX_REMEMBERED {
                self.future_values.remove(0);
            }
            self.future_values.push((value, now));
        }
        true
    }

    /// Compares the job's schedule with the one that is stored.
    pub(super) fn compare_schedules(&mut self, latest: &LatestClaim) {
        if latest.owner.is_none() && latest.schedule.is_none() {
            // A claim restored after a failed one: it carries no schedule.
            return;
        }
        let own = &mut self.own_schedule;
        own.other = None;
        let Some(stored) = &latest.schedule else {
            // Stored by an earlier version: presumably by this schedule.
            let run = &latest.run;
            let since = if run.tick.is_zero() { run.since } else { run.tick };
            own.mark.since = own.mark.since.min(since);
            self.register_at = None;
            return;
        };
        let conflict = if stored.fingerprint == own.mark.fingerprint {
            own.mark.adopt(stored);
            zone_conflict(&own.mark, latest, self.shared.redlock.owner())
        } else {
            let (by, other) = (Arc::clone(&stored.owner), stored.text.clone());
            Some(JobConflict::Schedule { by, other })
        };
        let Some(conflict) = conflict else {
            own.is_known = true;
            self.register_at = None;
            return;
        };
        own.other = Some(stored.clone());
        if own.is_known {
            self.shared.report_conflict(&self.job, conflict);
        } else if self.register_at.is_none() {
            self.register_at = Some(self.register_time());
        }
    }

    /// A random time within [`REGISTER_WITHIN`] at which to store the job's state.
    pub(super) fn register_time(&self) -> Timestamp {
        let delay = random::within(&(Duration::ZERO..=REGISTER_WITHIN));
        self.shared.redlock.now() + delay
    }

    /// Records that a claim with the job's schedule is stored.
    pub(super) fn schedule_is_stored(&mut self) {
        let own = &mut self.own_schedule;
        let (replaced, was_known) = (own.other.take(), own.is_known);
        own.is_known = true;
        let Some(replaced) = replaced.filter(|_| !was_known) else { return };
        if replaced.fingerprint == own.mark.fingerprint {
            crate::log::info!(
                job = %self.job.name,
                former = replaced.zones.as_deref().unwrap_or_default(),
                now = own.mark.zones.as_deref().unwrap_or_default(),
                "the job's ticks follow another version of the time zone database than before"
            );
        } else {
            crate::log::info!(
                job = %self.job.name,
                schedule = %self.schedule,
                by = %self.shared.redlock.owner(),
                since_ms = self.own_schedule.mark.since.as_millis(),
                former = %ServerText(&replaced.owner),
                "the job has another schedule than before: earlier ticks are none of its own"
            );
        }
    }
}

/// The claims of a job without times that lie in the future.
#[derive(Default)]
pub(super) struct TrustedClaims {
    pub(super) latest: Option<LatestClaim>,
    /// The job ran before this; nothing more is known.
    pub(super) unknown_until: Option<WallTime>,
}

/// The job's schedule on this replica, and the stored one.
#[derive(Debug)]
pub(super) struct OwnSchedule {
    /// As this replica stores it. It counts since the earliest moment at which it was known.
    pub(super) mark: ScheduleMark,
    /// Some replica has stored it.
    is_known: bool,
    /// Another schedule that is stored in its place.
    other: Option<ScheduleMark>,
}

impl OwnSchedule {
    /// Counts from now until an earlier start is known.
    pub(super) fn new(schedule: &Schedule, now: Duration, owner: Arc<str>) -> Self {
        let text = schedule.fingerprint_text();
        // Above zero: zero means none.
        let mark = ScheduleMark::new(fnv(&text).max(1), now, owner)
            .described(&text, schedule.zone_database());
        Self { mark, is_known: false, other: None }
    }

    /// Whether it replaces the stored one and is to be stored once.
    pub(super) fn replaces(&self) -> bool {
        self.other.is_some() && !self.is_known
    }
}

/// Returns the conflict if the author of the stored mark, of the same schedule, has another version of
/// the time zone database.
/// `owner`: that of this replica.
pub(super) fn zone_conflict(
    mark: &ScheduleMark,
    latest: &LatestClaim,
    owner: &str,
) -> Option<JobConflict> {
    let (own, other) = (mark.zones.clone()?, latest.schedule.as_ref()?.zones.clone()?);
    // A replica that stores its schedule leaves the claim to the one that ran the tick.
    let by = latest.owner.clone().filter(|by| **by != *owner);
    let by = by.unwrap_or_else(|| "another replica".into());
    (own != other).then_some(JobConflict::ZoneDatabase { by, own, other })
}
