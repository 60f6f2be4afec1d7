//! Under a job's lock: claims the tick, runs it, and stores its end.

use std::{sync::Arc, time::Duration};

use super::{
    Claim, JobEventKind, SkipReason,
    context::RunInfo,
    driver::{Driver, Purpose, millis},
    jobs::Phase,
    policy::{Due, due},
    status::Outcome,
};
use crate::{
    guard::LockContext,
    lock::{Lock, claims},
    node::{TickClaim, TickRun},
    quorum::claims::Latest,
    schedule::WallTime,
};

/// So many claims of one's own that came to nothing are remembered.
const MAX_NEVER_STARTED: usize = 16;

impl Driver {
    /// Under the job's lock: what the nodes keep is the truth, and a claim is ours alone.
    pub(super) async fn locked(&mut self, lock: Lock, purpose: Purpose) {
        let (token, known) = (lock.fencing_token().get(), self.record.tick);
        let shared = Arc::clone(&self.shared);
        let name = Arc::clone(&self.job.name);
        match claims::prepare(shared.core(), &name, token, &self.never_started).await {
            Ok(kept) => self.learn(&kept),
            Err(error) => return self.unavailable(purpose, &error),
        }
        if !self.may_start(purpose) {
            return;
        }
        let now = self.shared.now();
        let before = self.kept.latest.as_ref().map(|latest| latest.run);
        let this_run = |tick: WallTime, attempt| TickRun::new(millis(tick), attempt, millis(now));
        let (run, info) = match purpose {
            Purpose::Register => {
                if before.is_none() {
                    self.claim(token, this_run(WallTime::ZERO, 1), None, purpose).await;
                }
                return;
            }
            // A run on demand is no tick: what the nodes keep stays the latest.
            Purpose::Trigger => (before, self.info(now, now, now, true)),
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
                            return self.take_back(token, before).await;
                        }
                        self.forget_skipped(tick);
                        self.tell_missed(missed);
                        let kind = JobEventKind::Claimed { attempt };
                        self.shared.emit(&self.job, tick, kind);
                        (Some(run), self.info(tick, start, now, false))
                    }
                    Due::Wait { .. } | Due::Never { .. } => {
                        let by = self.kept.latest.as_ref().and_then(|latest| latest.owner.clone());
                        drop(lock);
                        // Or it is too late for it meanwhile.
                        if self.is_started(purpose, known) {
                            self.tell_skipped(purpose, SkipReason::AlreadyStarted { by });
                        }
                        return;
                    }
                }
            }
        };
        self.tries = 0;
        self.hold_off = None;
        self.run(lock, token, run, before, info).await;
    }

    /// Has the claim kept by a majority. If not, nothing may be run.
    async fn claim(
        &mut self,
        token: u64,
        run: TickRun,
        before: Option<TickRun>,
        purpose: Purpose,
    ) -> bool {
        let owner = Arc::clone(&self.shared.core().settings.owner);
        let claim = TickClaim::new(token, run, Arc::clone(&owner), before);
        match claims::claim(self.shared.core(), &self.job.name, claim).await {
            Ok(()) => {
                self.never_started.clear();
                self.register_at = None;
                self.kept.latest = Some(Latest { run, owner: Some(owner) });
                self.job.seen(&self.kept);
                true
            }
            Err(error) => {
                self.note_never_started(token);
                self.unavailable(purpose, &error);
                false
            }
        }
    }

    /// Puts what was claimed before in the place of a claim that nothing was started under.
    async fn take_back(&mut self, token: u64, before: Option<TickRun>) {
        let base = TickRun::new(Duration::ZERO, 1, millis(self.record.base));
        let run = before.unwrap_or(base);
        let owner = Arc::clone(&self.shared.core().settings.owner);
        let claim = TickClaim::new(token, run, owner, before);
        if claims::claim(self.shared.core(), &self.job.name, claim).await.is_err() {
            self.note_never_started(token);
        }
    }

    /// Runs the work, then stores when it ended. The lock is given back after that.
    async fn run(
        &mut self,
        lock: Lock,
        token: u64,
        run: Option<TickRun>,
        before: Option<TickRun>,
        info: RunInfo,
    ) {
        let (tick, triggered) = (info.tick, info.triggered);
        let first_attempt = run.filter(|_| !triggered).map_or(1, |run| run.attempt);
        let begun = self.shared.core().clock().now();
        let context = lock.context();
        let Some((outcome, hold)) = self.guarded(lock, info, first_attempt).await else {
            // The lock was over before anything ran.
            if !triggered {
                self.take_back(token, before).await;
                let pause = self.pause();
                self.hold_off(Purpose::Tick(tick), pause);
            }
            return;
        };
        let now = self.shared.now();
        let base = TickRun::new(Duration::ZERO, 1, millis(self.record.base));
        let run = run.unwrap_or(base);
        // A run that another replica is to repeat has no end.
        let broken_off = self.options.claim == Claim::AtEnd
            && match outcome {
                Outcome::Lost { .. } => true,
                Outcome::Stopped => !self.may_run(),
                _ => false,
            };
        let ends = if triggered { !self.record.unfinished } else { !broken_off };
        if ends {
            // A run on demand does not change who ran the tick.
            let known = self.kept.latest.as_ref().and_then(|latest| latest.owner.clone());
            let own = || Arc::clone(&self.shared.core().settings.owner);
            let owner = known.filter(|_| triggered).unwrap_or_else(own);
            let end = TickClaim::new(token, run.ended(millis(now)), owner, before);
            self.store_end(end, &context).await;
        }
        self.record.last_end = ends.then_some(now);
        if !triggered {
            self.own_tick = self.own_tick.max(Some(tick));
            self.record.tick = Some(tick);
            self.record.unfinished = !ends && self.options.claim == Claim::AtEnd;
        }
        if let Some(hold) = hold {
            let kept_for = self.shared.core().clock().now().since(begun);
            let rest = self.options.min_hold.saturating_sub(kept_for);
            if !rest.is_zero() {
                tokio::select! {
                    () = self.shared.sleep(rest) => {}
                    _ = self.control.wait_for(|control| control.phase > Phase::Running || !control.leads) => {}
                }
            }
            drop(hold);
        }
    }

    /// Has the end of a run kept by a majority: tries again for as long as the lock is held, under
    /// which nobody can take it for a run that was broken off.
    async fn store_end(&mut self, end: TickClaim, lock: &LockContext) {
        loop {
            let stored = claims::claim(self.shared.core(), &self.job.name, end.clone()).await;
            let Err(error) = stored else {
                self.kept.latest = Some(Latest { run: end.run, owner: Some(end.owner) });
                self.job.seen(&self.kept);
                return;
            };
            if lock.ensure_valid().is_err() || self.shared.control().phase >= Phase::Stopped {
                crate::log::warn!(
                    job = %self.job.name,
                    %error,
                    "the end of a run is not stored: others take it for one that was broken off"
                );
                return;
            }
            let pause = self.pause();
            tokio::select! {
                () = self.shared.sleep(pause) => {}
                _ = self.control.wait_for(|control| control.phase >= Phase::Stopped) => {}
            }
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
