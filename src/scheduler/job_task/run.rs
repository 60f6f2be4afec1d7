//! The fourth phase: runs the work under the lock, and watches it until it has ended.

use std::{sync::Arc, time::Duration};

use tokio::sync::{Mutex, OwnedSemaphorePermit, watch};

use super::{
    super::{
        JobEventKind, JobRun, JobRunResult, JobStop, MissReason, Outcome, RunningJob,
        context::RunInfo,
        shared::{Control, Executor, Phase},
        status::RunKey,
        work::JobWork,
    },
    acquire::{RunLocks, RunSlot},
    attempts::{RunAttempts, WorkOfRun},
    blocking::BlockingRun,
    claim::ClaimedRun,
    current_run::{
        CurrentRun, PolledRun, WorkResult, follow_stop_command, on_overlap, overlap_after,
    },
    end::EndedRun,
    env::{JobEnv, Purpose},
    lanes::OpenRun,
    task::JobTask,
};
use crate::{
    error::{LockError, LossCause},
    guard::{Guarded, Hold},
    lock::Lock,
    protocol::{FormerClaim, TickRun},
    quorum::claims::LatestClaim,
    schedule::WallTime,
    time::Timestamp,
};

/// A run that has begun, under its lock.
pub(super) struct BegunRun {
    current: CurrentRun,
    slot: RunSlot,
    open: Option<OpenRun>,
    /// The claimed run. For a run on demand, the latest claimed run, unchanged.
    pub(super) run: TickRun,
    /// The latest claim before.
    before: Option<FormerClaim>,
    /// The run as the history has it.
    pub(super) entry: JobRun,
    begun: Timestamp,
}

impl BegunRun {
    pub(super) fn is_triggered(&self) -> bool {
        self.current.info.trigger.is_some()
    }

    pub(super) fn key(&self) -> RunKey {
        self.current.key()
    }

    pub(super) fn info(&self) -> Arc<RunInfo> {
        Arc::clone(&self.current.info)
    }

    /// Takes what a run of a parallel job has until its slot is released.
    pub(super) fn take_lane(&mut self) -> (Option<OpenRun>, Option<OwnedSemaphorePermit>) {
        (self.open.take(), self.slot.lane.take())
    }
}

/// What runs the work of a job.
pub(super) struct Runner {
    pub(super) env: Arc<JobEnv>,
    executor: Executor,
    /// Locked by the current run, or while one of several begins.
    work: Arc<Mutex<Box<dyn JobWork>>>,
    pub(super) control: watch::Receiver<Control>,
}

impl JobTask {
    pub(super) fn runner(&self) -> Runner {
        Runner {
            env: Arc::clone(&self.env),
            executor: self.executor.clone(),
            work: Arc::clone(&self.work),
            control: self.control.clone(),
        }
    }

    /// Begins the run; `None` if the lock was over before. The tick is given back then.
    pub(super) async fn begin(&mut self, claimed: ClaimedRun) -> Option<BegunRun> {
        let ClaimedRun { locks, slot, info, run, before } = claimed;
        let token = locks.token();
        let (info, begun) = (Arc::new(info), self.env.redlock.now());
        let attempt = if info.trigger.is_some() { 1 } else { run.attempt };
        let mut entry = self.entry(&info, attempt);
        let open = self.open(&entry);
        // No claim shows a run that is interrupted.
        if info.trigger.is_some() || locks.claim.is_some() {
            self.enter(token, &entry).await;
        }
        let RunLocks { work, claim: claim_lock } = locks;
        let claimed_by = claim_lock.as_ref().map(|_| token);
        let Some(current) = self.runner().start(work, claimed_by, &info, attempt) else {
            if claimed_by.is_some() {
                let why = "its slot was lost before the work began";
                entry.end(&Outcome::Stopped, self.env.now(), Some(why));
                self.enter(token, &entry).await;
            }
            if info.trigger.is_none() {
                let claim = self.claim_before(token, before);
                self.give_back(claim_lock, claim).await;
                let pause = self.waits.pause();
                self.hold_off(Purpose::Tick(info.tick), pause);
            }
            return None;
        };
        drop(claim_lock);
        let before = before.map(LatestClaim::into_former);
        Some(BegunRun { current, slot, open, run, before, entry, begun })
    }

    /// Stores a run in the history, under the job's lock.
    async fn enter(&mut self, token: u64, entry: &JobRun) {
        let (run, stored) = self.history.store(&self.env, token, entry.clone()).await;
        self.history.note_stored(&self.env, token, run, stored);
    }

    /// Runs the work to its end, and reports how it ended.
    pub(super) async fn run(&mut self, begun: BegunRun) -> EndedRun {
        let (ended, has_overlapped) = self.runner().run(begun).await;
        if has_overlapped {
            self.reports.obstacle = Some(MissReason::Overlap);
        }
        ended
    }

    /// The run as it is entered into the history, before it has ended.
    fn entry(&self, info: &RunInfo, attempt: u32) -> JobRun {
        JobRun {
            tick: info.tick.into(),
            trigger: info.trigger,
            started: info.decided.into(),
            ended: None,
            result: JobRunResult::Open,
            owner: Arc::clone(self.env.redlock.owner()),
            attempt,
            lateness: info.lateness,
            error: None,
        }
    }
}

impl Runner {
    /// Runs the work to its end, and reports how it ended. Also returns whether a tick came during the run
    /// that was skipped for it.
    pub(super) async fn run(&mut self, begun: BegunRun) -> (EndedRun, bool) {
        let BegunRun { mut current, slot, run, before, mut entry, begun, .. } = begun;
        let (context, key) = (current.context.clone(), current.key());
        let started = self.env.redlock.now();
        let ended = self.watch(&mut current).await;
        // Slots limit running work, not what follows it.
        drop(slot);
        // The lock is kept without heartbeats from here on.
        context.set_resting(true);
        let took = self.env.redlock.now().saturating_duration_since(started);
        let error = self.env.job.last_error(key);
        let (outcome, hold) = outcome_of(ended, error.as_ref(), current.command());
        let (kind, running) = self.env.job.ended(key, &outcome, took, self.env.now());
        let error = match current.command() {
            Some(stop) if outcome == Outcome::Stopped => Some(stop.to_string().into()),
            _ => error,
        };
        entry.attempt = running.map_or(entry.attempt, |running| running.attempt);
        current.span.record("outcome", kind.name());
        self.env.emit_of_run(&current.info, kind);
        log_end(&self.env, &entry, key.1.get(), &outcome, took, error.as_deref());
        entry.end(&outcome, self.env.now(), error.as_deref());
        let CurrentRun { info, stop, has_overlapped, .. } = current;
        let (token, stopped_for) = (key.1.get(), stop.map(|stop| stop.cause));
        let lock = context;
        let ended =
            EndedRun { token, info, run, before, begun, outcome, stopped_for, entry, hold, lock };
        (ended, has_overlapped)
    }

    /// Starts the work under the lock; `None` if the lock is over, or a run of a former task has the work.
    fn start(
        &self,
        lock: Lock,
        claimed_by: Option<u64>,
        info: &Arc<RunInfo>,
        attempt: u32,
    ) -> Option<CurrentRun> {
        let env = &self.env;
        let (token, slot, context) = (lock.fencing_token(), lock.slot(), lock.context());
        let span = tracing::info_span!(
            "job",
            job = %info.job,
            tick = %info.tick,
            %token,
            slot,
            attempt,
            trigger = info.trigger,
            outcome = tracing::field::Empty,
        );
        let work = match claimed_by {
            None => WorkOfRun::Alone(Arc::clone(&self.work).try_lock_owned().ok()?),
            Some(_) => WorkOfRun::Beside(Arc::clone(&self.work)),
        };
        let attempts = RunAttempts::new(env, info, attempt, work);
        let guarded = Guarded::start(lock, |context| attempts.start(context, span.clone())).ok()?;
        let (tick, since, lateness) = (info.tick.into(), env.now().into(), info.lateness);
        let blocks = env.options.blocks;
        let running = RunningJob { tick, since, lateness, token, slot, attempt, last_error: None };
        env.job.started(running, blocks, env.options.parallel);
        if blocks {
            // A shutdown does not wait for it.
            env.roster.note_change();
        }
        env.emit_of_run(info, JobEventKind::Started { token, lateness });
        crate::log::info!(
            job = %info.job,
            tick = %info.tick,
            token = token.get(),
            attempt,
            trigger = info.trigger,
            "job started"
        );
        let polled = if blocks {
            let name = &env.job.name;
            let thread = BlockingRun::start(name, &self.executor, guarded, context.clone());
            PolledRun::Thread(thread)
        } else {
            PolledRun::Here(Box::pin(guarded))
        };
        let is_alone = claimed_by.is_none();
        let overlap = is_alone.then(|| overlap_after(env, info.tick, info.decided)).flatten();
        Some(CurrentRun {
            info: Arc::clone(info),
            claimed_by,
            context,
            span,
            polled,
            stop: None,
            overlap,
            has_overlapped: false,
        })
    }

    /// Polls the work until it has ended, or is dropped.
    async fn watch(&mut self, run: &mut CurrentRun) -> WorkResult {
        let env = Arc::clone(&self.env);
        let mut renewals = run.context.renewals();
        let mut stopping = run.context.stopping();
        let mut controls = env.job.controls.subscribe();
        let (mut renews, mut reports_stop) = (true, true);
        let options = &env.options;
        let poll_interval = (!options.blocks).then(|| options.polled_within() / 4);
        loop {
            let control = *self.control.borrow_and_update();
            if control.phase > Phase::Running || !control.leads {
                run.context.ask_to_stop();
            }
            follow_stop_command(&env, run);
            let is_grace_over = run.is_grace_over(env.redlock.now());
            if (control.phase >= Phase::Stopped || !control.leads || is_grace_over)
                && let Some(hold) = run.polled.stop()
            {
                return Ok((Outcome::Stopped, Some(hold)));
            }
            let alarm = env.wall_timer.at(run.overlap.map(|(_, start)| start));
            // Work on a thread may continue past it.
            let stop = run.stop.as_ref().filter(|_| !is_grace_over);
            let drop_at = stop.map(|stop| env.redlock.sleep_until(stop.drop_at));
            // Each turn polls the work, so a healthy runtime polls it in time.
            let turn = poll_interval.map(|interval| env.sleep(interval));
            tokio::select! {
                biased;
                ended = run.polled.end() => return ended,
                _ = self.control.changed() => {}
                // The sender is the job.
                _ = controls.changed() => {}
                renewed = renewals.next(), if renews => match renewed {
                    Some(_) => {
                        let remaining = run.context.remaining();
                        env.emit_of_run(&run.info, JobEventKind::Extended { remaining });
                    }
                    None => renews = false,
                },
                () = &mut stopping, if reports_stop => {
                    reports_stop = false;
                    env.emit_of_run(&run.info, JobEventKind::Stopping);
                }
                () = alarm => on_overlap(&env, run),
                () = async { drop_at.expect("there is one").await }, if drop_at.is_some() => {}
                () = async { turn.expect("there is one").await }, if turn.is_some() => {}
            }
        }
    }
}

/// Returns the outcome of the work, and the lock unless it was lost. `command`: the command that stopped it.
fn outcome_of(
    ended: WorkResult,
    error: Option<&Arc<str>>,
    command: Option<&JobStop>,
) -> (Outcome, Option<Hold>) {
    match ended {
        // Work that was stopped by a person is not run again.
        Ok((Outcome::NotDone { .. }, hold)) if command.is_some() => (Outcome::Stopped, hold),
        Ok(ended) => ended,
        Err(LockError::Lost { cause: LossCause::MaxHold { .. } }) => {
            (Outcome::TimedOut { error: error.cloned() }, None)
        }
        Err(LockError::Lost { cause }) => (Outcome::Lost { cause }, None),
        Err(error) => (Outcome::Failed { error: error.to_string().into() }, None),
    }
}

fn log_end(
    env: &JobEnv,
    entry: &JobRun,
    token: u64,
    outcome: &Outcome,
    took: Duration,
    error: Option<&str>,
) {
    macro_rules! log_end {
        ($level:ident, $text:literal $(, $($field:tt)+)?) => {
            crate::log::$level!(
                job = %env.job.name,
                tick = %WallTime::from(entry.tick),
                token,
                attempt = entry.attempt,
                trigger = entry.trigger,
                outcome = JobEventKind::of(outcome, took).name(),
                ?took,
                $($($field)+,)?
                $text
            )
        };
    }
    match outcome {
        Outcome::Finished => log_end!(info, "job finished"),
        Outcome::Stopped => log_end!(info, "job stopped", error),
        Outcome::NotDone { reason } => log_end!(info, "job not done: it is run again", %reason),
        Outcome::Lost { cause } => log_end!(warn, "job lost its lock", error, %cause),
        Outcome::Failed { error } => log_end!(warn, "job failed", %error),
        Outcome::Panicked { message } => log_end!(warn, "job panicked", panic = %message),
        Outcome::TimedOut { error } => {
            log_end!(warn, "job ran for max_run", error = error.as_deref());
        }
    }
}
