//! The life of one job on one replica: waits for ticks, takes the lock, and begins again.

use std::{sync::Arc, time::Duration};

use tokio::sync::{Mutex, watch};

use super::{
    SkipReason,
    job::JobOptions,
    jobs::{Control, JobState, Phase, Shared},
    policy::{Due, Record, due, next_overlap},
    telling::Told,
    work::Work,
};
use crate::{
    error::LockError,
    lock::{LockRequest, Redlock, claims::Kept},
    random,
    schedule::{Schedule, WallTime},
    time::Timestamp,
};

pub(super) struct Driver {
    pub(super) shared: Arc<Shared>,
    pub(super) job: Arc<JobState>,
    pub(super) schedule: Schedule,
    pub(super) options: JobOptions,
    pub(super) is_blocking: bool,
    /// Taken by the run that is going.
    pub(super) work: Arc<Mutex<Box<dyn Work>>>,
    pub(super) control: watch::Receiver<Control>,
    /// What the fleet knows of the job, as last seen.
    pub(super) record: Record,
    pub(super) kept: Kept,
    /// The tokens of our latest claims that came to nothing.
    pub(super) never_started: Vec<u64>,
    /// The latest tick that was started here: also where the nodes forgot it.
    pub(super) own_tick: Option<WallTime>,
    /// Not before that, for this tick.
    pub(super) hold_off: Option<(WallTime, Timestamp)>,
    /// How often in a row the nodes, or the line before the lock, turned us away.
    pub(super) tries: u32,
    /// The latest tick that was told of as skipped, or as missed.
    pub(super) told_skipped: Option<Told>,
    pub(super) told_missed: Option<WallTime>,
    /// When the job is to be made known to the nodes, if it is not.
    pub(super) register_at: Option<Timestamp>,
    is_closed: bool,
}

/// What the job's lock is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Tick(WallTime),
    Trigger,
    /// To store since when the job exists.
    Register,
}

/// Pauses after a refusal, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// New jobs are made known within this, one after the other.
const REGISTER_WITHIN: Duration = Duration::from_secs(5);

impl Driver {
    pub(super) fn new(
        shared: &Arc<Shared>,
        job: &Arc<JobState>,
        (schedule, options): (Schedule, JobOptions),
        (work, is_blocking): (Box<dyn Work>, bool),
        kept: &Kept,
    ) -> Self {
        let now = shared.now();
        let mut driver = Self {
            shared: Arc::clone(shared),
            job: Arc::clone(job),
            schedule,
            options,
            is_blocking,
            work: Arc::new(Mutex::new(work)),
            control: shared.control.subscribe(),
            record: Record { tick: None, last_end: None, unfinished: false, base: now },
            kept: Kept::default(),
            never_started: Vec::new(),
            own_tick: None,
            hold_off: None,
            tries: 0,
            told_skipped: None,
            told_missed: None,
            register_at: None,
            is_closed: false,
        };
        driver.learn(kept);
        if kept.latest.is_none() && driver.options.policy.missed != super::Missed::Skip {
            let delay = random::within(&(Duration::ZERO..=REGISTER_WITHIN));
            driver.register_at = Some(shared.core().clock().now() + delay);
        }
        driver
    }

    pub(super) async fn drive(mut self) {
        while !self.is_closed {
            let control = *self.control.borrow_and_update();
            if control.phase > Phase::Running {
                break;
            }
            let now = self.shared.now();
            if !control.leads {
                self.stand_by().await;
            } else if self.job.take_trigger() {
                self.acquire(Purpose::Trigger).await;
            } else if self.register_at.is_some_and(|at| self.shared.core().clock().now() >= at) {
                self.register_at = None;
                self.acquire(Purpose::Register).await;
            } else if self.job.is_paused() {
                self.job.set_next(None);
                self.idle(None, self.register_at).await;
            } else {
                self.follow_schedule(now).await;
            }
        }
        self.job.set_next(None);
    }

    /// Another replica leads, and runs what is due.
    async fn stand_by(&mut self) {
        self.job.set_next(None);
        while self.job.take_trigger() {
            self.tell_skipped(Purpose::Trigger, SkipReason::NotLeading);
        }
        self.idle(None, None).await;
    }

    async fn follow_schedule(&mut self, now: WallTime) {
        match self.next(now).await {
            Due::Run { tick, start, .. } => {
                // Of a schedule that counts from the last end, the tick moves while we hold off.
                let held_off =
                    self.hold_off.filter(|(of, _)| *of == tick || self.schedule.is_after_end());
                if let Some((_, until)) = held_off
                    && self.shared.core().clock().now() < until
                {
                    let next = next_overlap(&self.schedule, &self.job.name, tick, now.max(start));
                    let until = self.register_at.map_or(until, |at| at.min(until));
                    self.idle(next.map(|(_, start)| start), Some(until)).await;
                } else {
                    self.acquire(Purpose::Tick(tick)).await;
                }
            }
            Due::Wait { tick, start, missed } => {
                self.tell_missed(missed);
                self.job.set_next(Some(tick));
                self.idle(Some(start), self.register_at).await;
            }
            Due::Never { missed } => {
                self.tell_missed(missed);
                self.job.set_next(None);
                self.idle(None, self.register_at).await;
            }
        }
    }

    /// What the job does next. Others may have run what seems to be missed, while this replica did
    /// not look: it was paused, stood by, or stood still.
    async fn next(&mut self, now: WallTime) -> Due {
        let ask = |driver: &Self| {
            due(&driver.schedule, &driver.job.name, &driver.options.policy, &driver.record, now)
        };
        let next = ask(self);
        let (Due::Wait { missed, .. } | Due::Never { missed }) = &next else { return next };
        if !missed.is_some_and(|missed| self.is_news(missed)) {
            return next;
        }
        self.look().await;
        ask(self)
    }

    /// Until the wall clock shows a moment, or time has come to another, or something is asked for.
    async fn idle(&mut self, wall: Option<WallTime>, until: Option<Timestamp>) {
        let alarm = self.shared.alarms.at(wall);
        let timer = until.map(|at| self.shared.core().timers.sleep_until(at));
        tokio::select! {
            () = alarm => {}
            () = async { timer.expect("there is one").await }, if until.is_some() => {}
            () = self.job.asked.notified() => {}
            _ = self.control.changed() => {}
        }
    }

    async fn acquire(&mut self, purpose: Purpose) {
        match self.request().await {
            // It was waited for.
            Ok(lock) if self.may_start(purpose) => self.locked(lock, purpose).await,
            Ok(_) => {}
            Err(error) => self.refused(error, purpose).await,
        }
    }

    fn request(&self) -> LockRequest {
        request(&self.shared.redlock, &self.job.name, &self.options)
    }

    pub(super) fn may_run(&self) -> bool {
        self.shared.control() == Control { phase: Phase::Running, leads: true }
    }

    /// May change at any time, while nodes are asked too.
    pub(super) fn may_start(&self, purpose: Purpose) -> bool {
        self.may_run() && !(matches!(purpose, Purpose::Tick(_)) && self.job.is_paused())
    }

    /// The lock was not to be had: sees how the tick stands.
    async fn refused(&mut self, error: LockError, purpose: Purpose) {
        let known = self.record.tick;
        match error.root().clone() {
            error @ (LockError::Closed | LockError::Forked { .. }) => {
                crate::log::warn!(job = %self.job.name, %error, "the job ends");
                self.is_closed = true;
            }
            LockError::Held { retry_after, owner } => {
                self.look().await;
                let reason = if self.is_started(purpose, known) {
                    SkipReason::AlreadyStarted { by: owner }
                } else {
                    SkipReason::Held { by: owner }
                };
                self.tell_skipped(purpose, reason);
                // Who runs it gives the lock back when it is done, and goes on with the schedule
                // itself. Only if it crashes, others have to.
                let going =
                    self.kept.latest.as_ref().is_some_and(|latest| latest.run.ended.is_none());
                if let (Purpose::Tick(tick), Some((of, _))) = (purpose, self.hold_off)
                    && of != tick
                    && !self.schedule.is_after_end()
                {
                    // The nodes answer, and this tick was not tried for yet.
                    self.tries = 0;
                }
                let ttl = self.options.ttl.unwrap_or(self.shared.core().settings.ttl);
                let pause = if going {
                    retry_after.unwrap_or(ttl) + random::within(&(Duration::ZERO..=ttl / 20))
                } else {
                    self.pause()
                };
                self.hold_off(purpose, pause);
            }
            error => self.unavailable(purpose, &error),
        }
    }

    pub(super) fn unavailable(&mut self, purpose: Purpose, error: &LockError) {
        let reason = SkipReason::Unavailable { error: error.to_string().into() };
        self.tell_skipped(purpose, reason);
        let pause = self.pause();
        self.hold_off(purpose, pause);
    }

    pub(super) fn hold_off(&mut self, purpose: Purpose, pause: Duration) {
        let until = self.shared.core().clock().now() + pause;
        match purpose {
            Purpose::Tick(tick) => self.hold_off = Some((tick, until)),
            // Whoever asked can ask again.
            Purpose::Trigger => {}
            Purpose::Register => self.register_at = Some(until),
        }
    }

    /// Longer from time to time, and different on each replica.
    pub(super) fn pause(&mut self) -> Duration {
        let longest = FIRST_PAUSE.saturating_mul(1 << self.tries.min(16)).min(LONGEST_PAUSE);
        self.tries += 1;
        random::within(&(longest / 2..=longest))
    }
}

/// The request for a job's lock.
pub(super) fn request(redlock: &Redlock, job: &str, options: &JobOptions) -> LockRequest {
    let mut request = redlock.lock(lock_name(job)).wait(Duration::ZERO).max_hold(options.max_run);
    if let Some(ttl) = options.ttl {
        request = request.ttl(ttl);
    }
    if let Some(overrun) = options.on_overrun {
        request = request.on_overrun(overrun);
    }
    request
}

/// The resource that is locked while a job runs.
pub(super) fn lock_name(job: &str) -> String {
    format!("job:{job}")
}

pub(super) fn millis(time: WallTime) -> Duration {
    Duration::from_millis(time.as_millis())
}
