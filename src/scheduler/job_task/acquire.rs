//! The second phase: waits for a slot and the job's lock, and backs off after a refusal.

use std::{future::pending, ops::RangeInclusive, pin::pin, sync::Arc, time::Duration};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    super::{JobState, MissReason, Overlap, SkipReason},
    env::{Due, Purpose},
    task::{JobTask, TaskExit},
    waits::acts_on_releases,
};
use crate::{
    error::LockError,
    lock::{Lock, SingleAttempts},
    random,
    schedule::WallTime,
    time::{MAX_DURATION, Timestamp},
};

/// Pause after an awaited release. The former holder continues the schedule first; the others then
/// read its claim and take no lock.
const RELEASE_PAUSE: RangeInclusive<Duration> =
    Duration::from_millis(50)..=Duration::from_millis(250);

/// Maximum wait for the lock of a parallel job, for a run on demand.
const CLAIM_WAIT: Duration = Duration::from_secs(1);

/// The locks of a run.
pub(super) struct RunLocks {
    /// The lock under which the work runs: the job's, or a slot if it may run beside others.
    pub(super) work: Lock,
    /// The job's lock of a run under a slot, until the run has begun.
    pub(super) claim: Option<Lock>,
}

impl RunLocks {
    /// Returns the token of the job's lock.
    pub(super) fn token(&self) -> u64 {
        self.claim.as_ref().unwrap_or(&self.work).fencing_token().get()
    }

    /// Returns the job's lock.
    pub(super) fn into_job_lock(self) -> Lock {
        self.claim.unwrap_or(self.work)
    }
}

/// The locks, and what they were acquired for.
pub(super) struct Acquired {
    pub(super) locks: RunLocks,
    pub(super) slot: RunSlot,
    pub(super) purpose: Purpose,
    /// The record's tick when the lock was acquired.
    pub(super) seen: Option<WallTime>,
}

/// A place among the concurrent runs of the scheduler, where these are limited: held from before the lock is
/// acquired until the work has ended.
pub(super) struct RunSlot {
    _permit: Option<OwnedSemaphorePermit>,
    /// The place among the runs of a parallel job.
    pub(super) lane: Option<OwnedSemaphorePermit>,
}

impl JobTask {
    /// Acquires a slot and the lock. Returns `None` if the lock was refused, or the run is not due any more.
    pub(super) async fn acquire(&mut self, purpose: Purpose) -> Result<Option<Acquired>, TaskExit> {
        let Some(slot) = self.take_slot(purpose).await else { return Ok(None) };
        let asked = self.env.redlock.now();
        match self.acquire_locks(purpose).await {
            Ok(locks) => {
                (self.waits.releases, self.waits.queued) = (None, None);
                let seen = self.fleet.record.tick;
                let acquired = Acquired { locks, slot, purpose, seen };
                // The wait for the lock may have taken long.
                Ok(self.may_start(purpose).then_some(acquired))
            }
            Err(error) => self.refused(&error, purpose, asked).await.map(|()| None),
        }
    }

    /// Acquires the job's lock, and a slot for a run beside others. If no slot is free, the job's lock is
    /// released.
    async fn acquire_locks(&mut self, purpose: Purpose) -> Result<RunLocks, LockError> {
        let lock = self.attempt(purpose).await?;
        if self.lanes.is_none() || purpose == Purpose::Settle {
            return Ok(RunLocks { work: lock, claim: None });
        }
        let slot = self.env.options.slot_request(&self.env.redlock, &self.env.job.name);
        let slot = slot.acquire_for_work().await;
        if slot.is_err() {
            // The release of the job's lock frees no slot.
            self.waits.releases = None;
        }
        Ok(RunLocks { work: slot?, claim: Some(lock) })
    }

    async fn attempt(&mut self, purpose: Purpose) -> Result<Lock, LockError> {
        let mut request = self.env.options.request(&self.env.redlock, &self.env.job.name);
        if self.lanes.is_some() && !matches!(purpose, Purpose::Tick(_)) {
            // Others hold it only for a moment.
            request = request.wait(CLAIM_WAIT);
        }
        if !matches!(purpose, Purpose::Tick(_)) || !acts_on_releases(&self.env.options) {
            return request.acquire_for_work().await;
        }
        let attempts = match &mut self.waits.releases {
            Some(attempts) => attempts,
            none => none.insert(SingleAttempts::new(request)?),
        };
        attempts.attempt().await
    }

    /// Handles a refusal of the lock, in an attempt that began at `asked`.
    async fn refused(
        &mut self,
        error: &LockError,
        purpose: Purpose,
        asked: Timestamp,
    ) -> Result<(), TaskExit> {
        match error.root() {
            error @ LockError::Closed => {
                crate::log::warn!(job = %self.env.job.name, %error, "the job ends");
                return Err(TaskExit::Closed);
            }
            LockError::Held { expires_in, owner, .. } => {
                let took = self.env.redlock.now().saturating_duration_since(asked);
                self.held_elsewhere(*expires_in, owner.as_ref(), purpose, took).await;
            }
            error => self.unavailable(purpose, error),
        }
        Ok(())
    }

    async fn held_elsewhere(
        &mut self,
        expires_in: Option<Duration>,
        owner: Option<&Arc<str>>,
        purpose: Purpose,
        took: Duration,
    ) {
        let seen = self.fleet.record.tick;
        if purpose == Purpose::Settle {
            // If it is the lock of a run, that has not ended.
            self.fleet.is_lock_over = false;
            self.reports.note_answered(&self.env);
        } else {
            self.reports.note_held(&self.env, owner.cloned());
        }
        let _ = self.sync().await;
        let by = owner.cloned();
        let reason = if self.is_started(purpose, seen) {
            SkipReason::AlreadyStarted { by }
        } else {
            SkipReason::Held { by }
        };
        self.reports.skipped(&self.env, &self.fleet.record, purpose, reason);
        let moves = self.env.schedule.is_after_end();
        if let (Purpose::Tick(tick), Some((of, _))) = (purpose, self.waits.hold_off)
            && of != tick
            && !moves
        {
            // The nodes answer, and this is the first attempt at this tick.
            self.waits.refusals = 0;
        }
        // The lock of a parallel job is held only for a moment. Otherwise,
        // the holder that runs the tick also continues the schedule; others take over only if it crashes or
        // ends. An interrupted run has no holder: the others may have refused each other.
        let is_alone = self.lanes.is_none();
        let is_going = is_alone
            && self.fleet.latest.as_ref().is_some_and(|latest| {
                latest.run.is_open() && (latest.owner.is_none() || latest.owner.as_ref() == owner)
            });
        let pause = if is_going {
            let ttl = self.env.options.lock.ttl.unwrap_or(self.env.redlock.default_ttl());
            expires_in.unwrap_or(ttl) + random::within(&(Duration::ZERO..=ttl / 20))
        } else {
            self.waits.pause_after_split(took)
        };
        self.hold_off(purpose, pause);
        if let Purpose::Tick(tick) = purpose
            && self.env.options.policy.overlap != Overlap::Skip
            && !moves
        {
            self.waits.queued = Some(tick);
        }
    }

    /// Backs off from nodes that do not answer.
    pub(super) fn unavailable(&mut self, purpose: Purpose, error: &LockError) {
        let error = self.reports.note_unavailable(&self.env, error);
        self.back_off(purpose, error);
    }

    /// Backs off from nodes that answer, and of which too few store a claim.
    pub(super) fn unclaimed(&mut self, purpose: Purpose, error: &LockError) {
        let record = &self.fleet.record;
        let started = record.tick.unwrap_or(record.base);
        let error = self.reports.note_unclaimed(&self.env, error, started);
        self.back_off(purpose, error);
    }

    fn back_off(&mut self, purpose: Purpose, error: Arc<str>) {
        if purpose != Purpose::Settle || self.reports.obstacle.is_none() {
            self.reports.obstacle = Some(MissReason::Unavailable { error: Arc::clone(&error) });
        }
        let reason = SkipReason::Unavailable { error };
        self.reports.skipped(&self.env, &self.fleet.record, purpose, reason);
        let pause = self.waits.pause();
        self.hold_off(purpose, pause);
    }

    pub(super) fn hold_off(&mut self, purpose: Purpose, pause: Duration) {
        let until = self.env.redlock.now() + pause;
        match purpose {
            Purpose::Tick(tick) => self.waits.hold_off = Some((tick, until)),
            // The caller can trigger again.
            Purpose::Trigger | Purpose::Request => {}
            Purpose::Settle => self.fleet.settle_at = Some(until),
        }
    }

    /// Like [`idle`](Self::idle), while another replica has the lock; its release also ends the
    /// wait.
    pub(super) async fn wait_for_release(&mut self, wall: Option<WallTime>, until: Timestamp) {
        let until = self.waits.requested_at.map_or(until, |at| at.min(until));
        let Self { env, control, waits, .. } = self;
        let freed = async {
            match &mut waits.releases {
                Some(releases) => releases.pause(MAX_DURATION, *RELEASE_PAUSE.start()).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = env.wall_timer.at(wall) => return,
            () = env.redlock.sleep_until(until) => return,
            () = env.job.changed.notified() => return,
            _ = control.changed() => return,
            () = freed => {}
        }
        tokio::select! {
            biased;
            () = env.sleep(random::within(&RELEASE_PAUSE)) => {}
            _ = control.changed() => return,
        }
        (self.waits.hold_off, self.waits.queued) = (None, None);
        let _ = self.sync().await;
    }

    /// Waits for a slot, first come first served, before the lock is acquired, so that another
    /// replica can run the tick meanwhile. Returns `None` once the run is not due any more.
    async fn take_slot(&mut self, purpose: Purpose) -> Option<RunSlot> {
        if purpose == Purpose::Settle {
            return Some(RunSlot { _permit: None, lane: None });
        }
        let lane = match self.lanes.as_ref().map(|lanes| Arc::clone(&lanes.places)) {
            Some(places) => Some(self.take_permit(places, purpose).await?),
            None => None,
        };
        let permit = match self.slots.clone() {
            Some(slots) => Some(self.take_permit(slots, purpose).await?),
            None => None,
        };
        Some(RunSlot { _permit: permit, lane })
    }

    async fn take_permit(
        &mut self,
        slots: Arc<Semaphore>,
        purpose: Purpose,
    ) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&slots).try_acquire_owned() {
            return Some(permit);
        }
        self.env.job.set_state(JobState::WaitingForSlot);
        self.reports.obstacle = Some(MissReason::NoSlot);
        let mut permit = pin!(slots.acquire_owned());
        let mut taken = None;
        loop {
            let recheck_at = self.recheck_at(purpose)?;
            if taken.is_some() {
                return taken;
            }
            tokio::select! {
                biased;
                permit = &mut permit => taken = permit.ok(),
                () = self.env.wall_timer.at(Some(recheck_at)) => {}
                // The job may be paused now.
                () = self.env.job.changed.notified() => {}
                _ = self.control.changed() => {}
            }
        }
    }

    /// Returns the next time at which the due tick may become late; `None` if the run is not due any more.
    fn recheck_at(&self, purpose: Purpose) -> Option<WallTime> {
        if !self.may_start(purpose) {
            return None;
        }
        if !matches!(purpose, Purpose::Tick(_)) {
            return Some(WallTime::MAX);
        }
        let (now, policy) = (self.env.now(), &self.env.options.policy);
        let Due::Run { start, .. } = self.env.due(&self.fleet.record, now) else { return None };
        let after = |limit: Duration| {
            let end = Duration::from_millis(start.as_millis()).saturating_add(limit);
            WallTime::from_millis(WallTime::since_epoch(end).as_millis().saturating_add(1))
        };
        let ends = [policy.start_within, policy.catch_up].map(after);
        Some(ends.into_iter().filter(|at| *at > now).min().unwrap_or(WallTime::MAX))
    }
}
