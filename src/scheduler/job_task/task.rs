//! The loop of one job's task: waits for ticks and requests, carries them out, recovers from panics.

use std::{ops::ControlFlow, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tokio::sync::{Mutex, Semaphore, watch};

use super::{
    super::{
        Job, JobEventKind, JobState, MissReason, Outcome, RunningJob, SkipReason,
        shared::{Control, Executor, Phase, SchedulerShared},
        shared_job::SharedJob,
        work::{JobWork, panic_message},
    },
    attempts::backoff,
    env::{Due, JobEnv, NextStep, Purpose},
    findings::UnreportedFindings,
    history::HistoryState,
    knowledge::FleetKnowledge,
    lanes::Lanes,
    reports::{Reports, report_exhausted},
    waits::Waits,
};
use crate::{error::LockError, lock::claims::JobHistory, schedule::WallTime, time::Timestamp};

/// The task of a job: the parts that stay from one run to the next.
pub(in super::super) struct JobTask {
    pub(super) env: Arc<JobEnv>,
    pub(super) executor: Executor,
    /// Limits concurrent runs of the scheduler.
    pub(super) slots: Option<Arc<Semaphore>>,
    /// The runs beside each other, of a parallel job.
    pub(super) lanes: Option<Arc<Lanes>>,
    /// Locked by the current run, or while one of several begins.
    pub(super) work: Arc<Mutex<Box<dyn JobWork>>>,
    pub(super) control: watch::Receiver<Control>,
    /// Jumps of the wall clock.
    jumps: watch::Receiver<u64>,
    pub(super) fleet: FleetKnowledge,
    pub(super) history: HistoryState,
    pub(super) waits: Waits,
    pub(super) reports: Reports,
    /// What was found under claims that too few nodes confirmed.
    pub(super) unreported: Vec<UnreportedFindings>,
    /// Another replica led, as last seen: what the fleet has run meanwhile is not known.
    is_behind: bool,
}

/// Why a job's task ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskExit {
    /// The lock manager is shut down.
    Closed,
    Removed,
    /// Another task takes its place.
    Replaced,
    ShutDown,
}

/// Why a job has ended.
pub(in super::super) const CLOSED: &str = "the lock manager is shut down";
pub(in super::super) const REMOVED: &str = "the job was removed";
pub(in super::super) const SHUT_DOWN: &str = "the scheduler was shut down";

/// First pause after a panic; doubles with each consecutive one.
const PANIC_PAUSE: Duration = Duration::from_secs(1);

impl JobTask {
    /// `kept`: what the nodes keep of the job.
    pub(in super::super) fn new(
        shared: &SchedulerShared,
        shared_job: &Arc<SharedJob>,
        job: Job,
        kept: JobHistory,
    ) -> Self {
        let Job { schedule, options, work, .. } = job;
        let env = JobEnv {
            redlock: shared.redlock.clone(),
            wall_timer: Arc::clone(&shared.wall_timer),
            events: Arc::clone(&shared.events),
            roster: Arc::clone(&shared.roster),
            job: Arc::clone(shared_job),
            schedule,
            options,
        };
        let owner = env.redlock.owner();
        let (claim, options) = (env.options.claim, &env.options);
        let lanes = options.is_parallel().then(|| Arc::new(Lanes::new(options.parallel)));
        let fleet = FleetKnowledge::new(&env.job.name, owner, &env.schedule, claim, env.now());
        let mut task = Self {
            env: Arc::new(env),
            executor: shared.executor.clone(),
            slots: shared.slots.clone(),
            lanes,
            work: Arc::new(Mutex::new(work)),
            control: shared.control.subscribe(),
            jumps: shared.wall_timer.jumps(),
            fleet,
            history: HistoryState::default(),
            waits: Waits::default(),
            reports: Reports::default(),
            unreported: Vec::new(),
            is_behind: false,
        };
        task.env.watch_lock();
        task.apply(kept);
        if task.fleet.latest.is_none() {
            task.register_soon();
        }
        task
    }

    /// Runs until the scheduler or the manager has ended, or the job is removed or replaced.
    pub(in super::super) async fn drive(mut self) {
        let (mut is_first, mut panics) = (true, 0_u32);
        let exit = loop {
            let turn = AssertUnwindSafe(self.turn(std::mem::take(&mut is_first)));
            // The work's panics are caught where it runs; a schedule is foreign code too.
            match turn.catch_unwind().await {
                Ok(ControlFlow::Continue(())) => panics = 0,
                Ok(ControlFlow::Break(exit)) => break exit,
                Err(panic) => {
                    self.recover(&panic_message(&*panic), panics).await;
                    panics = panics.saturating_add(1);
                }
            }
        };
        let job = &self.env.job;
        job.set_next(None);
        if let Some(lanes) = &self.lanes {
            lanes.idle().await;
        }
        let reason = match exit {
            TaskExit::Closed => CLOSED,
            TaskExit::Removed => REMOVED,
            TaskExit::ShutDown => SHUT_DOWN,
            TaskExit::Replaced => return,
        };
        debug_assert!(job.running().is_none(), "a task ends between two runs");
        job.set_ended(reason);
        if exit != TaskExit::ShutDown {
            let kind = JobEventKind::Ended { reason: reason.into() };
            self.env.emit(self.env.now(), kind);
        }
    }

    fn exit(&self, control: Control) -> Option<TaskExit> {
        let is_over = control.phase > Phase::Running;
        match (self.env.job.is_removed(), self.env.job.is_retiring()) {
            (true, _) => Some(TaskExit::Removed),
            _ if is_over => Some(TaskExit::ShutDown),
            (false, is_replaced) => is_replaced.then_some(TaskExit::Replaced),
        }
    }

    /// Does what is next: carries out a purpose, or waits for one.
    async fn turn(&mut self, is_first: bool) -> ControlFlow<TaskExit> {
        let control = *self.control.borrow_and_update();
        if let Some(exit) = self.exit(control) {
            return ControlFlow::Break(exit);
        }
        if is_first {
            report_exhausted(&self.env, &self.fleet.record);
        }
        // An error shows again in the next query.
        let _ = self.follow_owed_end().await;
        self.jumps.mark_unchanged();
        if control.leads && std::mem::take(&mut self.is_behind) {
            // A run of the former leader may have been interrupted.
            self.is_behind = self.sync().await.is_err();
        }
        if self.env.job.take_lock_over() {
            self.note_lock_over().await;
        }
        let now = self.env.now();
        let (job, steady) = (&self.env.job, self.env.redlock.now());
        if !control.leads {
            self.stand_by().await;
        } else if job.take_trigger() {
            return self.carry_out(Purpose::Trigger).await;
        } else if self.waits.is_request_due(job.has_requests(), steady) {
            return self.carry_out(Purpose::Request).await;
        } else if self.fleet.settle_at.take_if(|at| steady >= *at).is_some() {
            if self.has_to_settle(now) {
                return self.carry_out(Purpose::Settle).await;
            }
        } else if let Some(pause) = job.pause_at(now) {
            self.wait_while_paused(pause, now).await;
        } else {
            return self.follow_schedule(now).await;
        }
        ControlFlow::Continue(())
    }

    /// Goes through the phases of a run, as far as it gets: acquires, claims, runs, and stores the end.
    async fn carry_out(&mut self, purpose: Purpose) -> ControlFlow<TaskExit> {
        let exit = match self.acquire(purpose).await {
            Ok(Some(acquired)) => {
                if let Some(claimed) = self.claim(acquired).await
                    && let Some(begun) = self.begin(claimed).await
                {
                    if let Some(lanes) = self.lanes.clone() {
                        self.run_beside(begun, lanes);
                    } else {
                        let ended = self.run(begun).await;
                        self.end(ended).await;
                    }
                }
                None
            }
            Ok(None) => None,
            Err(exit) => Some(exit),
        };
        self.answer_unless_done(None);
        debug_assert!(self.env.job.trigger().is_none(), "each trigger is answered");
        exit.map_or(ControlFlow::Continue(()), ControlFlow::Break)
    }

    /// Another replica leads, and runs what is due.
    async fn stand_by(&mut self) {
        self.reports.obstacle = Some(MissReason::NotLeading);
        self.is_behind = true;
        let job = &self.env.job;
        job.set_next(None);
        job.set_state(JobState::StandingBy { leader: None });
        while job.take_trigger() {
            let reason = SkipReason::NotLeading;
            self.reports.skipped(&self.env, &self.fleet.record, Purpose::Trigger, reason);
        }
        self.idle(None, None).await;
    }

    async fn follow_schedule(&mut self, now: WallTime) -> ControlFlow<TaskExit> {
        let NextStep { due, unknown } = self.next(now).await;
        if !matches!(due, Due::Run { .. }) && due.missed().is_none() {
            self.reports.obstacle = None;
        }
        match due {
            Due::Run { tick, start, .. } => {
                // Of a schedule that counts from the last end, the tick moves while the task holds off.
                let moves = self.env.schedule.is_after_end();
                let held_off = self.waits.hold_off.filter(|(of, _)| *of == tick || moves);
                let now_steady = self.env.redlock.now();
                let Some((_, until)) = held_off.filter(|(_, until)| now_steady < *until) else {
                    return self.carry_out(Purpose::Tick(tick)).await;
                };
                let next = self.env.next_overlap(tick, now.max(start));
                let until = self.fleet.settle_at.map_or(until, |at| at.min(until));
                self.wait_for_release(next.map(|(_, start)| start), until).await;
            }
            Due::Wait { tick, start, .. } => {
                self.env.job.set_next(Some(tick));
                self.wait(Some(start), unknown).await;
            }
            Due::Never { .. } => {
                self.env.job.set_next(None);
                self.env.job.set_state(JobState::NoMoreTicks);
                self.wait(None, unknown).await;
            }
        }
        ControlFlow::Continue(())
    }

    /// Waits until a tick starts, or until it is time to query the nodes again after a failure.
    async fn wait(&mut self, start: Option<WallTime>, unknown: Option<LockError>) {
        let mut until = self.fleet.settle_at;
        if let Some(error) = unknown {
            let error = self.reports.note_unavailable(&self.env, &error);
            self.reports.obstacle.get_or_insert(MissReason::Unavailable { error });
            let again = self.env.redlock.now() + self.waits.pause();
            until = Some(until.map_or(again, |at| at.min(again)));
        }
        self.idle(start, until).await;
    }

    /// Waits for a time of the wall clock, a time of the steady clock, or a request.
    pub(super) async fn idle(&mut self, wall: Option<WallTime>, until: Option<Timestamp>) {
        self.waits.releases = None;
        let env = &self.env;
        let alarm = env.wall_timer.at(wall);
        let until = [until, self.waits.requested_at].into_iter().flatten().min();
        let timer = until.map(|at| env.redlock.sleep_until(at));
        let owed = self.fleet.owed_end.as_ref().map(|(_, owed)| Arc::clone(owed));
        tokio::select! {
            biased;
            () = alarm => {}
            () = async { timer.expect("there is one").await }, if until.is_some() => {}
            _ = async { owed.as_ref().expect("there is one").is_stored().await }, if owed.is_some() => {}
            () = env.job.changed.notified() => {}
            _ = self.control.changed() => {}
            _ = self.jumps.changed() => {}
        }
    }

    pub(super) fn may_run(&self) -> bool {
        *self.control.borrow() == Control { phase: Phase::Running, leads: true }
    }

    /// May change at any time, also during a query.
    pub(super) fn may_start(&self, purpose: Purpose) -> bool {
        let job = &self.env.job;
        let is_paused =
            matches!(purpose, Purpose::Tick(_)) && job.pause_at(self.env.now()).is_some();
        self.may_run() && !is_paused && !job.is_retiring()
    }

    /// Answers a trigger for which nothing ran.
    fn answer_unless_done(&mut self, panic: Option<&Arc<str>>) {
        if self.env.job.trigger().is_none() {
            return;
        }
        let control = *self.control.borrow();
        let redlock = &self.env.redlock;
        let is_closed = redlock.is_closed();
        let reason = match panic {
            _ if is_closed || control.phase > Phase::Running => SkipReason::Ended,
            Some(panic) => SkipReason::Unavailable { error: Arc::clone(panic) },
            None if !control.leads => SkipReason::NotLeading,
            None => {
                SkipReason::Unavailable { error: "the lock ended before the work began".into() }
            }
        };
        self.reports.skipped(&self.env, &self.fleet.record, Purpose::Trigger, reason);
    }

    /// Cleans up after a panic outside of the work; the job continues after a pause.
    async fn recover(&mut self, message: &Arc<str>, panics: u32) {
        let env = Arc::clone(&self.env);
        let job = &env.job;
        // Runs beside each other have tasks of their own, once they have begun.
        let is_own = |run: &RunningJob| self.lanes.as_ref().is_none_or(|of| !of.has(run.tick));
        for running in job.runs().into_iter().filter(is_own) {
            let outcome = Outcome::Panicked { message: Arc::clone(message) };
            let now = env.now();
            let since = WallTime::from(running.since).as_millis();
            let took = Duration::from_millis(now.as_millis().saturating_sub(since));
            let (kind, _) = job.ended(running.key(), &outcome, took, now);
            env.emit(running.tick.into(), kind);
            job.answer(Ok(outcome));
        }
        self.answer_unless_done(Some(message));
        let pause = backoff(PANIC_PAUSE, panics);
        crate::log::warn!(
            job = %job.name,
            panic = %message,
            ?pause,
            "the job's schedule, or a subscriber, panicked: the job continues after a pause"
        );
        self.reports.obstacle = Some(MissReason::BackingOff);
        let reason = format!("a panic outside of the work: {message}").into();
        job.set_state(JobState::BackingOff { reason });
        tokio::select! {
            biased;
            () = env.sleep(pause) => {}
            _ = self.control.wait_for(|control| control.phase > Phase::Running) => {}
        }
    }
}
