//! The third phase, under the job's lock: decides by the claims that the nodes keep, and claims the tick.

use std::{sync::Arc, time::Duration};

use futures_util::future::join4;

use super::{
    super::{
        Claim, JobEventKind, SkipReason,
        claims::{AFTER_CLAIM, millis},
        context::RunInfo,
        fleet::{JobRun, JobRuns, controls},
    },
    acquire::{Acquired, RunLocks, RunSlot},
    env::{Due, Purpose},
    findings::Findings,
    reports::{log_cut_off, report_interrupted_beside},
    task::JobTask,
};
use crate::{
    error::{LockError, ServerText},
    lock::{Lock, claims},
    protocol::{OnDemandRun, TickClaim, TickRun},
    quorum::claims::LatestClaim,
    schedule::WallTime,
};

/// A run that may begin: its tick is claimed, or it is one on demand.
pub(super) struct ClaimedRun {
    pub(super) locks: RunLocks,
    pub(super) slot: RunSlot,
    pub(super) info: RunInfo,
    /// The claimed run. For a run on demand, the latest claimed run, unchanged.
    pub(super) run: TickRun,
    /// The latest claim before.
    pub(super) before: Option<LatestClaim>,
}

impl JobTask {
    /// Decides what runs, and claims it. Returns `None` if nothing runs.
    pub(super) async fn claim(&mut self, acquired: Acquired) -> Option<ClaimedRun> {
        let Acquired { locks, slot, purpose, seen } = acquired;
        let token = locks.token();
        if let Err(error) = self.read_under_lock(token, purpose).await {
            self.unavailable(purpose, &error);
            return None;
        }
        self.reports.note_available(&self.env);
        if !self.may_start(purpose) {
            return None;
        }
        let now = self.env.now();
        let before = self.fleet.latest.clone();
        let (info, run) = match purpose {
            Purpose::Settle => {
                let findings = self.find_ends(now);
                self.settle(token, now, findings).await;
                return None;
            }
            Purpose::Request if !self.take_over_request().await => return None,
            Purpose::Trigger | Purpose::Request => {
                self.claim_on_demand(token, now, purpose).await;
                (self.info(now, now, now), self.latest_run())
            }
            Purpose::Tick(_) => match self.claim_tick(token, now, purpose, seen).await {
                Ok(claimed) => claimed,
                Err(unstarted) => {
                    if let Some(claim) = unstarted {
                        self.give_back(Some(locks.into_job_lock()), claim).await;
                    }
                    return None;
                }
            },
        };
        self.waits.succeeded();
        self.reports.obstacle = None;
        let is_tick = info.trigger.is_none();
        debug_assert_eq!(is_tick, matches!(purpose, Purpose::Tick(_)));
        debug_assert!(!is_tick || run.is_open(), "a run has no end before it begins");
        Some(ClaimedRun { locks, slot, info, run, before })
    }

    /// Claims the tick that is due.
    ///
    /// # Errors
    ///
    /// Nothing is due, or nothing may start: the claim to restore, if the tick is claimed.
    async fn claim_tick(
        &mut self,
        token: u64,
        now: WallTime,
        purpose: Purpose,
        seen: Option<WallTime>,
    ) -> Result<(RunInfo, TickRun), Option<TickClaim>> {
        let before = self.fleet.latest.clone();
        let mut findings = self.find_ends(now);
        let Due::Run { tick, start, again, missed } = self.env.due(&self.fleet.record, now) else {
            // Otherwise its time has passed.
            if self.is_started(purpose, seen) && findings.is_empty() {
                let reason =
                    SkipReason::AlreadyStarted { by: before.and_then(|latest| latest.owner) };
                self.reports.skipped(&self.env, &self.fleet.record, purpose, reason);
            }
            self.settle(token, now, findings).await;
            return Err(None);
        };
        self.find_missed(&mut findings, missed);
        let previous = before.as_ref().map(|latest| latest.run);
        let repeated = previous.filter(|_| again);
        let attempt = repeated.map_or(1, |run| run.attempt.saturating_add(1));
        let run = TickRun::new(millis(tick), attempt, millis(now));
        debug_assert!(attempt >= 1, "attempts count from 1");
        debug_assert!(
            repeated.is_none_or(|run| WallTime::since_epoch(run.tick) == tick),
            "a tick is repeated under its name"
        );
        if !self.store_claim(token, run, findings, purpose).await {
            return Err(None);
        }
        self.note_interrupted(token, before.as_ref()).await;
        if !self.may_start(purpose) {
            return Err(Some(self.claim_before(token, before)));
        }
        self.reports.forget_skipped(&self.env, &self.fleet.record, tick);
        self.env.emit(tick, JobEventKind::Claimed { attempt });
        Ok((self.info(tick, start, now), run))
    }

    /// Stores that a run on demand begins. The latest run of a tick stays the latest one.
    async fn claim_on_demand(&mut self, token: u64, now: WallTime, purpose: Purpose) {
        let before = self.fleet.latest.clone();
        let findings = self.find_ends(now);
        self.fleet.note_on_demand(OnDemandRun { since: millis(now), ended: None });
        // Without a majority it runs nevertheless: a request is removed already, and the lock is held.
        self.store_claim(token, self.latest_run(), findings, purpose).await;
        self.note_interrupted(token, before.as_ref()).await;
    }

    /// The latest run of a tick; one without a tick if there is none.
    fn latest_run(&self) -> TickRun {
        let none = TickRun::new(Duration::ZERO, 1, millis(self.fleet.record.base));
        self.fleet.latest.as_ref().map_or(none, |latest| latest.run)
    }

    /// Reads the claims, the control and the history at once: that takes no longer than one of them. From then
    /// on, the nodes accept no claim of an earlier token.
    async fn read_under_lock(&mut self, token: u64, purpose: Purpose) -> Result<(), LockError> {
        let (redlock, job) = (&self.env.redlock, &self.env.job);
        let prepared = claims::prepare(redlock, &job.name, token, &self.fleet.never_started);
        let control = controls(redlock, std::slice::from_ref(&job.name));
        let history = async {
            if purpose == Purpose::Settle {
                return None;
            }
            Some(JobRuns::read(redlock, &job.name, token).await)
        };
        let (prepared, control, history, ()) =
            join4(prepared, control, history, self.read_slots()).await;
        if let Some(history) = history {
            self.history.note_read(&self.env, token, history);
        }
        let (kept, mut control) = (prepared?, control?);
        self.apply(kept);
        self.env.job.note_control(control.pop().unwrap_or_default());
        Ok(())
    }

    /// Stores what is not stored on a majority: the job's schedule, an end, and that this replica reports
    /// ticks which do not run.
    async fn settle(&mut self, token: u64, now: WallTime, mut findings: Findings) {
        let before = self.fleet.latest.clone();
        // Otherwise the replica that claims the tick reports them, or they are reported after the pause.
        if let due @ (Due::Wait { .. } | Due::Never { .. }) = self.env.due(&self.fleet.record, now)
            && self.env.job.pause_at(now).is_none()
        {
            self.find_missed(&mut findings, due.missed());
        }
        let cut_off = self.fleet.fates.on_demand.filter(|run| run.ended.is_none());
        let is_needed = before.is_none()
            || self.fleet.own_schedule.replaces()
            || self.fleet.is_end_unreplicated()
            || cut_off.is_some()
            || !self.unreported.is_empty()
            || !findings.is_empty();
        self.fleet.is_lock_over = false;
        if !is_needed {
            return;
        }
        if let Some(run) = cut_off {
            self.fleet.note_on_demand(OnDemandRun { ended: Some(run.since), ..run });
        }
        let run = before.as_ref().map_or(TickRun::new(Duration::ZERO, 1, millis(now)), |it| it.run);
        let is_cut_off = cut_off.is_some() || findings.has_interrupted();
        if self.store_claim(token, run, findings, Purpose::Settle).await && is_cut_off {
            let history = JobRuns::read(&self.env.redlock, &self.env.job.name, token).await;
            self.history.note_read(&self.env, token, history);
            self.note_interrupted(token, before.as_ref()).await;
        }
    }

    /// Enters the runs that were interrupted into the history, under the job's lock, and reports those that no
    /// claim shows. Logs attempts at a tick that is repeated, or given up after the last one.
    async fn note_interrupted(&mut self, token: u64, latest: Option<&LatestClaim>) {
        let lanes = self.lanes.clone();
        if let Some(lanes) = &lanes {
            self.history.add_unstored(lanes.take_unstored());
        }
        let owner = Arc::clone(self.env.redlock.owner());
        let is_alive =
            |run: &JobRun| lanes.as_ref().is_some_and(|lanes| lanes.is_alive(run, &owner));
        let found = self.history.enter_interrupted(&self.env, token, latest, is_alive).await;
        for run in found {
            if run.trigger.is_some() || lanes.is_some() {
                report_interrupted_beside(&self.env, run);
            } else if self.env.options.claim == Claim::AtEnd {
                log_cut_off(&self.env, &run);
            }
        }
    }

    /// Stores a claim on a majority, then reports what was found. Returns false if that fails: no tick may run
    /// then, and nothing is reported.
    async fn store_claim(
        &mut self,
        token: u64,
        run: TickRun,
        findings: Findings,
        purpose: Purpose,
    ) -> bool {
        let is_tick = matches!(purpose, Purpose::Tick(_));
        let counted = self.take_counted();
        let mut claim = self.fleet.claim_of(token, run, self.owner_of_run(is_tick));
        claim.fates = findings.add_to(claim.fates, token);
        match self.store(claim).await {
            Ok(()) => {
                self.fleet.claimed();
                for counted in counted {
                    self.report(counted.findings);
                }
                self.report(findings);
                // Earlier claims can't count any more.
                self.unreported.clear();
                true
            }
            Err(error) => {
                if is_tick {
                    self.fleet.note_never_started(token);
                }
                self.keep_unreported(token, findings, counted);
                if matches!(purpose, Purpose::Tick(_) | Purpose::Settle) {
                    self.unclaimed(purpose, &error);
                }
                false
            }
        }
    }

    /// Stores a claim on a majority, with the job's schedule.
    pub(super) async fn store(&mut self, claim: TickClaim) -> Result<(), LockError> {
        let claim = claim.by_schedule(self.fleet.own_schedule.mark.clone());
        claims::claim(&self.env.redlock, &self.env.job.name, claim.clone()).await?;
        self.stored(claim);
        Ok(())
    }

    /// Records that a majority has stored a claim, with the job's schedule.
    pub(super) fn stored(&mut self, claim: TickClaim) {
        let replaced = self.fleet.stored(claim);
        self.env.job.seen(self.fleet.latest.as_ref());
        let (job, own) = (&self.env.job.name, &self.fleet.own_schedule.mark);
        match replaced {
            Some(replaced) if replaced.has_same_ticks(own) => crate::log::info!(
                %job,
                former = replaced.zones.as_deref().unwrap_or_default(),
                now = own.zones.as_deref().unwrap_or_default(),
                "the job's ticks follow another version of the time zone database than before"
            ),
            Some(replaced) => crate::log::info!(
                %job,
                schedule = %self.env.schedule,
                by = %self.env.redlock.owner(),
                since_ms = own.since.as_millis(),
                former = %ServerText(&replaced.owner),
                "the job has another schedule than before: earlier ticks are none of its own"
            ),
            None => {}
        }
    }

    /// The owner that a claim names. Where the run is not a tick of this replica, the claim repeats the
    /// latest run, with the replica that ran it.
    pub(super) fn owner_of_run(&self, is_tick: bool) -> Arc<str> {
        if is_tick { Arc::clone(self.env.redlock.owner()) } else { self.fleet.latest_owner() }
    }

    /// The previous claim, in the place of a claim whose run never started.
    pub(super) fn claim_before(&self, token: u64, before: Option<LatestClaim>) -> TickClaim {
        let base = TickRun::new(Duration::ZERO, 1, millis(self.fleet.record.base));
        let run = before.as_ref().map_or(base, |latest| latest.run);
        let owner = before.as_ref().and_then(|latest| latest.owner.clone());
        let owner = owner.unwrap_or_else(|| Arc::clone(self.env.redlock.owner()));
        TickClaim::new(token, run, owner, before.map(LatestClaim::into_former))
            .with_fates(self.fleet.fates)
            .by_schedule(self.fleet.own_schedule.mark.clone())
            .numbered(AFTER_CLAIM)
    }

    /// Gives a tick back whose run never started. The lock is kept until that is stored, so that no other
    /// replica takes it for an interrupted run.
    pub(super) async fn give_back(&mut self, lock: Option<Lock>, claim: TickClaim) {
        let redlock = &self.env.redlock;
        let owed = redlock.owe_run(lock, &self.env.job.name, claim.clone());
        match owed.stored_within(redlock.node_timeout() * 10).await {
            Ok(()) => self.stored(claim),
            // Until it is stored, this replica reads the claim as one that was never made.
            Err(_) => self.fleet.note_never_started(claim.token),
        }
    }

    fn info(&self, tick: WallTime, start: WallTime, now: WallTime) -> RunInfo {
        let late = now.as_millis().saturating_sub(start.as_millis());
        RunInfo {
            job: Arc::clone(&self.env.job.name),
            tick,
            scheduled: start,
            lateness: Duration::from_millis(late),
            decided: now,
            trigger: self.env.job.trigger(),
        }
    }
}
