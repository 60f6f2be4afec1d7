//! Under a job's lock: claims the tick, runs it, and stores its end.

use std::{sync::Arc, time::Duration};

use futures_util::future::join;

use super::{
    Claim, JobEventKind, JobState, SkipReason,
    attempts::backoff,
    context::RunInfo,
    driver::{Driver, Purpose, millis},
    fleet::controls,
    policy::{Due, due},
    shared::Phase,
    status::Outcome,
};
use crate::{
    error::LockError,
    guard::{Hold, LockContext},
    lock::{Lock, claims},
    protocol::{TickClaim, TickRun},
    quorum::claims::LatestClaim,
    schedule::WallTime,
    time::Timestamp,
};

/// Maximum number of remembered claims of this replica that started nothing.
const MAX_NEVER_STARTED: usize = 16;
/// Sequence number, under the claim's token, of the entry that replaces it: the end of its run, or
/// the claim before it.
pub(super) const AFTER_CLAIM: u32 = 1;

/// Pause before a stopped run is repeated.
const REPEAT_PAUSE: Duration = Duration::from_secs(1);

impl Driver {
    /// Decides and runs under the job's lock, by the claims that the nodes keep.
    pub(super) async fn locked(&mut self, lock: Lock, purpose: Purpose) {
        let (token, seen) = (lock.fencing_token().get(), self.record.tick);
        let shared = Arc::clone(&self.shared);
        let name = Arc::clone(&self.job.name);
        let prepared = claims::prepare(&shared.redlock, &name, token, &self.never_started);
        let control = controls(&shared.redlock, std::slice::from_ref(&name));
        match join(prepared, control).await {
            (Ok(kept), Ok(mut control)) => {
                self.apply(kept);
                self.job.note_control(control.pop().unwrap_or_default());
            }
            (Err(error), _) | (_, Err(error)) => return self.unavailable(purpose, &error),
        }
        self.note_available();
        if !self.may_start(purpose) {
            return;
        }
        let now = self.shared.now();
        self.give_up(now);
        let known = self.latest.clone();
        let before = known.as_ref().map(|latest| latest.run);
        let this_run = |tick: WallTime, attempt| TickRun::new(millis(tick), attempt, millis(now));
        let (run, info) = match purpose {
            Purpose::Register => {
                let run = match before {
                    None => this_run(WallTime::ZERO, 1),
                    // What was run stays the latest.
                    Some(run) if self.own_schedule.replaces() || self.is_end_unreplicated() => run,
                    Some(_) => return,
                };
                self.claim(token, run, before, purpose).await;
                return;
            }
            Purpose::Request if !self.take_over_request().await => return,
            // A run on demand is no tick: what the nodes keep stays the latest.
            Purpose::Trigger | Purpose::Request => {
                self.report_broken_off(known.as_ref());
                (before, self.info(now, now, now, true))
            }
            Purpose::Tick(_) => {
                let policy = &self.options.policy;
                match due(&self.schedule, &self.job.name, policy, &self.record, now) {
                    Due::Run { tick, start, again, missed } => {
                        let attempt = match before {
                            Some(before) if again => before.attempt.saturating_add(1),
                            _ => 1,
                        };
                        let run = this_run(tick, attempt);
                        if !self.claim(token, run, before, purpose).await {
                            return;
                        }
                        if !self.may_start(purpose) {
                            return self.restore_claim(token, known).await;
                        }
                        self.forget_skipped(tick);
                        if !again {
                            self.report_broken_off(known.as_ref());
                        }
                        self.report_missed(missed);
                        let kind = JobEventKind::Claimed { attempt };
                        self.shared.emit(&self.job, tick, kind);
                        (Some(run), self.info(tick, start, now, false))
                    }
                    Due::Wait { .. } | Due::Never { .. } => {
                        let by = known.and_then(|latest| latest.owner);
                        drop(lock);
                        // Otherwise its time has passed.
                        if self.is_started(purpose, seen) {
                            self.report_skipped(purpose, SkipReason::AlreadyStarted { by });
                        }
                        return;
                    }
                }
            }
        };
        self.refusals = 0;
        self.hold_off = None;
        self.obstacle = None;
        self.run(lock, token, run, known, info).await;
    }

    /// Stores the claim on a majority. Returns false if that fails: nothing may run then.
    async fn claim(
        &mut self,
        token: u64,
        run: TickRun,
        before: Option<TickRun>,
        purpose: Purpose,
    ) -> bool {
        let claim = TickClaim::new(token, run, self.owner_of(purpose), before);
        match self.store(claim).await {
            Ok(()) => {
                self.never_started.clear();
                self.register_at = None;
                true
            }
            Err(error) => {
                self.note_never_started(token);
                self.unavailable(purpose, &error);
                false
            }
        }
    }

    /// Stores a claim on a majority, with the job's schedule.
    pub(super) async fn store(&mut self, claim: TickClaim) -> Result<(), LockError> {
        let claim = claim.by_schedule(self.own_schedule.mark.clone());
        claims::claim(&self.shared.redlock, &self.job.name, claim.clone()).await?;
        let TickClaim { run, owner, before, schedule, .. } = claim;
        let owner = Some(owner);
        self.latest = Some(LatestClaim { run, owner, before, schedule, is_replicated: true });
        self.job.seen(self.latest.as_ref());
        self.schedule_is_stored();
        Ok(())
    }

    /// The owner that a claim names: for a run that stays the latest, the replica that ran it.
    pub(super) fn owner_of(&self, purpose: Purpose) -> Arc<str> {
        let known = self.latest.as_ref().and_then(|latest| latest.owner.clone());
        let known = known.filter(|_| !matches!(purpose, Purpose::Tick(_)));
        known.unwrap_or_else(|| Arc::clone(self.shared.redlock.owner()))
    }

    /// Restores the previous claim after a claim whose run never started.
    async fn restore_claim(&mut self, token: u64, before: Option<LatestClaim>) {
        let base = TickRun::new(Duration::ZERO, 1, millis(self.record.base));
        let run = before.as_ref().map(|latest| latest.run);
        let own = || Arc::clone(self.shared.redlock.owner());
        let owner = before.and_then(|latest| latest.owner).unwrap_or_else(own);
        let claim = TickClaim::new(token, run.unwrap_or(base), owner, run).numbered(AFTER_CLAIM);
        if let Err(error) = self.store(claim).await {
            self.note_never_started(token);
            crate::log::warn!(
                job = %self.job.name,
                %error,
                "a tick that was claimed and not started could not be given back: others take it \
                 for one whose run was broken off"
            );
        }
    }

    /// Runs the work, then stores when it ended. The lock is given back after that.
    async fn run(
        &mut self,
        lock: Lock,
        token: u64,
        run: Option<TickRun>,
        before: Option<LatestClaim>,
        info: RunInfo,
    ) {
        let (tick, triggered) = (info.tick, info.triggered);
        let first_attempt = run.filter(|_| !triggered).map_or(1, |run| run.attempt);
        let begun = self.shared.redlock.now();
        let context = lock.context();
        let Some((outcome, hold)) = self.guarded(lock, info, first_attempt).await else {
            // The lock was over before anything ran.
            if !triggered {
                self.restore_claim(token, before).await;
                let pause = self.pause();
                self.hold_off(Purpose::Tick(tick), pause);
            }
            return;
        };
        let ended = EndedRun { token, tick, triggered, run, before, outcome, first_attempt, begun };
        self.end(ended, hold, &context).await;
    }

    fn note_never_started(&mut self, token: u64) {
        if self.never_started.len() == MAX_NEVER_STARTED {
            self.never_started.remove(0);
        }
        self.never_started.push(token);
    }

    fn info(&self, tick: WallTime, start: WallTime, now: WallTime, triggered: bool) -> RunInfo {
        let late = now.as_millis().saturating_sub(start.as_millis());
        RunInfo {
            job: Arc::clone(&self.job.name),
            tick,
            scheduled: start,
            lateness: Duration::from_millis(late),
            decided: now,
            triggered,
        }
    }

    /// Stores the end of a run, then releases the lock. If the runtime hangs meanwhile, renewals of
    /// the lock stop.
    pub(super) async fn end(&mut self, ended: EndedRun, hold: Option<Hold>, lock: &LockContext) {
        // Slots bound running work, not what follows it.
        self.slot = None;
        self.answer(Ok(ended.outcome.clone()));
        let (shared, limit) = (Arc::clone(&self.shared), self.options.polled_within());
        let rest = async {
            let is_broken_off = self.is_broken_off(&ended.outcome);
            self.store_outcome(&ended, is_broken_off, lock).await;
            if let Some(hold) = hold {
                self.keep_lock(&ended, is_broken_off).await;
                drop(hold);
            }
        };
        shared.keep_polled(lock, limit, rest).await;
    }

    /// Whether the run is to be repeated: such a run gets no end.
    fn is_broken_off(&self, outcome: &Outcome) -> bool {
        self.options.claim == Claim::AtEnd
            && match outcome {
                Outcome::Lost { .. } | Outcome::NotDone { .. } => true,
                // Unless it was stopped for the next tick.
                Outcome::Stopped => !self.stopped_for_next || !self.may_run(),
                _ => false,
            }
    }

    async fn store_outcome(&mut self, ended: &EndedRun, is_broken_off: bool, lock: &LockContext) {
        let EndedRun { token, tick, triggered, run, before, .. } = ended;
        let now = self.shared.now();
        let base = TickRun::new(Duration::ZERO, 1, millis(self.record.base));
        let run = run.unwrap_or(base);
        let ends = if *triggered { !self.record.unfinished } else { !is_broken_off };
        if ends {
            // A triggered run does not change the owner of the tick.
            let purpose = if *triggered { Purpose::Trigger } else { Purpose::Tick(*tick) };
            let (owner, before) =
                (self.owner_of(purpose), before.as_ref().map(|latest| latest.run));
            let end = TickClaim::new(*token, run.ended(millis(now)), owner, before);
            let end = end.numbered(AFTER_CLAIM);
            let is_stored = self.store_end(end.clone(), lock).await;
            // A triggered run has no claim.
            if !triggered {
                self.known_end = Some(end.run);
                self.unstored_end = Some(end).filter(|_| !is_stored);
            }
        }
        self.record.last_end = ends.then_some(now);
        if !triggered {
            self.own_tick = self.own_tick.max(Some(*tick));
            self.record.tick = Some(*tick);
            self.record.unfinished = !ends && self.options.claim == Claim::AtEnd;
            self.record.attempt = run.attempt;
        }
    }

    /// Keeps the lock for `min_hold`, or until the tick may be repeated.
    async fn keep_lock(&mut self, ended: &EndedRun, is_broken_off: bool) {
        let kept_for = self.shared.redlock.now().saturating_duration_since(ended.begun);
        let mut rest = self.options.min_hold.saturating_sub(kept_for);
        if is_broken_off && !ended.triggered {
            rest = rest.max(self.pause_before_repeating(&ended.outcome, ended.first_attempt));
        }
        if !rest.is_zero() {
            tokio::select! {
                biased;
                () = self.shared.sleep(rest) => {}
                _ = self.control.wait_for(|control| control.phase > Phase::Running || !control.leads) => {}
            }
        }
    }

    /// How long to keep the lock of a tick that is to be repeated, so that no replica repeats it
    /// earlier.
    fn pause_before_repeating(&self, outcome: &Outcome, attempt: u32) -> Duration {
        let (reason, pause): (Arc<str>, _) = match outcome {
            Outcome::NotDone { reason } => {
                let pause = backoff(self.options.backoff, attempt.saturating_sub(1));
                (Arc::clone(reason), pause)
            }
            // Its lock was about to end.
            Outcome::Stopped if self.may_run() => ("the run was stopped".into(), REPEAT_PAUSE),
            _ => return Duration::ZERO,
        };
        self.job.set_state(JobState::BackingOff { reason });
        pause
    }

    /// Stores the end of a run on a majority, with retries while the lock is held: until then no
    /// other replica takes the run for a broken-off one. Returns whether it is stored.
    async fn store_end(&mut self, end: TickClaim, lock: &LockContext) -> bool {
        loop {
            let Err(error) = self.store(end.clone()).await else { return true };
            if lock.ensure_valid().is_err() || self.shared.control().phase >= Phase::Stopped {
                crate::log::warn!(
                    job = %self.job.name,
                    %error,
                    "the end of a run is not stored: others take it for one that was broken off"
                );
                return false;
            }
            let pause = self.pause();
            tokio::select! {
                biased;
                () = self.shared.sleep(pause) => {}
                _ = self.control.wait_for(|control| control.phase >= Phase::Stopped) => {}
            }
        }
    }

    /// Stores an end that could not be stored under the lock, once enough nodes answer. If they
    /// refuse it, a claim may be under way: it is stored under a lock of its own then.
    ///
    /// # Errors
    ///
    /// The nodes can't be queried.
    pub(super) async fn store_end_late(&mut self) -> Result<(), LockError> {
        let Some(end) = self.unstored_end.clone() else { return Ok(()) };
        self.sync().await?;
        self.unstored_end = None;
        let is_latest = self.latest.as_ref().is_some_and(|latest| latest.run == end.run);
        if is_latest {
            match self.store(end).await {
                Ok(()) => {
                    crate::log::info!(job = %self.job.name, "the end of the run is stored after all");
                }
                Err(_) => self.register_at = Some(self.register_time()),
            }
        }
        Ok(())
    }

    /// Whether fewer than a quorum of nodes know that the latest run has ended: a replica that does
    /// not reach them takes it for a broken-off run.
    pub(super) fn is_end_unreplicated(&self) -> bool {
        let latest = self.latest.as_ref();
        latest.is_some_and(|latest| !latest.run.is_open() && !latest.is_replicated)
    }
}

/// A run that has ended, and what it was claimed with.
pub(super) struct EndedRun {
    pub(super) token: u64,
    pub(super) tick: WallTime,
    pub(super) triggered: bool,
    pub(super) run: Option<TickRun>,
    pub(super) before: Option<LatestClaim>,
    pub(super) outcome: Outcome,
    pub(super) first_attempt: u32,
    pub(super) begun: Timestamp,
}
