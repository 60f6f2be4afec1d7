//! Under a job's lock: claims the tick, runs it, and stores its end.

use std::{sync::Arc, time::Duration};

use super::{
    JobEventKind, SkipReason,
    context::RunInfo,
    driver::{Driver, Purpose, millis},
    ending::Ended,
    policy::{Due, due},
};
use crate::{
    error::LockError,
    lock::Lock,
    protocol::{TickClaim, TickRun},
    quorum::claims::Latest,
    schedule::WallTime,
};

/// So many claims of one's own that came to nothing are remembered.
const MAX_NEVER_STARTED: usize = 16;
/// The number of what replaces a claim under its token: the end of its run, or what was before it.
pub(super) const AFTER_CLAIM: u32 = 1;

impl Driver {
    /// Under the job's lock: what the nodes keep is the truth, and a claim is ours alone.
    pub(super) async fn locked(&mut self, lock: Lock, purpose: Purpose) {
        let (token, seen) = (lock.fencing_token().get(), self.record.tick);
        let shared = Arc::clone(&self.shared);
        let name = Arc::clone(&self.job.name);
        match shared.redlock.prepare_claim(&name, token, &self.never_started).await {
            Ok(kept) => self.learn(kept),
            Err(error) => return self.unavailable(purpose, &error),
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
                    Some(run) if self.own_schedule.replaces() || self.may_lose_end() => run,
                    Some(_) => return,
                };
                self.claim(token, run, before, purpose).await;
                return;
            }
            // A run on demand is no tick: what the nodes keep stays the latest.
            Purpose::Trigger => {
                self.tell_broken_off(known.as_ref());
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
                            return self.take_back(token, known).await;
                        }
                        self.forget_skipped(tick);
                        if !again {
                            self.tell_broken_off(known.as_ref());
                        }
                        self.tell_missed(missed);
                        let kind = JobEventKind::Claimed { attempt };
                        self.shared.emit(&self.job, tick, kind);
                        (Some(run), self.info(tick, start, now, false))
                    }
                    Due::Wait { .. } | Due::Never { .. } => {
                        let by = known.and_then(|latest| latest.owner);
                        drop(lock);
                        // Or it is too late for it meanwhile.
                        if self.is_started(purpose, seen) {
                            self.tell_skipped(purpose, SkipReason::AlreadyStarted { by });
                        }
                        return;
                    }
                }
            }
        };
        self.tries = 0;
        self.hold_off = None;
        self.obstacle = None;
        self.run(lock, token, run, known, info).await;
    }

    /// Has the claim kept by a majority. If not, nothing may be run.
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

    /// Has a claim kept by a majority, with the job's schedule.
    pub(super) async fn store(&mut self, claim: TickClaim) -> Result<(), LockError> {
        let claim = claim.by_schedule(self.own_schedule.mark.clone());
        self.shared.redlock.claim(&self.job.name, claim.clone()).await?;
        let TickClaim { run, owner, before, schedule, .. } = claim;
        let owner = Some(owner);
        self.latest = Some(Latest { run, owner, before, schedule, is_replicated: true });
        self.job.seen(self.latest.as_ref());
        self.schedule_is_stored();
        Ok(())
    }

    /// Who is named as the owner of what is claimed: of a run that stays the latest, who ran it.
    pub(super) fn owner_of(&self, purpose: Purpose) -> Arc<str> {
        let known = self.latest.as_ref().and_then(|latest| latest.owner.clone());
        let known = known.filter(|_| !matches!(purpose, Purpose::Tick(_)));
        known.unwrap_or_else(|| Arc::clone(self.shared.redlock.owner()))
    }

    /// Puts what was claimed before in the place of a claim that nothing was started under.
    async fn take_back(&mut self, token: u64, before: Option<Latest>) {
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
        before: Option<Latest>,
        info: RunInfo,
    ) {
        let (tick, triggered) = (info.tick, info.triggered);
        let first_attempt = run.filter(|_| !triggered).map_or(1, |run| run.attempt);
        let begun = self.shared.redlock.now();
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
        let ended = Ended { token, tick, triggered, run, before, outcome, first_attempt, begun };
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
}
