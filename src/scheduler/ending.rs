//! After a run: its end is stored, and its lock kept for a while.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use super::{
    Claim, JobState,
    claiming::AFTER_CLAIM,
    driver::{Driver, Purpose, millis},
    jobs::{Phase, Shared},
    run::backoff,
    status::Outcome,
};
use crate::{
    error::LockError,
    guard::{Hold, LockContext},
    protocol::{TickClaim, TickRun},
    quorum::claims::Latest,
    schedule::WallTime,
    time::Timestamp,
};

/// Pause before a tick is run again whose run was stopped.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// A run that has ended, and what it was claimed with.
pub(super) struct Ended {
    pub(super) token: u64,
    pub(super) tick: WallTime,
    pub(super) triggered: bool,
    pub(super) run: Option<TickRun>,
    pub(super) before: Option<Latest>,
    pub(super) outcome: Outcome,
    pub(super) first_attempt: u32,
    pub(super) begun: Timestamp,
}

impl Driver {
    /// Stores that a run has ended, then gives the lock back. Where the runtime hangs meanwhile, the
    /// lock is not renewed any more.
    pub(super) async fn end(&mut self, ended: Ended, hold: Option<Hold>, lock: &LockContext) {
        // It is for runs, not for what is stored or waited for after them.
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

    /// Whether it is to be run again: such a run has no end.
    fn is_broken_off(&self, outcome: &Outcome) -> bool {
        self.options.claim == Claim::AtEnd
            && match outcome {
                Outcome::Lost { .. } | Outcome::NotDone { .. } => true,
                // But for the next tick.
                Outcome::Stopped => !self.gave_way || !self.may_run(),
                _ => false,
            }
    }

    async fn store_outcome(&mut self, ended: &Ended, is_broken_off: bool, lock: &LockContext) {
        let Ended { token, tick, triggered, run, before, .. } = ended;
        let now = self.shared.now();
        let base = TickRun::new(Duration::ZERO, 1, millis(self.record.base));
        let run = run.unwrap_or(base);
        let ends = if *triggered { !self.record.unfinished } else { !is_broken_off };
        if ends {
            // A run on demand does not change who ran the tick.
            let purpose = if *triggered { Purpose::Trigger } else { Purpose::Tick(*tick) };
            let (owner, before) =
                (self.owner_of(purpose), before.as_ref().map(|latest| latest.run));
            let end = TickClaim::new(*token, run.ended(millis(now)), owner, before);
            let end = end.numbered(AFTER_CLAIM);
            let is_stored = self.store_end(end.clone(), lock).await;
            // What was run on demand has no claim.
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

    /// For `min_hold`, or until the tick may be run again.
    async fn keep_lock(&mut self, ended: &Ended, is_broken_off: bool) {
        let kept_for = self.shared.core().clock().now().saturating_duration_since(ended.begun);
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

    /// How long the lock of a tick that is to be run again is kept, so that nobody does before that.
    fn pause_before_repeating(&self, outcome: &Outcome, attempt: u32) -> Duration {
        let (reason, pause): (Arc<str>, _) = match outcome {
            Outcome::NotDone { reason } => {
                let pause = backoff(self.options.backoff, attempt.saturating_sub(1));
                (Arc::clone(reason), pause)
            }
            // Its lock was about to end.
            Outcome::Stopped if self.may_run() => ("the run was stopped".into(), FIRST_PAUSE),
            _ => return Duration::ZERO,
        };
        self.job.set_state(JobState::BackingOff { reason });
        pause
    }

    /// Has the end of a run kept by a majority: tries again for as long as the lock is held, under
    /// which nobody can take it for a run that was broken off. Returns whether they keep it.
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

    /// Has the end stored that was not while the lock was held, once enough nodes answer. Where they
    /// refuse it, it is stored under a lock of its own: the job may be about to be claimed.
    ///
    /// # Errors
    ///
    /// The nodes can't be asked.
    pub(super) async fn store_end_late(&mut self) -> Result<(), LockError> {
        let Some(end) = self.unstored_end.clone() else { return Ok(()) };
        self.look().await?;
        self.unstored_end = None;
        let is_latest = self.latest.as_ref().is_some_and(|latest| latest.run == end.run);
        if is_latest {
            match self.store(end).await {
                Ok(()) => {
                    crate::log::info!(job = %self.job.name, "the end of the run is stored after all");
                }
                Err(_) => self.register_at = Some(self.soon()),
            }
        }
        Ok(())
    }

    /// The latest run has ended, and fewer than a quorum of nodes know: who does not reach those
    /// takes it for one that was broken off.
    pub(super) fn may_lose_end(&self) -> bool {
        let latest = self.latest.as_ref();
        latest.is_some_and(|latest| !latest.run.is_open() && !latest.is_replicated)
    }
}

impl Shared {
    /// Waits under a lock whose work is over: polled, and counted as such, four times within `limit`,
    /// so that a runtime that hangs is found out.
    async fn keep_polled<T>(
        &self,
        lock: &LockContext,
        limit: Duration,
        wait: impl Future<Output = T>,
    ) -> T {
        let mut wait = pin!(wait);
        loop {
            lock.note_poll();
            tokio::select! {
                biased;
                ended = &mut wait => return ended,
                () = self.sleep(limit / 4) => {}
            }
        }
    }
}
