//! One run of a job under its lock.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use super::{
    JobEventKind, MissReason, Overlap, RunningJob, SkipReason,
    attempts::{AttemptsFuture, RunAttempts, message},
    blocking::BlockingRun,
    context::RunInfo,
    driver::{Driver, StopCause},
    event,
    policy::next_overlap,
    shared::Phase,
    status::Outcome,
};
use crate::{
    error::{LockError, LossCause, ServerText},
    guard::{Guarded, Hold, LockContext},
    lock::Lock,
    metrics,
    schedule::WallTime,
    time::Timestamp,
    token::FencingToken,
};

/// A run that is polled here or on a thread.
enum PolledRun {
    Here(std::pin::Pin<Box<Guarded<AttemptsFuture>>>),
    Thread(BlockingRun),
}

impl PolledRun {
    async fn end(&mut self) -> Result<(Outcome, Option<Hold>), LockError> {
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

/// How the work of a run has ended.
pub(super) struct GuardedEnd {
    pub(super) outcome: Outcome,
    /// The lock, unless it was lost.
    pub(super) hold: Option<Hold>,
    /// The number of the last attempt.
    pub(super) attempt: u32,
    /// The error of the last attempt, if any.
    pub(super) error: Option<Arc<str>>,
}

/// State of the wait for a run.
struct RunWatch {
    info: Arc<RunInfo>,
    context: LockContext,
    stop_reported: bool,
    /// Deadline after a stop request.
    stop_at: Option<Timestamp>,
    /// The next tick that comes during the run.
    overlap: Option<(WallTime, WallTime)>,
}

impl Driver {
    /// Runs the work under the lock and reports it; `None` if the lock was over before the work began.
    pub(super) async fn guarded(
        &mut self,
        lock: Lock,
        info: RunInfo,
        attempt: u32,
    ) -> Option<GuardedEnd> {
        let (token, context, info) = (lock.fencing_token(), lock.context(), Arc::new(info));
        let trigger = self.job.trigger();
        let span = tracing::info_span!(
            "job",
            job = %info.job,
            tick = %info.tick,
            %token,
            attempt,
            trigger,
            outcome = tracing::field::Empty,
        );
        let attempts = RunAttempts::new(self, &info, attempt)?;
        let guarded = Guarded::start(lock, |context| attempts.start(context, span.clone()));
        let Ok(guarded) = guarded else { return None };
        let now = self.shared.now();
        let (tick, since) = (info.tick.into(), now.into());
        self.job.started(
            RunningJob { tick, since, lateness: info.lateness, token, attempt, last_error: None },
            self.options.blocks,
        );
        if self.options.blocks {
            // A shutdown does not wait for it.
            self.shared.alive.send_modify(|_| {});
        }
        let kind = JobEventKind::Started { token, lateness: info.lateness };
        self.shared.emit(&self.job, info.tick, kind);
        let mut runs = if self.options.blocks {
            let (spawner, runtime) = (&*self.shared.spawner, self.shared.runtime.clone());
            let work = (guarded, context.clone());
            PolledRun::Thread(BlockingRun::start(&self.job.name, spawner, runtime, work))
        } else {
            PolledRun::Here(Box::pin(guarded))
        };
        let overlap = self.overlap_after(info.tick, info.decided);
        let begun = self.shared.redlock.now();
        let (tick, stop_reported) = (info.tick, false);
        self.stopped_for = None;
        let mut watching = RunWatch { info, context, stop_reported, stop_at: None, overlap };
        let ended = self.watch(&mut runs, &mut watching).await;
        // The lock is kept without heartbeats from here on.
        watching.context.set_resting(true);
        let took = self.shared.redlock.now().saturating_duration_since(begun);
        let running = self.job.running();
        let (attempt, error) = running.map_or((attempt, None), |run| (run.attempt, run.last_error));
        let (outcome, hold) = match ended {
            Ok(ended) => ended,
            Err(LockError::Lost { cause: LossCause::MaxHold { .. } }) => {
                (Outcome::TimedOut { error: error.clone() }, None)
            }
            Err(LockError::Lost { cause }) => (Outcome::Lost { cause }, None),
            Err(error) => (Outcome::Failed { error: error.to_string().into() }, None),
        };
        // Work that was stopped by a person is not run again.
        let outcome = match (outcome, &self.stopped_for) {
            (Outcome::NotDone { .. }, Some(StopCause::Command(_))) => Outcome::Stopped,
            (outcome, _) => outcome,
        };
        let error = match &self.stopped_for {
            Some(StopCause::Command(stop)) if outcome == Outcome::Stopped => {
                Some(stop.to_string().into())
            }
            _ => error,
        };
        span.record("outcome", outcome.label());
        self.job.ended(&outcome, took, self.shared.now());
        self.shared.emit(&self.job, tick, JobEventKind::of(&outcome, took));
        let end = RunEnd { tick, token, attempt, trigger, took, error: error.as_deref() };
        end.log(&self.job.name, &outcome);
        Some(GuardedEnd { outcome, hold, attempt, error })
    }

    /// The next tick during a run, and its start; `None` if the schedule panics, which must not end
    /// the run.
    fn overlap_after(&self, tick: WallTime, seen: WallTime) -> Option<(WallTime, WallTime)> {
        let next = || next_overlap(&self.schedule, &self.job.name, tick, seen);
        std::panic::catch_unwind(AssertUnwindSafe(next)).unwrap_or_else(|panic| {
            crate::log::warn!(
                job = %self.job.name,
                panic = %message(&*panic),
                "the schedule panicked: ticks that come during this run are not seen"
            );
            None
        })
    }

    async fn watch(
        &mut self,
        runs: &mut PolledRun,
        watching: &mut RunWatch,
    ) -> Result<(Outcome, Option<Hold>), LockError> {
        let mut renewals = watching.context.renewals();
        let mut stopping = watching.context.stopping();
        let mut renews = true;
        let poll_interval = (!self.options.blocks).then(|| self.options.polled_within() / 4);
        loop {
            let control = *self.control.borrow_and_update();
            if control.phase > Phase::Running || !control.leads {
                watching.ask_to_stop(None);
            }
            self.obey_stop(watching);
            if (control.phase >= Phase::Stopped
                || !control.leads
                || watching.is_to_be_dropped(self))
                && let Some(hold) = runs.stop()
            {
                return Ok((Outcome::Stopped, Some(hold)));
            }
            let alarm = self.shared.wall_timer.at(watching.overlap.map(|(_, start)| start));
            // Work on a thread may continue past it.
            let stop_at = watching.stop_at.filter(|_| !watching.is_to_be_dropped(self));
            let stop_at = stop_at.map(|at| self.shared.redlock.sleep_until(at));
            // Each turn polls the work, so a healthy runtime polls it in time.
            let turn = poll_interval.map(|interval| self.shared.sleep(interval));
            tokio::select! {
                biased;
                ended = runs.end() => return ended,
                _ = self.control.changed() => {}
                () = self.job.asked.notified() => {}
                renewed = renewals.next(), if renews => match renewed {
                    Some(_) => {
                        let remaining = watching.context.remaining();
                        self.emit(watching, JobEventKind::Extended { remaining });
                    }
                    None => renews = false,
                },
                () = &mut stopping, if !watching.stop_reported => {
                    watching.stop_reported = true;
                    self.emit(watching, JobEventKind::Stopping);
                }
                () = alarm => self.on_overlap(watching),
                () = async { stop_at.expect("there is one").await }, if stop_at.is_some() => {}
                () = async { turn.expect("there is one").await }, if turn.is_some() => {}
            }
        }
    }

    /// Asks the work to stop if somebody requested that of the fleet.
    fn obey_stop(&mut self, watching: &mut RunWatch) {
        if matches!(self.stopped_for, Some(StopCause::Command(_))) {
            return;
        }
        let token = watching.context.fencing_token().get();
        let Some(stop) = self.job.stop_of(token) else { return };
        crate::log::info!(
            job = %self.job.name, token, by = %ServerText(&stop.by),
            why = %ServerText(stop.why.as_deref().unwrap_or_default()),
            "the run is stopped on request"
        );
        self.stopped_for = Some(StopCause::Command(stop));
        let until = self.shared.redlock.now() + self.options.stop_grace;
        watching.ask_to_stop(Some(until));
    }

    fn on_overlap(&mut self, watching: &mut RunWatch) {
        let Some((tick, start)) = watching.overlap else { return };
        match self.options.policy.overlap {
            // The tick will not run, so the run continues.
            Overlap::Stop if self.job.is_paused(self.shared.now()) => {}
            Overlap::Stop => {
                self.stopped_for.get_or_insert(StopCause::NextTick);
                let until = self.shared.redlock.now() + self.options.stop_grace;
                watching.ask_to_stop(Some(until));
            }
            _ => {
                if self.options.policy.overlap == Overlap::Skip {
                    self.obstacle = Some(MissReason::Overlap);
                    self.job.count(|counts| counts.skipped += 1);
                    metrics::job_skipped(&self.job.name, event::label(&SkipReason::Overlap));
                }
                self.shared.emit(&self.job, tick, JobEventKind::Skipped(SkipReason::Overlap));
            }
        }
        watching.overlap = self.overlap_after(tick, start);
    }

    fn emit(&self, watching: &RunWatch, kind: JobEventKind) {
        self.shared.emit(&self.job, watching.info.tick, kind);
    }
}

impl RunWatch {
    /// Asks the work to stop; it is dropped at `until`.
    fn ask_to_stop(&mut self, until: Option<Timestamp>) {
        self.context.ask_to_stop();
        self.stop_at = self.stop_at.or(until);
    }

    fn is_to_be_dropped(&self, driver: &Driver) -> bool {
        self.stop_at.is_some_and(|at| driver.shared.redlock.now() >= at)
    }
}

/// The log line for the end of a run.
struct RunEnd<'a> {
    tick: WallTime,
    token: FencingToken,
    attempt: u32,
    trigger: Option<u64>,
    took: Duration,
    error: Option<&'a str>,
}

impl RunEnd<'_> {
    fn log(&self, job: &str, outcome: &Outcome) {
        macro_rules! log_end {
            ($level:ident, $text:literal $(, $($field:tt)+)?) => {
                crate::log::$level!(
                    %job,
                    tick = %self.tick,
                    token = self.token.get(),
                    attempt = self.attempt,
                    trigger = self.trigger,
                    outcome = outcome.label(),
                    took = ?self.took,
                    $($($field)+,)?
                    $text
                )
            };
        }
        let error = self.error;
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
}
