//! The slot and the lock of a run: waits for them, and backs off after a refusal.

use std::{future::pending, ops::RangeInclusive, pin::pin, sync::Arc, time::Duration};

use super::{
    Claim, JobState, MissReason, Missed, Overlap, SkipReason,
    driver::{Driver, Purpose},
    job::JobOptions,
    policy::{Due, MissedTicks, Policy, due},
};
use crate::{
    error::LockError,
    lock::{Lock, LockRequest, Redlock, SingleAttempts},
    random,
    resource::Resource,
    schedule::WallTime,
    time::{MAX_DURATION, Timestamp},
};

/// Pause after an awaited release. The former holder continues the schedule first; the others then
/// read its claim and take no lock.
const SPREAD: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_millis(250);

/// Pauses after a refusal, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl Driver {
    pub(super) async fn acquire(&mut self, purpose: Purpose) {
        if !self.take_slot(purpose).await {
            return;
        }
        match self.attempt(purpose).await {
            Ok(lock) => {
                self.releases = None;
                self.queued = None;
                // The wait for the lock may have taken long.
                if self.may_start(purpose) {
                    self.locked(lock, purpose).await;
                }
            }
            Err(error) => self.refused(error, purpose).await,
        }
        self.slot = None;
    }

    pub(super) fn request(&self) -> LockRequest {
        request(&self.shared.redlock, &self.job.name, &self.options)
    }

    /// Handles a refusal of the lock.
    async fn refused(&mut self, error: LockError, purpose: Purpose) {
        let known = self.record.tick;
        match error.root().clone() {
            error @ (LockError::Closed | LockError::Forked { .. }) => {
                crate::log::warn!(job = %self.job.name, %error, "the job ends");
                self.is_closed = true;
            }
            LockError::Held { expires_in, owner, .. } => {
                self.note_held(owner.clone());
                let _ = self.sync().await;
                let holder = owner.clone();
                let reason = if self.is_started(purpose, known) {
                    SkipReason::AlreadyStarted { by: owner }
                } else {
                    SkipReason::Held { by: owner }
                };
                self.report_skipped(purpose, reason);
                // The holder that runs the tick also continues the schedule; others take over only
                // if it crashes or ends. A broken-off run has no holder: the others may have
                // refused each other.
                let going = self.latest.as_ref().is_some_and(|latest| {
                    latest.run.is_open() && (latest.owner.is_none() || latest.owner == holder)
                });
                if let (Purpose::Tick(tick), Some((of, _))) = (purpose, self.hold_off)
                    && of != tick
                    && !self.schedule.is_after_end()
                {
                    // The nodes answer, and this is the first attempt at this tick.
                    self.refusals = 0;
                }
                let ttl = self.options.lock.ttl.unwrap_or(self.shared.redlock.default_ttl());
                let pause = if going {
                    expires_in.unwrap_or(ttl) + random::within(&(Duration::ZERO..=ttl / 20))
                } else {
                    self.pause()
                };
                self.hold_off(purpose, pause);
                self.queue(purpose);
            }
            error => self.unavailable(purpose, &error),
        }
    }

    pub(super) fn unavailable(&mut self, purpose: Purpose, error: &LockError) {
        let text = self.note_unavailable(error);
        self.report_skipped(purpose, SkipReason::Unavailable { error: text });
        let pause = self.pause();
        self.hold_off(purpose, pause);
    }

    pub(super) fn hold_off(&mut self, purpose: Purpose, pause: Duration) {
        let until = self.shared.redlock.now() + pause;
        match purpose {
            Purpose::Tick(tick) => self.hold_off = Some((tick, until)),
            // The caller can trigger again.
            Purpose::Trigger | Purpose::Request => {}
            Purpose::Register => self.register_at = Some(until),
        }
    }

    /// Returns a random pause that doubles with each refusal.
    pub(super) fn pause(&mut self) -> Duration {
        let longest = FIRST_PAUSE.saturating_mul(1 << self.refusals.min(16)).min(LONGEST_PAUSE);
        self.refusals += 1;
        random::within(&(longest / 2..=longest))
    }

    /// Like [`idle`](Self::idle), while another replica has the lock; its release also ends the
    /// wait.
    pub(super) async fn wait_for_release(&mut self, wall: Option<WallTime>, until: Timestamp) {
        let until = self.requested_at.map_or(until, |at| at.min(until));
        let Self { shared, job, control, releases, .. } = self;
        let freed = async {
            match releases {
                Some(releases) => releases.pause(MAX_DURATION, *SPREAD.start()).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = shared.wall_timer.at(wall) => return,
            () = shared.redlock.sleep_until(until) => return,
            () = job.asked.notified() => return,
            _ = control.changed() => return,
            () = freed => {}
        }
        tokio::select! {
            biased;
            () = shared.sleep(random::within(&SPREAD)) => {}
            _ = control.changed() => return,
        }
        self.hold_off = None;
        self.queued = None;
        let _ = self.sync().await;
    }

    pub(super) async fn attempt(&mut self, purpose: Purpose) -> Result<Lock, LockError> {
        if !self.is_to_be_woken(purpose) {
            return self.request().acquire().await;
        }
        let request = self.request();
        let attempts = match &mut self.releases {
            Some(attempts) => attempts,
            none => none.insert(SingleAttempts::new(request)?),
        };
        attempts.attempt().await
    }

    /// Whether this replica acts on the release of the lock after a refused tick. By default it
    /// does not: a tick during a run is missed, and a started tick is done. So a fleet sends no
    /// queries when a run ends.
    fn is_to_be_woken(&self, purpose: Purpose) -> bool {
        let Policy { overlap, missed, .. } = self.options.policy;
        let waits = overlap != Overlap::Skip || missed != Missed::Skip;
        let repeats = self.options.claim == Claim::AtEnd;
        matches!(purpose, Purpose::Tick(_)) && (waits || repeats)
    }

    /// Queues a tick whose lock was refused, if the job queues overlapping ticks.
    pub(super) fn queue(&mut self, purpose: Purpose) {
        let queues = self.options.policy.overlap != Overlap::Skip;
        if let (Purpose::Tick(tick), true) = (purpose, queues && !self.schedule.is_after_end()) {
            self.queued = Some(tick);
        }
    }

    /// The queued tick among those that seem missed. It is late only once the run that it waits for
    /// has ended.
    pub(super) fn still_queued(&self, missed: Option<MissedTicks>) -> Option<Due> {
        let tick = missed?.last;
        let waits = self.queued.is_some_and(|queued| self.record.tick < Some(queued));
        let start = self.schedule.start(&self.job.name, tick);
        waits.then_some(Due::Run { tick, start, again: false, missed: None })
    }

    /// Waits for a slot, first come first served, before the lock is acquired, so that another
    /// replica can run the tick meanwhile. Returns false once the run is not due any more.
    pub(super) async fn take_slot(&mut self, purpose: Purpose) -> bool {
        let Some(slots) = self.shared.slots.clone().filter(|_| purpose != Purpose::Register) else {
            return true;
        };
        if let Ok(slot) = Arc::clone(&slots).try_acquire_owned() {
            self.slot = Some(slot);
            return true;
        }
        self.job.set_state(JobState::WaitingForSlot);
        self.obstacle = Some(MissReason::NoSlot);
        let mut slot = pin!(slots.acquire_owned());
        loop {
            if !self.may_start(purpose) || !self.is_still_due(purpose) {
                return false;
            }
            let alarm = self.shared.wall_timer.at(self.recheck_at(purpose));
            tokio::select! {
                biased;
                slot = &mut slot => {
                    self.slot = slot.ok();
                    return self.may_start(purpose) && self.is_still_due(purpose);
                }
                () = alarm => {}
                // The job may be paused now.
                () = self.job.asked.notified() => {}
                _ = self.control.changed() => {}
            }
        }
    }

    fn due_now(&self) -> Due {
        let policy = &self.options.policy;
        due(&self.schedule, &self.job.name, policy, &self.record, self.shared.now())
    }

    fn is_still_due(&self, purpose: Purpose) -> bool {
        !matches!(purpose, Purpose::Tick(_)) || matches!(self.due_now(), Due::Run { .. })
    }

    /// The next time at which the due tick may become late.
    fn recheck_at(&self, purpose: Purpose) -> Option<WallTime> {
        let (Purpose::Tick(_), Due::Run { start, .. }) = (purpose, self.due_now()) else {
            return None;
        };
        let now = self.shared.now();
        let policy = &self.options.policy;
        let after = |limit: std::time::Duration| {
            let start = std::time::Duration::from_millis(start.as_millis());
            let end = WallTime::since_epoch(start.saturating_add(limit));
            WallTime::from_millis(end.as_millis().saturating_add(1))
        };
        [policy.start_within, policy.catch_up].map(after).into_iter().filter(|at| *at > now).min()
    }
}

/// The request for a job's lock.
pub(super) fn request(redlock: &Redlock, job: &str, options: &JobOptions) -> LockRequest {
    redlock
        .lock_own(Resource::of_job(job))
        .options(options.lock())
        .polled_within(Some(options.polled_within()))
}
