//! The last phase: stores the end of a run under the job's lock, or later, before the lock is released.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use futures_util::future::join;

use super::{
    super::{
        Claim, JobState, JobStop, Outcome,
        claims::{AFTER_CLAIM, millis},
        context::RunInfo,
        fleet::JobRun,
        shared::{Control, Phase},
    },
    attempts::backoff,
    task::JobTask,
};
use crate::{
    error::LockError,
    guard::{Hold, LockContext},
    lock::{Redlock, obligations::OwedEnd},
    protocol::{FormerClaim, OnDemandRun, TickClaim, TickRun},
    time::Timestamp,
};

/// Pause before a stopped run is repeated.
const REPEAT_PAUSE: Duration = Duration::from_secs(1);

/// A run whose work has ended, under the lock until the end is stored.
pub(super) struct EndedRun {
    pub(super) token: u64,
    pub(super) info: Arc<RunInfo>,
    /// The claimed run. For a run on demand, the latest one, which stays that.
    pub(super) run: TickRun,
    /// The latest claim before.
    pub(super) before: Option<FormerClaim>,
    pub(super) begun: Timestamp,
    pub(super) outcome: Outcome,
    /// Why the run was stopped, if the lock and the scheduler did not end it.
    pub(super) stopped_for: Option<StopCause>,
    /// The run as the history has it.
    pub(super) entry: JobRun,
    /// The lock, unless it was lost.
    pub(super) hold: Option<Hold>,
    pub(super) lock: LockContext,
}

/// Why a run is stopped that neither a shutdown nor its lock ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StopCause {
    NextTick,
    Command(JobStop),
}

impl JobTask {
    /// Stores the end of a run, then releases the lock. If the runtime hangs meanwhile, renewals of
    /// the lock stop.
    pub(super) async fn end(&mut self, ended: EndedRun) {
        assert!(ended.entry.ended.is_some(), "the work has ended");
        debug_assert_eq!(ended.entry.trigger, ended.info.trigger);
        let (redlock, limit) = (self.env.redlock.clone(), self.env.options.polled_within());
        self.env.job.answer(Ok(ended.outcome.clone()));
        let lock = ended.lock.clone();
        lock.keep();
        keep_polled(&redlock, &lock, limit, self.store_and_release(ended)).await;
    }

    async fn store_and_release(&mut self, ended: EndedRun) {
        let repeats = self.is_repeated(&ended);
        let entered = self.history.store(&self.env, ended.token, ended.entry.clone());
        let ((run, stored), ()) = join(entered, self.store_outcome(&ended, repeats)).await;
        self.history.note_stored(&self.env, ended.token, run, stored);
        if ended.hold.is_some() {
            self.keep_lock(&ended, repeats).await;
        }
    }

    /// Whether the tick will be repeated: such a run gets no end.
    fn is_repeated(&self, ended: &EndedRun) -> bool {
        self.env.options.claim == Claim::AtEnd
            && match (&ended.outcome, &ended.stopped_for) {
                (Outcome::Lost { .. } | Outcome::NotDone { .. }, _) | (Outcome::Stopped, None) => {
                    true
                }
                (Outcome::Stopped, Some(StopCause::NextTick)) => !self.may_run(),
                _ => false,
            }
    }

    async fn store_outcome(&mut self, ended: &EndedRun, repeats: bool) {
        let EndedRun { token, run, before, info, .. } = ended;
        let now = self.env.now();
        if info.trigger.is_some() {
            // The latest run of a tick stays that.
            let since = millis(info.decided);
            self.fleet.note_on_demand(OnDemandRun { since, ended: Some(millis(now).max(since)) });
            let end = TickClaim::new(*token, *run, self.owner_of_run(false), before.clone())
                .with_fates(self.fleet.fates);
            if let EndStored::Owed(owed) =
                self.store_end(end.numbered(AFTER_CLAIM), &ended.lock).await
            {
                owed.carry_on();
            }
            return;
        }
        if !repeats {
            let owner = self.owner_of_run(true);
            let end = TickClaim::new(*token, run.ended(millis(now)), owner, before.clone())
                .with_fates(self.fleet.fates)
                .numbered(AFTER_CLAIM);
            let owed = match self.store_end(end.clone(), &ended.lock).await {
                EndStored::Owed(owed) => Some(owed),
                EndStored::Yes | EndStored::Refused => None,
            };
            if let Some(owed) = &owed {
                owed.carry_on();
            }
            self.fleet.end_stored(end, owed);
        }
        self.fleet.ended(run, (!repeats).then_some(now));
    }

    /// Keeps the lock for `min_hold`, or until the tick may be repeated.
    async fn keep_lock(&mut self, ended: &EndedRun, repeats: bool) {
        let kept_for = self.env.redlock.now().saturating_duration_since(ended.begun);
        let mut rest = self.env.options.min_hold.saturating_sub(kept_for);
        if repeats && ended.info.trigger.is_none() {
            rest = rest.max(self.pause_before_repeating(&ended.outcome, ended.run.attempt));
        }
        if !rest.is_zero() {
            let is_over = |control: &Control| control.phase > Phase::Running || !control.leads;
            tokio::select! {
                biased;
                () = self.env.sleep(rest) => {}
                _ = self.control.wait_for(is_over) => {}
            }
        }
    }

    /// How long to keep the lock of a tick that will be repeated, so that no replica repeats it
    /// earlier.
    fn pause_before_repeating(&self, outcome: &Outcome, attempt: u32) -> Duration {
        let (reason, pause): (Arc<str>, _) = match outcome {
            Outcome::NotDone { reason } => {
                let pause = backoff(self.env.options.backoff, attempt.saturating_sub(1));
                (Arc::clone(reason), pause)
            }
            // Its lock was about to end.
            Outcome::Stopped if self.may_run() => ("the run was stopped".into(), REPEAT_PAUSE),
            _ => return Duration::ZERO,
        };
        self.env.job.set_state(JobState::BackingOff { reason });
        pause
    }

    /// Stores the end of a run on a majority, and waits for that while the lock is held: until then no
    /// other replica takes the run for an interrupted one. After that it is stored in the background.
    async fn store_end(&mut self, end: TickClaim, lock: &LockContext) -> EndStored {
        let end = end.by_schedule(self.fleet.own_schedule.mark.clone());
        let owed = self.env.redlock.owe_run(None, &self.env.job.name, end.clone());
        let is_stored = tokio::select! {
            biased;
            is_stored = owed.is_stored() => is_stored,
            _ = lock.lost() => return EndStored::Owed(owed),
            _ = self.control.wait_for(|control| control.phase >= Phase::Stopped) => {
                return EndStored::Owed(owed);
            }
        };
        if !is_stored {
            return EndStored::Refused;
        }
        self.stored(end);
        EndStored::Yes
    }

    /// Takes over whether an end that was owed is stored. If the nodes refused it, another replica has claimed
    /// the job.
    ///
    /// # Errors
    ///
    /// The nodes can't be queried.
    pub(super) async fn follow_owed_end(&mut self) -> Result<(), LockError> {
        let Some((end, owed)) = &self.fleet.owed_end else { return Ok(()) };
        match owed.stored() {
            None => {}
            Some(true) => {
                let end = end.clone();
                self.fleet.owed_end = None;
                self.stored(end);
            }
            Some(false) => {
                self.fleet.owed_end = None;
                self.sync().await?;
            }
        }
        Ok(())
    }
}

/// Whether the end of a run is stored.
enum EndStored {
    Yes,
    /// A majority has a later claim.
    Refused,
    /// It is stored in the background.
    Owed(Arc<OwedEnd>),
}

/// Waits under a lock whose work is over. Records a poll four times within `limit`, so that a
/// hanging runtime is detected.
pub(super) async fn keep_polled<T>(
    redlock: &Redlock,
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
            () = redlock.sleep(limit / 4) => {}
        }
    }
}
