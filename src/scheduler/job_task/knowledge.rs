//! What a job's task knows of the fleet: claims as the nodes keep them, checked against the clock and
//! the job's own schedule. Without I/O or a clock.

use std::{sync::Arc, time::Duration};

use super::{
    super::{
        Claim, JobConflict,
        claims::{OwnSchedule, millis},
        fleet::schedule_of,
    },
    env::{Due, JobRecord, MissedTicks, OnDemandSpan},
};
use crate::{
    lock::{claims::JobHistory, obligations::OwedEnd},
    protocol::{FormerClaim, OnDemandRun, ScheduleMark, TickClaim, TickFates, TickRun},
    quorum::claims::LatestClaim,
    schedule::{Schedule, WallTime},
    time::Timestamp,
};

/// Maximum number of remembered future values.
const MAX_FUTURE_VALUES: usize = 16;
/// Maximum number of remembered claims of this replica that started nothing.
const MAX_NEVER_STARTED: usize = 16;

/// What the clocks show when claims are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockReading {
    /// The checked wall clock.
    pub(super) now: WallTime,
    /// Stored times after this come from a wrong clock.
    pub(super) limit: WallTime,
    /// When to store the job's state if too few nodes have it: random, to spread the load.
    pub(super) settle_at: Timestamp,
}

/// What a job's task knows of the fleet.
pub(super) struct FleetKnowledge {
    job: Arc<str>,
    owner: Arc<str>,
    claim: Claim,
    /// The runs of the job, as far as its next step depends on them.
    pub(super) record: JobRecord,
    /// The latest claim.
    pub(super) latest: Option<LatestClaim>,
    /// What the next claim takes over.
    pub(super) fates: TickFates,
    schedule: Schedule,
    pub(super) own_schedule: OwnSchedule,
    /// Stored values that lie in the future, and the times at which they were found.
    future_values: Vec<(Duration, WallTime)>,
    /// Tokens of this replica's latest claims whose runs never started.
    pub(super) never_started: Vec<u64>,
    /// The latest run known to have ended, kept even if the nodes forget it.
    known_end: Option<TickRun>,
    /// Its end, if too few nodes stored it.
    pub(super) owed_end: Option<(TickClaim, Arc<OwedEnd>)>,
    /// The latest tick started here, kept even if the nodes forget it.
    pub(super) own_tick: Option<WallTime>,
    /// The latest tick reported here, kept even if the nodes forget it.
    own_told: Option<WallTime>,
    /// Until when claims were lost, by the latest report of the ticks that were lost by that.
    own_lost_until: Duration,
    /// When to take the lock to store the job's state, or the fates of its ticks, if there is something to
    /// store.
    pub(super) settle_at: Option<Timestamp>,
    /// The lock of the latest run is over, as far as this replica knows, and its end is not stored.
    pub(super) is_lock_over: bool,
}

impl FleetKnowledge {
    /// `kept`: what the nodes keep of the job.
    pub(super) fn new(
        job: &Arc<str>,
        owner: &Arc<str>,
        schedule: &Schedule,
        claim: Claim,
        now: WallTime,
    ) -> Self {
        Self {
            job: Arc::clone(job),
            owner: Arc::clone(owner),
            claim,
            record: JobRecord::new(now),
            latest: None,
            fates: TickFates::default(),
            schedule: schedule.clone(),
            own_schedule: OwnSchedule::new(schedule, None, millis(now), Arc::clone(owner)),
            future_values: Vec::new(),
            never_started: Vec::new(),
            known_end: None,
            owed_end: None,
            own_tick: None,
            own_told: None,
            own_lost_until: Duration::ZERO,
            settle_at: None,
            is_lock_over: false,
        }
    }

    /// Takes over what the nodes keep of the job. Returns the conflict with another replica that it shows.
    pub(super) fn apply(&mut self, kept: JobHistory, clock: &ClockReading) -> Option<JobConflict> {
        let JobHistory { latest, assumed_run_until } = kept;
        let (mut latest, unknown_until) = self.trusted(latest, clock);
        if let Some(latest) = &mut latest {
            self.remember_end(latest, clock);
        }
        let lost_until = WallTime::since_epoch(assumed_run_until);
        let lost_until = (lost_until > WallTime::ZERO).then_some(lost_until);
        let settle_at = self.settle_at;
        let conflict = latest.as_ref().and_then(|latest| self.compare_schedules(latest, clock));
        let run = latest.as_ref().map(|latest| latest.run);
        let tick = run.map(|run| WallTime::since_epoch(run.tick));
        let tick = tick.filter(|tick| *tick > WallTime::ZERO);
        self.own_tick = self.own_tick.filter(|own| *own <= clock.limit);
        self.own_told = self.own_told.filter(|own| *own <= clock.limit);
        self.set_fates(latest.as_ref().map(|latest| latest.fates).unwrap_or_default());
        let record = &mut self.record;
        record.base = WallTime::since_epoch(self.own_schedule.mark.since);
        record.assumed_run_until = lost_until.max(unknown_until);
        record.tick = tick.max(self.own_tick);
        record.attempt = run.map_or(0, |run| run.attempt);
        record.last_end = run.and_then(|run| run.ended).map(WallTime::since_epoch);
        record.unfinished = self.claim == Claim::AtEnd
            && tick.is_some()
            && tick >= record.tick.max(record.assumed_run_until)
            && tick > record.told
            && record.last_end.is_none();
        self.latest = latest;
        self.is_lock_over &= self.has_open_run();
        if self.is_end_unreplicated() && self.owed_end.is_none() && self.settle_at.is_none() {
            self.settle_at = settle_at.or(Some(clock.settle_at));
        }
        self.check();
        conflict
    }

    /// Takes over what was reported, and the latest run on demand. What this replica reported stays reported.
    fn set_fates(&mut self, fates: TickFates) {
        self.fates = fates;
        let own = self.own_told.map_or(Duration::ZERO, millis);
        self.fates.told = fates.told.max(own);
        self.fates.lost_until = fates.lost_until.max(self.own_lost_until);
        let time = WallTime::since_epoch;
        let told = time(self.fates.told);
        self.record.told = (told > WallTime::ZERO).then_some(told);
        self.record.on_demand = fates.on_demand.map(|OnDemandRun { since, ended }| OnDemandSpan {
            since: time(since),
            ended: ended.map(time),
        });
    }

    /// Returns the claim of a run under the job's lock, which takes over what is known of the job.
    pub(super) fn claim_of(&self, token: u64, run: TickRun, owner: Arc<str>) -> TickClaim {
        let before = self.latest.clone().map(LatestClaim::into_former);
        TickClaim::new(token, run, owner, before).with_fates(self.fates)
    }

    /// Records that this replica reports what these fates say.
    pub(super) fn note_told(&mut self, TickFates { told, lost_until, .. }: TickFates) {
        let told = WallTime::since_epoch(told);
        self.own_told = self.own_told.max((told > WallTime::ZERO).then_some(told));
        self.own_lost_until = self.own_lost_until.max(lost_until);
        self.set_fates(self.fates);
    }

    /// Records a run on demand of this replica.
    pub(super) fn note_on_demand(&mut self, run: OnDemandRun) {
        self.set_fates(TickFates { on_demand: Some(run), ..self.fates });
    }

    /// Whether a run is in progress, or was interrupted and not reported, as far as the claims show it.
    pub(super) fn has_open_run(&self) -> bool {
        let is_open = self.latest.as_ref().is_some_and(LatestClaim::is_open);
        is_open || self.record.on_demand.is_some_and(|run| run.ended.is_none())
    }

    /// Whether this replica has reported the fate of a tick, or of a later one, whatever the nodes still know.
    pub(super) fn was_told(&self, tick: WallTime) -> bool {
        self.own_told >= Some(tick)
    }

    fn check(&self) {
        let JobRecord { tick, unfinished, last_end, .. } = &self.record;
        debug_assert!(tick >= &self.own_tick, "a tick that was started here was started");
        debug_assert!(
            !unfinished || (tick.is_some() && last_end.is_none() && self.claim == Claim::AtEnd),
            "only a run without an end is repeated"
        );
        debug_assert!(self.known_end.is_none_or(|run| !run.is_open()), "a known end is an end");
        debug_assert!(self.future_values.len() <= MAX_FUTURE_VALUES);
        debug_assert!(self.never_started.len() <= MAX_NEVER_STARTED);
    }

    /// Keeps a known end, even if the nodes that stored it are gone.
    fn remember_end(&mut self, latest: &mut LatestClaim, clock: &ClockReading) {
        if !latest.run.is_open() {
            self.known_end = Some(latest.run);
        } else if let Some(end) = self.known_end
            && (TickRun { ended: None, ..end }) == latest.run
            && let Some(end) = self.trusted_run(end, clock)
        {
            latest.run = end;
            latest.is_replicated = false;
        }
    }

    /// Replaces stored times that lie more than a minute ahead: an end by the start of its run, a run by the
    /// one before it. The next claim overwrites them. Also returns the time up to which ticks may have run
    /// if nothing more is known.
    fn trusted(
        &mut self,
        latest: Option<LatestClaim>,
        clock: &ClockReading,
    ) -> (Option<LatestClaim>, Option<WallTime>) {
        let Some(latest) = latest else { return (None, None) };
        let schedule = self.trusted_mark(latest.schedule.clone(), clock);
        let fates = self.trusted_fates(latest.fates, clock);
        let before = latest.before.clone().and_then(|before| {
            let run = self.trusted_run(before.run, clock)?;
            let schedule = self.trusted_mark(before.schedule, clock);
            let fates = self.trusted_fates(before.fates, clock);
            Some(FormerClaim { run, schedule, fates, ..before })
        });
        if let Some(run) = self.trusted_run(latest.run, clock) {
            return (Some(LatestClaim { run, before, schedule, fates, ..latest }), None);
        }
        if let Some(before) = before {
            let schedule = before.schedule.or(schedule);
            return (Some(LatestClaim::of_former(FormerClaim { schedule, ..before })), None);
        }
        let run = latest.run;
        let found = self.future_values.iter().find(|of| of.0 == run.tick || of.0 == run.since);
        (None, Some(found.map_or(clock.now, |(_, at)| *at)))
    }

    fn trusted_mark(
        &mut self,
        mark: Option<ScheduleMark>,
        clock: &ClockReading,
    ) -> Option<ScheduleMark> {
        mark.filter(|mark| {
            !self.is_of_future("the moment since which it has its schedule", mark.since, clock)
        })
    }

    fn trusted_fates(&mut self, fates: TickFates, clock: &ClockReading) -> TickFates {
        let mut sane = fates;
        if self.is_of_future("the latest tick that was reported", fates.told, clock) {
            sane.told = Duration::ZERO;
        }
        sane.on_demand = fates.on_demand.filter(|run| {
            !self.is_of_future("the start of the latest run on demand", run.since, clock)
        });
        if let Some(run) = &mut sane.on_demand
            && let Some(end) = run.ended
            && self.is_of_future("the end of the latest run on demand", end, clock)
        {
            run.ended = Some(run.since);
        }
        sane
    }

    fn trusted_run(&mut self, run: TickRun, clock: &ClockReading) -> Option<TickRun> {
        if self.is_of_future("the latest tick", run.tick, clock) {
            return None;
        }
        let mut sane = run;
        if self.is_of_future("the start of the latest run", run.since, clock) {
            if run.tick.is_zero() {
                return None;
            }
            sane.since = run.tick;
        }
        if let Some(end) = run.ended
            && self.is_of_future("the end of the latest run", end, clock)
        {
            sane.ended = Some(sane.since);
        }
        Some(sane)
    }

    fn is_of_future(&mut self, what: &str, value: Duration, clock: &ClockReading) -> bool {
        if WallTime::since_epoch(value) <= clock.limit {
            return false;
        }
        if self.future_values.iter().all(|(of, _)| *of != value) {
            crate::log::warn!(
                job = %self.job,
                what,
                stored_ms = value.as_millis(),
                ahead = ?value.saturating_sub(millis(clock.now)),
                "a stored time of the job lies in the future, and is not counted: the clock of the replica \
                 that stored it was wrong; the next run replaces it"
            );
            push_bounded(&mut self.future_values, (value, clock.now), MAX_FUTURE_VALUES);
        }
        true
    }

    /// Compares the job's schedule with the one that is stored.
    fn compare_schedules(
        &mut self,
        latest: &LatestClaim,
        clock: &ClockReading,
    ) -> Option<JobConflict> {
        let is_known = self.own_schedule.is_known;
        let other = latest
            .schedule
            .as_ref()
            .filter(|stored| !is_known && !stored.has_same_ticks(&self.own_schedule.mark));
        let base = other.map(|stored| millis(self.base_after(latest, stored, clock.now)));
        let own = &mut self.own_schedule;
        let Some(stored) = &latest.schedule else {
            // An earlier version has stored it: presumably for this schedule.
            let run = &latest.run;
            let since = if run.tick.is_zero() { run.since } else { run.tick };
            own.mark.since = own.mark.since.min(since);
            (own.other, self.settle_at) = (None, None);
            return None;
        };
        let Some(conflict) = own.compare(stored, latest, &self.owner) else {
            (own.other, own.is_known, self.settle_at) = (None, true, None);
            return None;
        };
        own.other = Some(stored.clone());
        if !own.is_known {
            own.mark.since = base.map_or(own.mark.since, |base| own.mark.since.min(base));
            self.settle_at.get_or_insert(clock.settle_at);
            return None;
        }
        Some(conflict)
    }

    /// Returns since when the job has its schedule, as that replaces the stored one: since the first tick of the
    /// former schedule that was neither claimed nor reported; or else since its own latest tick, which may have
    /// come during the deployment. If the former schedule cannot be read, since the last tick that was claimed or
    /// reported.
    fn base_after(&self, latest: &LatestClaim, stored: &ScheduleMark, now: WallTime) -> WallTime {
        if self.schedule.is_after_end() {
            return now;
        }
        let LatestClaim { run, fates, .. } = latest;
        // Its ticks before `since` were none of its own.
        let settled = run.tick.max(fates.told).max(stored.since);
        let Some(former) = schedule_of(stored) else {
            return WallTime::since_epoch(settled).min(now);
        };
        // The former schedule was in force when its last tick was run.
        let in_force = settled.max(run.since).max(run.ended.unwrap_or_default());
        let newest = self.schedule.ticks(WallTime::since_epoch(in_force), now).next_back();
        let unsettled = if former.is_after_end() {
            None
        } else {
            former.ticks(WallTime::since_epoch(settled), now).next()
        };
        let before = |tick: WallTime| WallTime::from_millis(tick.as_millis().saturating_sub(1));
        [newest, unsettled].into_iter().flatten().map(before).min().unwrap_or(now)
    }

    /// Records a claim that a majority has stored. Returns the schedule that it replaced, if it did.
    pub(super) fn stored(&mut self, claim: TickClaim) -> Option<ScheduleMark> {
        let TickClaim { run, owner, before, schedule, fates, .. } = claim;
        let (owner, is_replicated) = (Some(owner), true);
        self.latest = Some(LatestClaim { run, owner, before, schedule, fates, is_replicated });
        self.set_fates(fates);
        self.own_schedule.stored()
    }

    /// Records how a run of this replica came out; `None` if it has no end, and may be repeated.
    pub(super) fn ended(&mut self, run: &TickRun, now: Option<WallTime>) {
        let tick = WallTime::since_epoch(run.tick);
        self.own_tick = self.own_tick.max(Some(tick));
        self.record.tick = Some(tick);
        self.record.last_end = now;
        self.record.unfinished = now.is_none() && self.claim == Claim::AtEnd;
        self.record.attempt = run.attempt;
    }

    /// Records the end of a run of this replica, and that it is owed, if no majority has stored it.
    pub(super) fn end_stored(&mut self, end: TickClaim, owed: Option<Arc<OwedEnd>>) {
        assert!(!end.run.is_open(), "an end has a time");
        self.known_end = Some(end.run);
        self.owed_end = owed.map(|owed| (end, owed));
    }

    pub(super) fn note_never_started(&mut self, token: u64) {
        push_bounded(&mut self.never_started, token, MAX_NEVER_STARTED);
    }

    /// Records that a claim of this replica is stored, which replaces those that started nothing.
    pub(super) fn claimed(&mut self) {
        self.never_started.clear();
        self.settle_at = None;
    }

    /// The owner of the latest claim; this replica if it is not known.
    pub(super) fn latest_owner(&self) -> Arc<str> {
        let known = self.latest.as_ref().and_then(|latest| latest.owner.clone());
        known.unwrap_or_else(|| Arc::clone(&self.owner))
    }

    /// Whether fewer than a quorum of nodes know that the latest run has ended: a replica that does not
    /// reach them takes it for an interrupted run.
    pub(super) fn is_end_unreplicated(&self) -> bool {
        let latest = self.latest.as_ref();
        latest.is_some_and(|latest| !latest.run.is_open() && !latest.is_replicated)
    }

    /// Whether the tick is started. `seen`: the record's tick when the tick was due. With a schedule that
    /// counts from the last end (`moves`), the tick moves while it waits.
    pub(super) fn is_started(&self, tick: WallTime, seen: Option<WallTime>, moves: bool) -> bool {
        self.record.tick.max(self.record.assumed_run_until) >= Some(tick)
            || (moves && self.record.tick > seen)
    }

    /// The queued tick among those that seem missed. It is late only once the run that it waits for has
    /// ended. `start`: returns the start of a tick.
    pub(super) fn still_queued(
        &self,
        queued: Option<WallTime>,
        missed: Option<MissedTicks>,
        start: impl FnOnce(WallTime) -> WallTime,
    ) -> Option<Due> {
        let tick = missed?.last;
        let waits = queued.is_some_and(|queued| self.record.tick < Some(queued));
        waits.then(|| Due::Run { tick, start: start(tick), again: false, missed: None })
    }
}

/// Adds a value, in place of the oldest one if there are `most`.
fn push_bounded<T>(values: &mut Vec<T>, value: T, most: usize) {
    if values.len() == most {
        values.remove(0);
    }
    values.push(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u32) -> Duration {
        SECOND * seconds
    }

    fn knowledge(claim: Claim) -> FleetKnowledge {
        let schedule = Schedule::every(10 * SECOND);
        let now = WallTime::since_epoch(at(1_000));
        FleetKnowledge::new(&"j".into(), &"me".into(), &schedule, claim, now)
    }

    /// The clocks at 1,000 s, with a tolerance of a minute.
    fn clock() -> ClockReading {
        let (now, limit) = (WallTime::since_epoch(at(1_000)), WallTime::since_epoch(at(1_060)));
        ClockReading { now, limit, settle_at: Timestamp::ZERO + SECOND }
    }

    fn kept(run: TickRun, before: Option<TickRun>) -> JobHistory {
        let owner = Some("other".into());
        let claim = TickClaim::new(1, run, "other".into(), before.map(Into::into));
        let TickClaim { before, fates, .. } = claim;
        let latest = LatestClaim { run, owner, before, schedule: None, fates, is_replicated: true };
        JobHistory { latest: Some(latest), assumed_run_until: Duration::ZERO }
    }

    #[test]
    fn open_run_repeats_only_at_end() {
        for (claim, repeats) in [(Claim::AtStart, false), (Claim::AtEnd, true)] {
            let mut fleet = knowledge(claim);

            let conflict = fleet.apply(kept(TickRun::new(at(990), 2, at(991)), None), &clock());

            assert_eq!(conflict, None);
            assert_eq!(fleet.record.tick, Some(WallTime::since_epoch(at(990))));
            assert_eq!((fleet.record.unfinished, fleet.record.attempt), (repeats, 2));
        }
    }

    #[test]
    fn known_end_outlives_the_nodes() {
        let run = TickRun::new(at(990), 1, at(991));
        let mut fleet = knowledge(Claim::AtEnd);
        fleet.apply(kept(run.ended(at(992)), None), &clock());
        assert!(!fleet.is_end_unreplicated());

        fleet.apply(kept(run, None), &clock());

        assert_eq!(fleet.record.last_end, Some(WallTime::since_epoch(at(992))));
        assert!(!fleet.record.unfinished && fleet.is_end_unreplicated());
        assert_eq!(fleet.settle_at, Some(clock().settle_at), "the end is stored again");
    }

    #[test]
    fn run_of_the_future_is_replaced() {
        let (future, former) =
            (TickRun::new(at(5_000), 1, at(5_000)), TickRun::new(at(990), 1, at(991)));
        let mut fleet = knowledge(Claim::AtStart);

        fleet.apply(kept(future, Some(former)), &clock());
        assert_eq!(fleet.record.tick, Some(WallTime::since_epoch(at(990))));

        fleet.apply(kept(future, None), &clock());
        let (tick, unknown_until) = (fleet.record.tick, fleet.record.assumed_run_until);
        assert_eq!((tick, unknown_until), (None, Some(clock().now)));
    }

    #[test]
    fn own_tick_outlives_the_nodes() {
        let mut fleet = knowledge(Claim::AtStart);
        fleet.ended(&TickRun::new(at(990), 1, at(991)), Some(clock().now));

        fleet.apply(JobHistory::default(), &clock());

        assert_eq!(fleet.record.tick, Some(WallTime::since_epoch(at(990))));
        assert!(fleet.is_started(WallTime::since_epoch(at(990)), None, false));
        assert!(!fleet.is_started(WallTime::since_epoch(at(1_000)), None, false));
    }
}
