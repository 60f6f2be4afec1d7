//! The fourth phase: runs the work under the lock, and watches it until it has ended.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use tracing::Span;

use super::{
    super::{
        JobEventKind, JobRun, JobRunResult, JobStop, MissReason, Outcome, Overlap, RunningJob,
        SkipReason, context::RunInfo, event, shared::Phase, work::panic_message,
    },
    attempts::{AttemptsFuture, RunAttempts},
    blocking::BlockingRun,
    claim::ClaimedRun,
    end::{EndedRun, StopCause},
    env::{JobEnv, Purpose},
    task::JobTask,
};
use crate::{
    error::{LockError, LossCause, ServerText},
    guard::{Guarded, Hold, LockContext},
    lock::Lock,
    metrics,
    schedule::WallTime,
    time::Timestamp,
};

/// Work that is polled here or on a thread.
enum PolledRun {
    Here(Pin<Box<Guarded<AttemptsFuture>>>),
    Thread(BlockingRun),
}

type WorkResult = Result<(Outcome, Option<Hold>), LockError>;

impl PolledRun {
    async fn end(&mut self) -> WorkResult {
        match self {
            Self::Here(guarded) => {
                guarded.as_mut().await.map(|(outcome, hold)| (outcome, Some(hold)))
            }
            Self::Thread(thread) => thread.end().await,
        }
    }

    /// Drops the work; on a thread, between two attempts.
    fn stop(&mut self) -> Option<Hold> {
        match self {
            Self::Here(guarded) => guarded.as_mut().stop(),
            Self::Thread(thread) => {
                thread.cancel();
                None
            }
        }
    }
}

/// A run whose work is under way.
struct CurrentRun {
    info: Arc<RunInfo>,
    context: LockContext,
    span: Span,
    polled: PolledRun,
    stop: Option<RunStop>,
    /// The next tick that comes during the run, and its start.
    overlap: Option<(WallTime, WallTime)>,
}

/// A stop of a run that neither a shutdown nor its lock ends.
struct RunStop {
    cause: StopCause,
    /// When the work is dropped.
    drop_at: Timestamp,
}

impl CurrentRun {
    /// Asks the work to stop; it is dropped after the grace of the first such request. A command counts more
    /// than the next tick.
    fn stop_for(&mut self, cause: StopCause, drop_at: Timestamp) {
        self.context.ask_to_stop();
        let stop = self.stop.get_or_insert_with(|| RunStop { cause: cause.clone(), drop_at });
        if stop.cause == StopCause::NextTick {
            stop.cause = cause;
        }
        debug_assert!(stop.drop_at <= drop_at, "a later request does not extend the grace");
        debug_assert!(self.context.is_asked_to_stop());
    }

    /// The command that stops the run, if one does.
    fn command(&self) -> Option<&JobStop> {
        match &self.stop {
            Some(RunStop { cause: StopCause::Command(stop), .. }) => Some(stop),
            _ => None,
        }
    }

    fn is_grace_over(&self, now: Timestamp) -> bool {
        self.stop.as_ref().is_some_and(|stop| now >= stop.drop_at)
    }
}

impl JobTask {
    /// Runs the work, and reports how it ended; `None` if the lock was over before the work began.
    pub(super) async fn run(&mut self, claimed: ClaimedRun) -> Option<EndedRun> {
        let ClaimedRun { lock, slot, info, run, before } = claimed;
        let (token, context) = (lock.fencing_token().get(), lock.context());
        let (info, begun) = (Arc::new(info), self.env.redlock.now());
        let attempt = if info.triggered { 1 } else { run.attempt };
        let mut entry = self.entry(&info, attempt);
        if info.triggered {
            // No claim shows a run that is interrupted.
            let stored = self.history.store(&self.env, token, entry.clone()).await;
            self.history.note_stored(&self.env, token, stored);
        }
        let Some(mut current) = self.start(lock, &info, attempt) else {
            if !info.triggered {
                self.restore_claim(token, before).await;
                let pause = self.waits.pause();
                self.hold_off(Purpose::Tick(info.tick), pause);
            }
            return None;
        };
        let started = self.env.redlock.now();
        let ended = self.watch(&mut current).await;
        // Slots limit running work, not what follows it.
        drop(slot);
        // The lock is kept without heartbeats from here on.
        context.set_resting(true);
        let took = self.env.redlock.now().saturating_duration_since(started);
        let running = self.env.job.running();
        let (attempt, error) =
            running.map_or((attempt, None), |running| (running.attempt, running.last_error));
        entry.attempt = attempt;
        let (outcome, hold) = outcome_of(ended, error.as_ref(), current.command());
        let error = match current.command() {
            Some(stop) if outcome == Outcome::Stopped => Some(stop.to_string().into()),
            _ => error,
        };
        let kind = self.env.job.ended(&outcome, took, self.env.now());
        current.span.record("outcome", kind.name());
        self.env.emit(info.tick, kind);
        log_end(&self.env, &entry, token, (&outcome, took), error.as_deref());
        entry.end(&outcome, self.env.now(), error.as_deref());
        let (before, stopped_for) =
            (before.map(|latest| latest.run), current.stop.map(|stop| stop.cause));
        Some(EndedRun {
            token,
            info,
            run,
            before,
            begun,
            outcome,
            stopped_for,
            entry,
            hold,
            lock: context,
        })
    }

    /// The run as it is entered into the history, before it has ended.
    fn entry(&self, info: &RunInfo, attempt: u32) -> JobRun {
        JobRun {
            tick: info.tick.into(),
            trigger: self.env.job.trigger(),
            started: info.decided.into(),
            ended: None,
            result: JobRunResult::Open,
            owner: Arc::clone(self.env.redlock.owner()),
            attempt,
            lateness: info.lateness,
            error: None,
        }
    }

    /// Starts the work under the lock; `None` if the lock is over, or a run of a former task has the work.
    fn start(&self, lock: Lock, info: &Arc<RunInfo>, attempt: u32) -> Option<CurrentRun> {
        let env = &self.env;
        let (token, context) = (lock.fencing_token(), lock.context());
        let span = tracing::info_span!(
            "job",
            job = %info.job,
            tick = %info.tick,
            %token,
            attempt,
            trigger = env.job.trigger(),
            outcome = tracing::field::Empty,
        );
        let work = Arc::clone(&self.work).try_lock_owned().ok()?;
        let attempts = RunAttempts::new(env, info, attempt, work);
        let guarded = Guarded::start(lock, |context| attempts.start(context, span.clone())).ok()?;
        let (tick, since) = (info.tick.into(), env.now().into());
        let blocks = env.options.blocks;
        let running =
            RunningJob { tick, since, lateness: info.lateness, token, attempt, last_error: None };
        env.job.started(running, blocks);
        if blocks {
            // A shutdown does not wait for it.
            env.roster.note_change();
        }
        env.emit(info.tick, JobEventKind::Started { token, lateness: info.lateness });
        let polled = if blocks {
            let name = &env.job.name;
            let thread = BlockingRun::start(name, &self.executor, guarded, context.clone());
            PolledRun::Thread(thread)
        } else {
            PolledRun::Here(Box::pin(guarded))
        };
        let overlap = overlap_after(env, info.tick, info.decided);
        Some(CurrentRun { info: Arc::clone(info), context, span, polled, stop: None, overlap })
    }

    /// Polls the work until it has ended, or is dropped.
    async fn watch(&mut self, run: &mut CurrentRun) -> WorkResult {
        let env = Arc::clone(&self.env);
        let mut renewals = run.context.renewals();
        let mut stopping = run.context.stopping();
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
                () = env.job.changed.notified() => {}
                renewed = renewals.next(), if renews => match renewed {
                    Some(_) => {
                        let remaining = run.context.remaining();
                        env.emit(run.info.tick, JobEventKind::Extended { remaining });
                    }
                    None => renews = false,
                },
                () = &mut stopping, if reports_stop => {
                    reports_stop = false;
                    env.emit(run.info.tick, JobEventKind::Stopping);
                }
                () = alarm => self.on_overlap(run),
                () = async { drop_at.expect("there is one").await }, if drop_at.is_some() => {}
                () = async { turn.expect("there is one").await }, if turn.is_some() => {}
            }
        }
    }

    fn on_overlap(&mut self, run: &mut CurrentRun) {
        let Some((tick, start)) = run.overlap else { return };
        let env = &self.env;
        match env.options.policy.overlap {
            // The tick will not run, so the run continues.
            Overlap::Stop if env.job.pause_at(env.now()).is_some() => {}
            Overlap::Stop => {
                let drop_at = env.redlock.now() + env.options.stop_grace;
                run.stop_for(StopCause::NextTick, drop_at);
            }
            overlap => {
                if overlap == Overlap::Skip {
                    self.reports.obstacle = Some(MissReason::Overlap);
                    env.job.count(|counts| counts.skipped += 1);
                    metrics::job_skipped(&env.job.name, event::label(&SkipReason::Overlap));
                }
                env.emit(tick, JobEventKind::Skipped(SkipReason::Overlap));
            }
        }
        run.overlap = overlap_after(env, tick, start);
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
    (outcome, took): (&Outcome, Duration),
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

/// The next tick during a run, and its start; `None` if the schedule panics, which must not end the run.
fn overlap_after(env: &JobEnv, tick: WallTime, seen: WallTime) -> Option<(WallTime, WallTime)> {
    let next = || env.next_overlap(tick, seen);
    catch_unwind(AssertUnwindSafe(next)).unwrap_or_else(|panic| {
        crate::log::warn!(
            job = %env.job.name,
            panic = %panic_message(&*panic),
            "the schedule panicked: ticks that come during this run are not seen"
        );
        None
    })
}

/// Asks the work to stop if a command for the fleet requests that.
fn follow_stop_command(env: &JobEnv, run: &mut CurrentRun) {
    if run.command().is_some() {
        return;
    }
    let token = run.context.fencing_token().get();
    let Some(stop) = env.job.stop_of(token) else { return };
    crate::log::info!(
        job = %env.job.name, token, by = %ServerText(&stop.by),
        why = %ServerText(stop.why.as_deref().unwrap_or_default()),
        "the run is stopped on request"
    );
    let drop_at = env.redlock.now() + env.options.stop_grace;
    run.stop_for(StopCause::Command(stop), drop_at);
}
