//! The end of a run: stored under the job's lock, or later, before the lock is released.

use std::{sync::Arc, time::Duration};

use futures_util::future::join;

use super::{
    Claim, JobState,
    attempts::backoff,
    claim::AFTER_CLAIM,
    driver::{Driver, Purpose, StopCause, millis},
    fleet::JobRun,
    shared::Phase,
    status::Outcome,
};
use crate::{
    error::LockError,
    guard::{Hold, LockContext},
    protocol::{TickClaim, TickRun},
    quorum::claims::LatestClaim,
    schedule::WallTime,
    time::Timestamp,
};

/// Pause before a stopped run is repeated.
const REPEAT_PAUSE: Duration = Duration::from_secs(1);

impl Driver {
    /// Stores the end of a run, then releases the lock. If the runtime hangs meanwhile, renewals of
    /// the lock stop.
    pub(super) async fn end(&mut self, ended: EndedRun, hold: Option<Hold>, lock: &LockContext) {
        // Slots bound running work, not what follows it.
        self.slot = None;
        self.answer(Ok(ended.outcome.clone()));
        let (shared, limit) = (Arc::clone(&self.shared), self.options.polled_within());
        let rest = async {
            let is_broken_off = self.is_broken_off(&ended.outcome);
            let entered = self.store_run(ended.token, ended.entry.clone());
            let outcome = self.store_outcome(&ended, is_broken_off, lock);
            let ((), entered) = join(outcome, entered).await;
            self.note_stored(ended.token, entered);
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
                Outcome::Stopped => match self.stopped_for {
                    Some(StopCause::Command(_)) => false,
                    Some(StopCause::NextTick) => !self.may_run(),
                    None => true,
                },
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
    pub(super) entry: JobRun,
}
