//! Under a job's lock: claims the tick and runs it.

use std::{sync::Arc, time::Duration};

use futures_util::future::join3;

use super::{
    JobEventKind, SkipReason,
    context::RunInfo,
    driver::{Driver, Purpose, millis},
    end::EndedRun,
    fleet::{JobRun, JobRunResult, controls},
    policy::{Due, due},
    run::GuardedEnd,
};
use crate::{
    error::LockError,
    lock::{Lock, claims, documents},
    protocol::{JobDocument, TickClaim, TickRun},
    quorum::claims::LatestClaim,
    schedule::WallTime,
};

/// Maximum number of remembered claims of this replica that started nothing.
const MAX_NEVER_STARTED: usize = 16;
/// Sequence number, under the claim's token, of the entry that replaces it: the end of its run, or
/// the claim before it.
pub(super) const AFTER_CLAIM: u32 = 1;

impl Driver {
    /// Decides and runs under the job's lock, by the claims that the nodes keep.
    pub(super) async fn locked(&mut self, lock: Lock, purpose: Purpose) {
        let (token, seen) = (lock.fencing_token().get(), self.record.tick);
        let shared = Arc::clone(&self.shared);
        let name = Arc::clone(&self.job.name);
        let prepared = claims::prepare(&shared.redlock, &name, token, &self.never_started);
        let control = controls(&shared.redlock, std::slice::from_ref(&name));
        let history = async {
            let runs = purpose != Purpose::Register;
            let history = documents::prepare(&shared.redlock, JobDocument::History, &name, token);
            if runs { Some(history.await) } else { None }
        };
        // At once: it costs no more time.
        let (prepared, control, history) = join3(prepared, control, history).await;
        if let Some(history) = history {
            self.note_history(token, history);
        }
        match (prepared, control) {
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
                self.enter_broken_off(known.as_ref());
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
                        self.enter_broken_off(known.as_ref());
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
        let mut entry = self.entry(&info, first_attempt);
        if triggered {
            // No claim shows a run that is broken off.
            let stored = self.store_run(token, entry.clone()).await;
            self.note_stored(token, stored);
        }
        let Some(guarded) = self.guarded(lock, info, first_attempt).await else {
            // The lock was over before anything ran.
            if !triggered {
                self.restore_claim(token, before).await;
                let pause = self.pause();
                self.hold_off(Purpose::Tick(tick), pause);
            }
            return;
        };
        let GuardedEnd { outcome, hold, attempt, error } = guarded;
        entry.attempt = attempt;
        entry.end(&outcome, self.shared.now(), error.as_deref());
        let ended =
            EndedRun { token, tick, triggered, run, before, outcome, first_attempt, begun, entry };
        self.end(ended, hold, &context).await;
    }

    /// The run as it is entered into the history, before it has ended.
    fn entry(&self, info: &RunInfo, attempt: u32) -> JobRun {
        JobRun {
            tick: info.tick.into(),
            trigger: self.job.trigger(),
            started: info.decided.into(),
            ended: None,
            result: JobRunResult::Open,
            owner: Arc::clone(self.shared.redlock.owner()),
            attempt,
            lateness: info.lateness,
            error: None,
        }
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
}
