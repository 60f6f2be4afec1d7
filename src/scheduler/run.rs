//! One run of a job under its lock.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use super::{
    JobEventKind, MissReason, Overlap, RunningJob, SkipReason,
    attempts::{Attempts, message},
    blocking::Thread,
    context::RunInfo,
    driver::Driver,
    event,
    jobs::Phase,
    policy::next_overlap,
    status::Outcome,
};
use crate::{
    error::{LockError, LossCause},
    guard::{Guarded, Hold, LockContext},
    lock::Lock,
    metrics,
    schedule::WallTime,
    time::Timestamp,
    token::FencingToken,
};

/// Where the work is polled.
enum Runs {
    Here(std::pin::Pin<Box<Guarded<Attempts>>>),
    Thread(Thread),
}

impl Runs {
    async fn end(&mut self) -> Result<(Outcome, Option<Hold>), LockError> {
        match self {
            Self::Here(guarded) => {
                guarded.as_mut().await.map(|(outcome, hold)| (outcome, Some(hold)))
            }
            Self::Thread(thread) => thread.end().await,
        }
    }

    /// Drops the work; on a thread, as soon as it is between two attempts.
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

/// What a run is waited with.
struct Watching {
    info: Arc<RunInfo>,
    context: LockContext,
    told: bool,
    /// When it is dropped, having been asked to stop.
    stop_at: Option<Timestamp>,
    /// The next tick that comes during the run.
    overlap: Option<(WallTime, WallTime)>,
}

impl Driver {
    /// Runs the work under the lock, and tells of it. With the outcome comes the lock, if it was not
    /// lost; `None` where it was over before anything ran.
    pub(super) async fn guarded(
        &mut self,
        lock: Lock,
        info: RunInfo,
        attempt: u32,
    ) -> Option<(Outcome, Option<Hold>)> {
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
        let attempts = self.attempts(&info, attempt)?;
        let guarded = Guarded::start(lock, |context| attempts.start(context, span.clone()));
        let Ok(guarded) = guarded else { return None };
        let now = self.shared.now();
        let (tick, since) = (info.tick.into(), now.into());
        self.job.started(
            RunningJob { tick, since, token, attempt, last_error: None },
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
            Runs::Thread(Thread::start(&self.job.name, spawner, runtime, work))
        } else {
            Runs::Here(Box::pin(guarded))
        };
        let overlap = self.overlap_after(info.tick, info.decided);
        let begun = self.shared.core().clock().now();
        let (tick, told) = (info.tick, false);
        self.gave_way = false;
        let mut watching = Watching { info, context, told, stop_at: None, overlap };
        let ended = self.watch(&mut runs, &mut watching).await;
        // No heartbeats come from now on, and the lock is kept for a while.
        watching.context.set_resting(true);
        let took = self.shared.core().clock().now().saturating_duration_since(begun);
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
        span.record("outcome", outcome.label());
        self.job.ended(&outcome, took, self.shared.now());
        self.shared.emit(&self.job, tick, JobEventKind::of(&outcome, took));
        let end = RunEnd { tick, token, attempt, trigger, took, error: error.as_deref() };
        end.log(&self.job.name, &outcome);
        Some((outcome, hold))
    }

    /// The next tick that comes during a run, and its start. A schedule that panics has none: that
    /// must not end the run.
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
        runs: &mut Runs,
        watching: &mut Watching,
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
            if (control.phase >= Phase::Stopped
                || !control.leads
                || watching.is_to_be_dropped(self))
                && let Some(hold) = runs.stop()
            {
                return Ok((Outcome::Stopped, Some(hold)));
            }
            let alarm = self.shared.alarms.at(watching.overlap.map(|(_, start)| start));
            // Work on a thread may go on past it: there is nothing left to wait for then.
            let stop_at = watching.stop_at.filter(|_| !watching.is_to_be_dropped(self));
            let stop_at = stop_at.map(|at| self.shared.core().timers.sleep_until(at));
            // Each turn of the loop polls the work: a runtime that does not hang does so in time.
            let turn = poll_interval.map(|interval| self.shared.sleep(interval));
            tokio::select! {
                biased;
                ended = runs.end() => return ended,
                _ = self.control.changed() => {}
                renewed = renewals.next(), if renews => match renewed {
                    Some(_) => {
                        let remaining = watching.context.remaining();
                        self.tell(watching, JobEventKind::Extended { remaining });
                    }
                    None => renews = false,
                },
                () = &mut stopping, if !watching.told => {
                    watching.told = true;
                    self.tell(watching, JobEventKind::Stopping);
                }
                () = alarm => self.on_overlap(watching),
                () = async { stop_at.expect("there is one").await }, if stop_at.is_some() => {}
                () = async { turn.expect("there is one").await }, if turn.is_some() => {}
            }
        }
    }

    fn on_overlap(&mut self, watching: &mut Watching) {
        let Some((tick, start)) = watching.overlap else { return };
        match self.options.policy.overlap {
            // The tick is not to be run: nothing has to give way to it.
            Overlap::Stop if self.job.is_paused() => {}
            Overlap::Stop => {
                self.gave_way = true;
                let until = self.shared.core().clock().now() + self.options.stop_grace;
                watching.ask_to_stop(Some(until));
            }
            Overlap::Skip | Overlap::Queue => {
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

    fn tell(&self, watching: &Watching, kind: JobEventKind) {
        self.shared.emit(&self.job, watching.info.tick, kind);
    }
}

impl Watching {
    /// Asks the work to stop, which is dropped at `until` if it goes on.
    fn ask_to_stop(&mut self, until: Option<Timestamp>) {
        self.context.ask_to_stop();
        self.stop_at = self.stop_at.or(until);
    }

    fn is_to_be_dropped(&self, driver: &Driver) -> bool {
        self.stop_at.is_some_and(|at| driver.shared.core().clock().now() >= at)
    }
}

/// What is told of the end of a run, in one line.
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
        macro_rules! tell {
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
            Outcome::Finished => tell!(info, "job finished"),
            Outcome::Stopped => tell!(info, "job stopped", error),
            Outcome::NotDone { reason } => tell!(info, "job not done: it is run again", %reason),
            Outcome::Lost { cause } => tell!(warn, "job lost its lock", error, %cause),
            Outcome::Failed { error } => tell!(warn, "job failed", %error),
            Outcome::Panicked { message } => tell!(warn, "job panicked", panic = %message),
            Outcome::TimedOut { error } => {
                tell!(warn, "job ran for max_run", error = error.as_deref());
            }
        }
    }
}

/// Doubled with every retry.
pub(super) fn backoff(first: Duration, retry: u32) -> Duration {
    const LONGEST: Duration = Duration::from_secs(60);
    first.saturating_mul(1 << retry.min(16)).min(LONGEST.max(first))
}
