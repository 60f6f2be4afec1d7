//! The life of one job on one replica: waits for ticks, takes the lock, and begins again.

use std::{ops::ControlFlow, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tokio::sync::{Mutex, OwnedSemaphorePermit, watch};

use super::{
    JobEventKind, JobState, MissReason, SkipReason,
    attempts::message,
    healing::FromFuture,
    job::JobOptions,
    jobs::{Control, Phase, Shared},
    learning::Next,
    policy::{Due, Record, next_overlap},
    replacing::OwnSchedule,
    reports::CutOff,
    shared_job::SharedJob,
    telling::Told,
    trigger::Asked,
    work::Work,
};
use crate::{
    error::LockError,
    lock::{LockRequest, Redlock, SingleAttempts, claims::JobHistory},
    protocol::{TickClaim, TickRun},
    quorum::claims::Latest,
    random,
    resource::Resource,
    schedule::{Schedule, WallTime},
    time::Timestamp,
};

pub(super) struct Driver {
    pub(super) shared: Arc<Shared>,
    pub(super) job: Arc<SharedJob>,
    pub(super) schedule: Schedule,
    pub(super) options: JobOptions,
    /// Taken by the run that is going.
    pub(super) work: Arc<Mutex<Box<dyn Work>>>,
    pub(super) control: watch::Receiver<Control>,
    jumps: watch::Receiver<u64>,
    /// What the fleet knows of the job, as last seen.
    pub(super) record: Record,
    pub(super) latest: Option<Latest>,
    pub(super) own_schedule: OwnSchedule,
    /// Stored values that lie in the future.
    pub(super) from_future: Vec<FromFuture>,
    /// The tokens of our latest claims that came to nothing.
    pub(super) never_started: Vec<u64>,
    /// The latest run that is known to have ended, here or elsewhere: also where the nodes forgot it.
    pub(super) known_end: Option<TickRun>,
    /// Its end, where too few nodes took it.
    pub(super) unstored_end: Option<TickClaim>,
    /// The latest tick that was started here: also where the nodes forgot it.
    pub(super) own_tick: Option<WallTime>,
    /// Not before that, for this tick.
    pub(super) hold_off: Option<(WallTime, Timestamp)>,
    /// Tells of the release that `hold_off` waits for; absent where nothing would be done about it.
    pub(super) releases: Option<SingleAttempts>,
    /// The tick that waits for a run elsewhere, as last seen.
    pub(super) queued: Option<WallTime>,
    /// How often in a row the nodes, or the line before the lock, turned us away.
    pub(super) tries: u32,
    /// The latest tick that was told of as skipped, or as missed.
    pub(super) told_skipped: Option<Told>,
    pub(super) told_missed: Option<WallTime>,
    /// The latest tick that was given up, as its runs were broken off.
    pub(super) told_given_up: Option<WallTime>,
    /// When to store what too few nodes know of the job.
    pub(super) register_at: Option<Timestamp>,
    /// The run that is going was asked to stop for the next tick.
    pub(super) gave_way: bool,
    /// What kept the latest tick from being run.
    pub(super) obstacle: Option<MissReason>,
    /// Too few nodes answered for the job, as was told at WARN.
    pub(super) is_cut_off: Option<CutOff>,
    /// The request that the present run, or the try at one, is for.
    pub(super) asked: Option<Asked>,
    /// JobHistory from before the lock is asked for until the work has ended.
    pub(super) slot: Option<OwnedSemaphorePermit>,
    /// How many turns in a row panicked outside of the work.
    pub(super) panics: u32,
    has_begun: bool,
    pub(super) is_closed: bool,
}

/// What the job's lock is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Tick(WallTime),
    Trigger,
    /// To store what the nodes ought to know: since when the job exists, or how its latest run ended.
    Register,
}

/// Pauses after a refusal, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Why a job has ended.
pub(super) const CLOSED: &str = "the lock manager is shut down";
const SHUT_DOWN: &str = "the scheduler was shut down";

impl Driver {
    pub(super) fn new(
        shared: &Arc<Shared>,
        job: &Arc<SharedJob>,
        (schedule, options): (Schedule, JobOptions),
        work: Box<dyn Work>,
        kept: JobHistory,
    ) -> Self {
        let now = shared.now();
        let owner = Arc::clone(&shared.core().settings.owner);
        let own_schedule = OwnSchedule::new(&schedule, millis(now), owner);
        let mut driver = Self {
            shared: Arc::clone(shared),
            job: Arc::clone(job),
            schedule,
            options,
            work: Arc::new(Mutex::new(work)),
            control: shared.control.subscribe(),
            jumps: shared.alarms.jumps(),
            record: Record::new(now),
            latest: None,
            own_schedule,
            from_future: Vec::new(),
            never_started: Vec::new(),
            known_end: None,
            unstored_end: None,
            own_tick: None,
            hold_off: None,
            releases: None,
            queued: None,
            tries: 0,
            told_skipped: None,
            told_missed: None,
            told_given_up: None,
            register_at: None,
            gave_way: false,
            obstacle: None,
            is_cut_off: None,
            asked: None,
            slot: None,
            panics: 0,
            has_begun: false,
            is_closed: false,
        };
        driver.learn(kept);
        if driver.latest.is_none() {
            driver.register_at = Some(driver.soon());
        }
        driver
    }

    /// Goes on until the scheduler or the manager has ended.
    pub(super) async fn drive(mut self) {
        loop {
            // The work's panics are caught where it runs; a schedule is foreign code too.
            match AssertUnwindSafe(self.turn()).catch_unwind().await {
                Ok(ControlFlow::Continue(())) => self.panics = 0,
                Ok(ControlFlow::Break(())) => break,
                Err(panic) => self.recover(&message(&*panic)).await,
            }
        }
        self.job.set_next(None);
        let reason = if self.is_closed { CLOSED } else { SHUT_DOWN };
        self.job.set_ended(reason);
        if self.is_closed {
            let kind = JobEventKind::Ended { reason: reason.into() };
            self.shared.emit(&self.job, self.shared.now(), kind);
        }
    }

    async fn turn(&mut self) -> ControlFlow<()> {
        let control = *self.control.borrow_and_update();
        if self.is_closed || control.phase > Phase::Running {
            return ControlFlow::Break(());
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            self.tell_over();
        }
        self.jumps.mark_unchanged();
        let now = self.shared.now();
        if !control.leads {
            self.stand_by().await;
        } else if let Some(asked) = self.job.take_trigger() {
            self.asked = Some(asked);
            self.acquire(Purpose::Trigger).await;
            self.answer_unless_done(None);
        } else if self.register_at.is_some_and(|at| self.shared.core().clock().now() >= at) {
            self.register_at = None;
            self.acquire(Purpose::Register).await;
        } else if self.job.is_paused() {
            self.obstacle = Some(MissReason::Paused);
            self.job.set_next(None);
            self.idle(None, self.register_at).await;
        } else {
            self.follow_schedule(now).await;
        }
        ControlFlow::Continue(())
    }

    /// Another replica leads, and runs what is due.
    async fn stand_by(&mut self) {
        self.obstacle = Some(MissReason::NotLeading);
        self.job.set_next(None);
        self.job.set_state(JobState::StandingBy { leader: None });
        while let Some(asked) = self.job.take_trigger() {
            self.asked = Some(asked);
            self.tell_skipped(Purpose::Trigger, SkipReason::NotLeading);
        }
        self.idle(None, None).await;
    }

    async fn follow_schedule(&mut self, now: WallTime) {
        let Next { due, unknown } = self.next(now).await;
        match due {
            Due::Run { tick, start, .. } => {
                // Of a schedule that counts from the last end, the tick moves while we hold off.
                let held_off =
                    self.hold_off.filter(|(of, _)| *of == tick || self.schedule.is_after_end());
                if let Some((_, until)) = held_off
                    && self.shared.core().clock().now() < until
                {
                    let next = next_overlap(&self.schedule, &self.job.name, tick, now.max(start));
                    let until = self.register_at.map_or(until, |at| at.min(until));
                    self.wait_for_release(next.map(|(_, start)| start), until).await;
                } else {
                    self.acquire(Purpose::Tick(tick)).await;
                }
            }
            Due::Wait { tick, start, missed } => {
                self.tell_missed(missed);
                self.job.set_next(Some(tick));
                self.wait(Some(start), unknown).await;
            }
            Due::Never { missed } => {
                self.tell_missed(missed);
                self.job.set_next(None);
                self.job.set_state(JobState::NoMoreTicks);
                self.wait(None, unknown).await;
            }
        }
    }

    /// Until a tick starts. What the nodes could not be asked for is asked again before that.
    async fn wait(&mut self, start: Option<WallTime>, unknown: Option<LockError>) {
        let mut until = self.register_at;
        let obstacle = self.obstacle.take();
        if let Some(error) = unknown {
            self.note_unavailable(&error);
            self.obstacle = obstacle.or(self.obstacle.take());
            let again = self.shared.core().clock().now() + self.pause();
            until = Some(until.map_or(again, |at| at.min(again)));
        }
        self.idle(start, until).await;
    }

    /// Until the wall clock shows a moment, or time has come to another, or something is asked for.
    async fn idle(&mut self, wall: Option<WallTime>, until: Option<Timestamp>) {
        self.releases = None;
        let alarm = self.shared.alarms.at(wall);
        let timer = until.map(|at| self.shared.core().timers.sleep_until(at));
        tokio::select! {
            biased;
            () = alarm => {}
            () = async { timer.expect("there is one").await }, if until.is_some() => {}
            () = self.job.asked.notified() => {}
            _ = self.control.changed() => {}
            _ = self.jumps.changed() => {}
        }
    }

    async fn acquire(&mut self, purpose: Purpose) {
        if !self.take_slot(purpose).await {
            return;
        }
        match self.attempt(purpose).await {
            Ok(lock) => {
                self.releases = None;
                self.queued = None;
                // It was waited for.
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
            LockError::Held { expires_in, owner, .. } => {
                self.note_held(owner.clone());
                let _ = self.look().await;
                let holder = owner.clone();
                let reason = if self.is_started(purpose, known) {
                    SkipReason::AlreadyStarted { by: owner }
                } else {
                    SkipReason::Held { by: owner }
                };
                self.tell_skipped(purpose, reason);
                // Who runs it gives the lock back when it is done, and goes on with the schedule
                // itself. Only if it crashes, or ends, others have to.
                // One that was broken off is none: others may just have got in each other's way.
                let going = self.latest.as_ref().is_some_and(|latest| {
                    latest.run.is_open() && (latest.owner.is_none() || latest.owner == holder)
                });
                if let (Purpose::Tick(tick), Some((of, _))) = (purpose, self.hold_off)
                    && of != tick
                    && !self.schedule.is_after_end()
                {
                    // The nodes answer, and this tick was not tried for yet.
                    self.tries = 0;
                }
                let ttl = self.options.lock.ttl.unwrap_or(self.shared.core().settings.ttl);
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
        self.tell_skipped(purpose, SkipReason::Unavailable { error: text });
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
    redlock
        .lock_own(Resource::of_job(job))
        .options(options.lock())
        .polled_within(Some(options.polled_within()))
}

pub(super) fn millis(time: WallTime) -> Duration {
    Duration::from_millis(time.as_millis())
}
