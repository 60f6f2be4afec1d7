//! The attempts of one run: under one lock, with one token.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::FutureExt as _;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tracing::{Instrument as _, Span};

use super::{
    super::{
        Claim, JobContext, JobError, JobEventKind, NotDone, Outcome,
        context::RunInfo,
        work::{JobWork, Running, panic_message},
    },
    env::JobEnv,
};
use crate::{guard::LockContext, lock::Inside, time::Sleep};

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
                job = %self.job, panic = %panic_message(&*panic), "the work panicked when it was dropped"
            );
        }
    }
}

/// The attempts of a run that has not begun.
pub(super) struct RunAttempts {
    env: Arc<JobEnv>,
    info: Arc<RunInfo>,
    first: u32,
    work: WorkOfRun,
}

/// The work of a job, as one run has it.
pub(super) enum WorkOfRun {
    /// It is the only run.
    Alone(OwnedMutexGuard<Box<dyn JobWork>>),
    /// Other runs may begin meanwhile.
    Beside(Arc<Mutex<Box<dyn JobWork>>>),
}

impl WorkOfRun {
    /// Does the work once. It begins at the first poll: under the guard, and where its panic is caught.
    async fn run(&mut self, context: JobContext) -> Result<(), JobError> {
        let running = match self {
            Self::Alone(work) => begin(work.as_mut(), context).await?,
            Self::Beside(work) => begin(work.lock().await.as_mut(), context).await?,
        };
        running.await
    }
}

async fn begin(work: &mut dyn JobWork, context: JobContext) -> Result<Running, JobError> {
    poll_fn(|cx| work.poll_ready(cx)).await?;
    Ok(work.call(context))
}

impl RunAttempts {
    pub(super) fn new(env: &Arc<JobEnv>, info: &Arc<RunInfo>, first: u32, work: WorkOfRun) -> Self {
        Self { env: Arc::clone(env), info: Arc::clone(info), first, work }
    }

    pub(super) fn start(self, lock: LockContext, span: Span) -> AttemptsFuture {
        let env = Arc::clone(&self.env);
        let job = Arc::clone(&env.job.name);
        let run = Inside::new(&env.job, self.run(lock, span.clone()).instrument(span));
        AttemptsFuture { job, run: Some(Box::pin(run)) }
    }

    async fn run(mut self, lock: LockContext, span: Span) -> Outcome {
        let env = Arc::clone(&self.env);
        let options = &env.options;
        let key = (lock.slot(), lock.fencing_token());
        for retry in 0.. {
            let attempt = self.first.saturating_add(retry);
            let context = JobContext::new(lock.clone(), Arc::clone(&self.info), attempt);
            lock.set_resting(false);
            lock.heartbeat();
            // The error is dropped where its panics are caught.
            let failure = |error: JobError| -> (Arc<str>, bool) {
                (error.to_string().into(), NotDone::is_in(&*error))
            };
            let work = AssertUnwindSafe(async { self.work.run(context).await.map_err(failure) });
            let (error, is_not_done) = match work.catch_unwind().await {
                Ok(Ok(())) => break,
                Ok(Err(failure)) => failure,
                Err(panic) => return Outcome::Panicked { message: panic_message(&*panic) },
            };
            env.job.update_run(key, |run| run.last_error = Some(Arc::clone(&error)));
            // A triggered run does not count as a tick and is not repeated.
            let repeats = options.claim == Claim::AtEnd && self.info.trigger.is_none();
            if is_not_done && repeats {
                return Outcome::NotDone { reason: error };
            }
            if lock.is_asked_to_stop() {
                return Outcome::Stopped;
            }
            if retry >= options.retries {
                return match (lock.is_stopping(), lock.is_in_last_validity()) {
                    (false, _) => Outcome::Failed { error },
                    // It stopped on request before the lock ended.
                    (true, false) => Outcome::Stopped,
                    (true, true) => Outcome::TimedOut { error: Some(error) },
                };
            }
            let pause = backoff(options.backoff, retry);
            env.job.count(|counts| counts.retries += 1);
            let kind = JobEventKind::Retrying { attempt, error, pause };
            env.emit_of_run(&self.info, kind);
            lock.set_resting(true);
            if is_stopped_within(env.sleep(pause), &lock).await {
                return Outcome::Stopped;
            }
            let next = attempt.saturating_add(1);
            env.job.update_run(key, |run| run.attempt = next);
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

/// The pause before a retry; doubles each time.
pub(super) fn backoff(first: Duration, retry: u32) -> Duration {
    const MAX_BACKOFF: Duration = Duration::from_secs(60);
    first.saturating_mul(1 << retry.min(16)).min(MAX_BACKOFF.max(first))
}
