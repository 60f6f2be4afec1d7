//! The attempts of one run: under one lock, with one token.

use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::FutureExt as _;
use tokio::sync::OwnedMutexGuard;
use tracing::{Instrument as _, Span};

use super::{
    Claim, JobContext, JobError, JobEventKind, NotDone, context::RunInfo, driver::Driver,
    job::JobOptions, shared::SchedulerShared, shared_job::SharedJob, status::Outcome,
    work::JobWork,
};
use crate::{
    guard::{Inside, LockContext},
    time::Sleep,
};

/// The work of a run, as a future that its guard polls and drops.
pub(super) struct AttemptsFuture {
    job: Arc<str>,
    run: Option<Pin<Box<dyn Future<Output = Outcome> + Send>>>,
}

impl Future for AttemptsFuture {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        self.run.as_mut().expect("it is there until the drop").as_mut().poll(cx)
    }
}

impl Drop for AttemptsFuture {
    /// Drops the work, whose panic must not reach the driver.
    fn drop(&mut self) {
        let run = self.run.take();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(run))) {
            crate::log::warn!(
                job = %self.job, panic = %message(&*panic), "the work panicked when it was dropped"
            );
        }
    }
}

pub(super) struct RunAttempts {
    shared: Arc<SchedulerShared>,
    job: Arc<SharedJob>,
    options: JobOptions,
    info: Arc<RunInfo>,
    first: u32,
    work: OwnedMutexGuard<Box<dyn JobWork>>,
}

/// The error of an attempt.
struct AttemptError {
    text: Arc<str>,
    is_not_done: bool,
}

impl From<JobError> for AttemptError {
    /// Drops the error here, where its panics are caught.
    fn from(error: JobError) -> Self {
        Self { text: error.to_string().into(), is_not_done: NotDone::is_in(&*error) }
    }
}

impl RunAttempts {
    /// `None` if another run has the work.
    pub(super) fn new(driver: &Driver, info: &Arc<RunInfo>, first: u32) -> Option<Self> {
        let work = Arc::clone(&driver.work).try_lock_owned().ok()?;
        Some(Self {
            shared: Arc::clone(&driver.shared),
            job: Arc::clone(&driver.job),
            options: driver.options.clone(),
            info: Arc::clone(info),
            first,
            work,
        })
    }

    pub(super) fn start(self, lock: LockContext, span: Span) -> AttemptsFuture {
        let (job, of_job) = (Arc::clone(&self.job.name), Arc::clone(&self.job));
        let run = Inside::new(&of_job, self.run(lock, span.clone()).instrument(span));
        AttemptsFuture { job, run: Some(Box::pin(run)) }
    }

    async fn run(mut self, lock: LockContext, span: Span) -> Outcome {
        for retry in 0.. {
            let attempt = self.first.saturating_add(retry);
            let context = JobContext::new(lock.clone(), Arc::clone(&self.info), attempt);
            lock.set_resting(false);
            lock.heartbeat();
            let work = AssertUnwindSafe(async {
                self.work.run(context).await.map_err(AttemptError::from)
            });
            let failure = match work.catch_unwind().await {
                Ok(Ok(())) => break,
                Ok(Err(failure)) => failure,
                Err(panic) => return Outcome::Panicked { message: message(&*panic) },
            };
            let error = failure.text;
            self.job.attempt_failed(Arc::clone(&error));
            // A triggered run is no tick and is not repeated.
            let repeats = self.options.claim == Claim::AtEnd && !self.info.triggered;
            if failure.is_not_done && repeats {
                return Outcome::NotDone { reason: error };
            }
            if lock.is_asked_to_stop() {
                return Outcome::Stopped;
            }
            if retry >= self.options.retries {
                return match (lock.is_stopping(), lock.is_in_last_validity()) {
                    (false, _) => Outcome::Failed { error },
                    // It stopped on request before the lock ended.
                    (true, false) => Outcome::Stopped,
                    (true, true) => Outcome::TimedOut { error: Some(error) },
                };
            }
            let pause = backoff(self.options.backoff, retry);
            self.job.count(|counts| counts.retries += 1);
            let kind = JobEventKind::Retrying { attempt, error, pause };
            self.shared.emit(&self.job, self.info.tick, kind);
            lock.set_resting(true);
            if is_stopped_within(self.shared.sleep(pause), &lock).await {
                return Outcome::Stopped;
            }
            let next = attempt.saturating_add(1);
            self.job.tries_again(next);
            span.record("attempt", next);
        }
        Outcome::Finished
    }
}

/// Waits for the next attempt, or until a stop request.
async fn is_stopped_within(pause: Sleep, lock: &LockContext) -> bool {
    let mut pause = pin!(pause);
    tokio::select! {
        biased;
        () = &mut pause => {}
        // Otherwise a renewal is late, and may still come.
        () = lock.stopping() => if !lock.is_asked_to_stop() { pause.await },
    }
    lock.is_asked_to_stop()
}

/// The message of a panic, if it is a text.
pub(super) fn message(panic: &(dyn Any + Send)) -> Arc<str> {
    if let Some(text) = panic.downcast_ref::<&str>() {
        return (*text).into();
    }
    panic.downcast_ref::<String>().map_or("a panic without a text", String::as_str).into()
}

/// The pause before a retry; doubles each time.
pub(super) fn backoff(first: Duration, retry: u32) -> Duration {
    const LONGEST: Duration = Duration::from_secs(60);
    first.saturating_mul(1 << retry.min(16)).min(LONGEST.max(first))
}
