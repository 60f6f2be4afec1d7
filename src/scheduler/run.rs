//! One run of a job under its lock.

use std::{sync::Arc, time::Duration};

use tracing::Instrument as _;

use super::{
    JobEventKind, Overlap, RunningJob, SkipReason, attempts::Attempts, blocking::Thread,
    context::RunInfo, driver::Driver, event, jobs::Phase, policy::next_overlap, status::Outcome,
};
use crate::{
    error::{LockError, LossCause},
    guard::{Guarded, Hold, LockContext},
    lock::Lock,
    metrics,
    schedule::WallTime,
    time::Timestamp,
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
        let span =
            tracing::info_span!("job", name = %info.job, tick = info.tick.as_millis(), %token);
        let attempts = self.attempts(&info, attempt)?;
        let guarded = Guarded::start(lock, |context| -> Attempts {
            Box::pin(attempts.run(context).instrument(span))
        });
        let Ok(guarded) = guarded else { return None };
        let now = self.shared.now();
        let running = RunningJob { tick: info.tick.into(), since: now.into(), token, attempt };
        self.job.started(running, self.is_blocking);
        if self.is_blocking {
            // A shutdown does not wait for it.
            self.shared.alive.send_modify(|_| {});
        }
        let kind = JobEventKind::Started { token, lateness: info.lateness };
        self.shared.emit(&self.job, info.tick, kind);
        let mut runs = if self.is_blocking {
            Runs::Thread(Thread::start(&self.job.name, self.shared.runtime.clone(), guarded))
        } else {
            Runs::Here(Box::pin(guarded))
        };
        let seen = info.decided;
        let overlap = next_overlap(&self.schedule, &self.job.name, info.tick, seen);
        let begun = self.shared.core().clock().now();
        let (tick, told) = (info.tick, false);
        let mut watching = Watching { info, context, told, stop_at: None, overlap };
        let ended = self.watch(&mut runs, &mut watching).await;
        let took = self.shared.core().clock().now().since(begun);
        let (outcome, hold) = match ended {
            Ok(ended) => ended,
            Err(LockError::Lost { cause: LossCause::MaxHold { .. } }) => (Outcome::TimedOut, None),
            Err(LockError::Lost { cause }) => (Outcome::Lost { cause }, None),
            Err(error) => (Outcome::Failed { error: error.to_string().into() }, None),
        };
        match &outcome {
            Outcome::Finished | Outcome::Stopped | Outcome::Lost { .. } => {}
            Outcome::Failed { error } => {
                crate::log::warn!(job = %self.job.name, tick = tick.as_millis(), %error, "job failed");
            }
            Outcome::Panicked { message } => {
                crate::log::warn!(
                    job = %self.job.name, tick = tick.as_millis(), panic = %message, "job panicked"
                );
            }
            Outcome::TimedOut => {
                let limit = self.options.max_run;
                crate::log::warn!(
                    job = %self.job.name, tick = tick.as_millis(), ?limit, "job ran for max_run"
                );
            }
        }
        self.job.ended(&outcome, took);
        self.shared.emit(&self.job, tick, JobEventKind::of(&outcome, took));
        Some((outcome, hold))
    }

    async fn watch(
        &mut self,
        runs: &mut Runs,
        watching: &mut Watching,
    ) -> Result<(Outcome, Option<Hold>), LockError> {
        let mut renewals = watching.context.renewals();
        let mut stopping = watching.context.stopping();
        let mut renews = true;
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
            }
        }
    }

    fn on_overlap(&self, watching: &mut Watching) {
        let Some((tick, start)) = watching.overlap else { return };
        match self.options.policy.overlap {
            // The tick is not to be run: nothing has to give way to it.
            Overlap::Stop if self.job.is_paused() => {}
            Overlap::Stop => watching
                .ask_to_stop(Some(self.shared.core().clock().now() + self.options.stop_grace)),
            Overlap::Skip | Overlap::Queue => {
                if self.options.policy.overlap == Overlap::Skip {
                    self.job.count(|counts| counts.skipped += 1);
                    metrics::job_skipped(&self.job.name, event::label(&SkipReason::Overlap));
                }
                self.shared.emit(&self.job, tick, JobEventKind::Skipped(SkipReason::Overlap));
            }
        }
        watching.overlap = next_overlap(&self.schedule, &self.job.name, tick, start);
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

/// Doubled with every retry.
pub(super) fn backoff(first: Duration, retry: u32) -> Duration {
    const LONGEST: Duration = Duration::from_secs(60);
    first.saturating_mul(1 << retry.min(16)).min(LONGEST.max(first))
}
