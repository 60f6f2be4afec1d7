//! The loop of one job on one replica: waits for ticks, acquires the lock, recovers from panics.

use std::{ops::ControlFlow, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tokio::sync::{Mutex, OwnedSemaphorePermit, watch};

use super::{
    JobEventKind, JobState, JobStop, MissReason, Outcome, SkipReason,
    attempts::{backoff, message},
    history::HistoryState,
    job::JobOptions,
    policy::{Due, JobRecord, next_overlap},
    reporting::{Outage, ReportedSkip},
    shared::{Control, Phase, SchedulerShared},
    shared_job::SharedJob,
    sync::{FutureValue, NextStep, OwnSchedule},
    trigger::PendingTrigger,
    work::JobWork,
};
use crate::{
    error::LockError,
    lock::{SingleAttempts, claims::JobHistory},
    protocol::{TickClaim, TickRun},
    quorum::claims::LatestClaim,
    schedule::{Schedule, WallTime},
    time::Timestamp,
};

pub(super) struct Driver {
    pub(super) shared: Arc<SchedulerShared>,
    pub(super) job: Arc<SharedJob>,
    pub(super) schedule: Schedule,
    pub(super) options: JobOptions,
    /// Locked by the current run.
    pub(super) work: Arc<Mutex<Box<dyn JobWork>>>,
    pub(super) control: watch::Receiver<Control>,
    jumps: watch::Receiver<u64>,
    /// The fleet's knowledge of the job, as last read.
    pub(super) record: JobRecord,
    pub(super) latest: Option<LatestClaim>,
    pub(super) own_schedule: OwnSchedule,
    /// Stored values that lie in the future.
    pub(super) future_values: Vec<FutureValue>,
    /// Tokens of this replica's latest claims whose runs never started.
    pub(super) never_started: Vec<u64>,
    pub(super) history: HistoryState,
    /// The latest run known to have ended, kept even if the nodes forget it.
    pub(super) known_end: Option<TickRun>,
    /// Its end, if too few nodes stored it.
    pub(super) unstored_end: Option<TickClaim>,
    /// The latest tick started here, kept even if the nodes forget it.
    pub(super) own_tick: Option<WallTime>,
    /// Earliest time of the next attempt, and its tick.
    pub(super) hold_off: Option<(WallTime, Timestamp)>,
    /// Waits for the release of the lock during `hold_off`; absent if a release changes nothing.
    pub(super) releases: Option<SingleAttempts>,
    /// The tick that waits for a run elsewhere, as last seen.
    pub(super) queued: Option<WallTime>,
    /// Consecutive refusals by the nodes or the local line.
    pub(super) refusals: u32,
    /// The latest tick reported as skipped, and as missed.
    pub(super) reported_skip: Option<ReportedSkip>,
    pub(super) reported_missed: Option<WallTime>,
    /// The latest tick reported as given up.
    pub(super) reported_given_up: Option<WallTime>,
    /// When to store the job's state, if too few nodes have it.
    pub(super) register_at: Option<Timestamp>,
    /// Why the current run was asked to stop, though it may go on.
    pub(super) stopped_for: Option<StopCause>,
    /// Why the latest tick did not run.
    pub(super) obstacle: Option<MissReason>,
    /// The outage that was logged at WARN, while it lasts.
    pub(super) outage: Option<Outage>,
    /// When to ask for the lock for a run that was requested of the fleet, if there is one.
    pub(super) requested_at: Option<Timestamp>,
    /// The start of a tick at which to read whether the job is still paused.
    pub(super) check_pause_at: Option<WallTime>,
    /// The trigger that the current run, or attempt at one, is for.
    pub(super) asked: Option<PendingTrigger>,
    /// Held from before the lock is acquired until the work has ended.
    pub(super) slot: Option<OwnedSemaphorePermit>,
    /// Consecutive turns that panicked outside of the work.
    pub(super) panics: u32,
    has_begun: bool,
    pub(super) is_closed: bool,
}

/// Why a run is stopped that neither a shutdown nor a lock ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StopCause {
    NextTick,
    Command(JobStop),
}

/// Purpose of acquiring the job's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Tick(WallTime),
    Trigger,
    /// A run that was requested of the whole fleet.
    Request,
    /// Stores since when the job exists, or how its latest run ended.
    Register,
}

/// Why a job has ended.
pub(super) const CLOSED: &str = "the lock manager is shut down";
pub(super) const REMOVED: &str = "the job was removed";
const SHUT_DOWN: &str = "the scheduler was shut down";

/// First pause after a panic; doubles with each consecutive one.
const PANIC_PAUSE: Duration = Duration::from_secs(1);

impl Driver {
    pub(super) fn new(
        shared: &Arc<SchedulerShared>,
        job: &Arc<SharedJob>,
        (schedule, options): (Schedule, JobOptions),
        work: Box<dyn JobWork>,
        kept: JobHistory,
    ) -> Self {
        let now = shared.now();
        let owner = Arc::clone(shared.redlock.owner());
        let own_schedule = OwnSchedule::new(&schedule, millis(now), owner);
        let mut driver = Self {
            shared: Arc::clone(shared),
            job: Arc::clone(job),
            schedule,
            options,
            work: Arc::new(Mutex::new(work)),
            control: shared.control.subscribe(),
            jumps: shared.wall_timer.jumps(),
            record: JobRecord::new(now),
            latest: None,
            own_schedule,
            future_values: Vec::new(),
            never_started: Vec::new(),
            history: HistoryState::default(),
            known_end: None,
            unstored_end: None,
            own_tick: None,
            hold_off: None,
            releases: None,
            queued: None,
            refusals: 0,
            reported_skip: None,
            reported_missed: None,
            reported_given_up: None,
            register_at: None,
            stopped_for: None,
            obstacle: None,
            outage: None,
            requested_at: None,
            check_pause_at: None,
            asked: None,
            slot: None,
            panics: 0,
            has_begun: false,
            is_closed: false,
        };
        driver.apply(kept);
        if driver.latest.is_none() {
            driver.register_at = Some(driver.register_time());
        }
        driver
    }

    /// Runs until the scheduler or the manager has ended.
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
        let is_removed = self.job.is_removed();
        if self.job.is_retiring() && !is_removed && !self.is_closed && self.is_running() {
            // Its task goes on with what replaces it.
            return;
        }
        let reason = match (self.is_closed, is_removed) {
            (true, _) => CLOSED,
            (_, true) => REMOVED,
            _ => SHUT_DOWN,
        };
        self.job.set_ended(reason);
        if self.is_closed || is_removed {
            let kind = JobEventKind::Ended { reason: reason.into() };
            self.shared.emit(&self.job, self.shared.now(), kind);
        }
    }

    async fn turn(&mut self) -> ControlFlow<()> {
        let control = *self.control.borrow_and_update();
        if self.is_closed || control.phase > Phase::Running || self.job.is_retiring() {
            return ControlFlow::Break(());
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            self.report_exhausted();
        }
        self.jumps.mark_unchanged();
        let now = self.shared.now();
        if !control.leads {
            self.stand_by().await;
        } else if let Some(asked) = self.job.take_trigger() {
            self.asked = Some(asked);
            self.acquire(Purpose::Trigger).await;
            self.answer_unless_done(None);
        } else if self.is_requested() {
            self.acquire(Purpose::Request).await;
            self.answer_unless_done(None);
        } else if self.register_at.is_some_and(|at| self.shared.redlock.now() >= at) {
            self.register_at = None;
            self.acquire(Purpose::Register).await;
        } else if let Some(pause) = self.job.pause_at(now) {
            self.wait_while_paused(pause, now).await;
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
            self.report_skipped(Purpose::Trigger, SkipReason::NotLeading);
        }
        self.idle(None, None).await;
    }

    async fn follow_schedule(&mut self, now: WallTime) {
        let NextStep { due, unknown } = self.next(now).await;
        match due {
            Due::Run { tick, start, .. } => {
                // Of a schedule that counts from the last end, the tick moves while we hold off.
                let held_off =
                    self.hold_off.filter(|(of, _)| *of == tick || self.schedule.is_after_end());
                if let Some((_, until)) = held_off
                    && self.shared.redlock.now() < until
                {
                    let next = next_overlap(&self.schedule, &self.job.name, tick, now.max(start));
                    let until = self.register_at.map_or(until, |at| at.min(until));
                    self.wait_for_release(next.map(|(_, start)| start), until).await;
                } else {
                    self.acquire(Purpose::Tick(tick)).await;
                }
            }
            Due::Wait { tick, start, missed } => {
                self.report_missed(missed);
                self.job.set_next(Some(tick));
                self.wait(Some(start), unknown).await;
            }
            Due::Never { missed } => {
                self.report_missed(missed);
                self.job.set_next(None);
                self.job.set_state(JobState::NoMoreTicks);
                self.wait(None, unknown).await;
            }
        }
    }

    /// Waits until a tick starts, or until it is time to query the nodes again after a failure.
    async fn wait(&mut self, start: Option<WallTime>, unknown: Option<LockError>) {
        let mut until = self.register_at;
        let obstacle = self.obstacle.take();
        if let Some(error) = unknown {
            self.note_unavailable(&error);
            self.obstacle = obstacle.or(self.obstacle.take());
            let again = self.shared.redlock.now() + self.pause();
            until = Some(until.map_or(again, |at| at.min(again)));
        }
        self.idle(start, until).await;
    }

    /// Waits for a time of the wall clock, a time of the steady clock, or a request.
    pub(super) async fn idle(&mut self, wall: Option<WallTime>, until: Option<Timestamp>) {
        self.releases = None;
        let alarm = self.shared.wall_timer.at(wall);
        let until = [until, self.requested_at].into_iter().flatten().min();
        let timer = until.map(|at| self.shared.redlock.sleep_until(at));
        tokio::select! {
            biased;
            () = alarm => {}
            () = async { timer.expect("there is one").await }, if until.is_some() => {}
            () = self.job.asked.notified() => {}
            _ = self.control.changed() => {}
            _ = self.jumps.changed() => {}
        }
    }

    fn is_running(&self) -> bool {
        self.shared.control().phase == Phase::Running
    }

    pub(super) fn may_run(&self) -> bool {
        self.shared.control() == Control { phase: Phase::Running, leads: true }
    }

    /// May change at any time, also during a query.
    pub(super) fn may_start(&self, purpose: Purpose) -> bool {
        let is_paused =
            matches!(purpose, Purpose::Tick(_)) && self.job.is_paused(self.shared.now());
        self.may_run() && !is_paused && !self.job.is_retiring()
    }

    /// Cleans up after a panic outside of the work; the job continues after a pause.
    pub(super) async fn recover(&mut self, message: &Arc<str>) {
        self.slot = None;
        if let Some(running) = self.job.running() {
            let outcome = Outcome::Panicked { message: Arc::clone(message) };
            let now = self.shared.now();
            let tick = WallTime::from(running.tick);
            let took = now.as_millis().saturating_sub(WallTime::from(running.since).as_millis());
            let took = Duration::from_millis(took);
            self.job.ended(&outcome, took, now);
            self.shared.emit(&self.job, tick, JobEventKind::of(&outcome, took));
            self.answer(Ok(outcome));
        }
        self.answer_unless_done(Some(message));
        let pause = backoff(PANIC_PAUSE, self.panics);
        self.panics = self.panics.saturating_add(1);
        crate::log::warn!(
            job = %self.job.name,
            panic = %message,
            ?pause,
            "the job's schedule, or a subscriber, panicked: the job goes on after a pause"
        );
        self.obstacle = Some(MissReason::BackingOff);
        let reason = format!("a panic outside of the work: {message}").into();
        self.job.set_state(JobState::BackingOff { reason });
        tokio::select! {
            biased;
            () = self.shared.sleep(pause) => {}
            _ = self.control.wait_for(|control| control.phase > Phase::Running) => {}
        }
    }
}

pub(super) fn millis(time: WallTime) -> Duration {
    Duration::from_millis(time.as_millis())
}
