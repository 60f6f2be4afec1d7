//! The attempts of one run: under one lock, with one token.

use std::{
    any::Any,
    future::Future,
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    sync::Arc,
};

use futures_util::FutureExt as _;
use tokio::sync::OwnedMutexGuard;

use super::{
    JobContext, JobEventKind,
    context::RunInfo,
    driver::Driver,
    job::JobOptions,
    jobs::{JobState, Shared},
    run::backoff,
    status::Outcome,
    work::Work,
};
use crate::{guard::LockContext, time::Sleep};

/// The work of a run, as a future that its guard polls.
pub(super) type Attempts = Pin<Box<dyn Future<Output = Outcome> + Send>>;

pub(super) struct Tries {
    shared: Arc<Shared>,
    job: Arc<JobState>,
    options: JobOptions,
    info: Arc<RunInfo>,
    first: u32,
    work: OwnedMutexGuard<Box<dyn Work>>,
}

impl Driver {
    /// `None` while another run has the work, which is never so.
    pub(super) fn attempts(&self, info: &Arc<RunInfo>, first: u32) -> Option<Tries> {
        let work = Arc::clone(&self.work).try_lock_owned().ok()?;
        Some(Tries {
            shared: Arc::clone(&self.shared),
            job: Arc::clone(&self.job),
            options: self.options.clone(),
            info: Arc::clone(info),
            first,
            work,
        })
    }
}

impl Tries {
    pub(super) async fn run(mut self, lock: LockContext) -> Outcome {
        for retry in 0.. {
            let attempt = self.first.saturating_add(retry);
            let context = JobContext { lock: lock.clone(), run: Arc::clone(&self.info), attempt };
            let work = AssertUnwindSafe(async { self.work.run(context).await });
            let error = match work.catch_unwind().await {
                Ok(Ok(())) => break,
                Ok(Err(error)) => Arc::from(error.to_string()),
                Err(panic) => return Outcome::Panicked { message: message(&*panic) },
            };
            if retry >= self.options.retries {
                return Outcome::Failed { error };
            }
            let pause = backoff(self.options.backoff, retry);
            self.job.count(|counts| counts.retries += 1);
            let kind = JobEventKind::Retrying { attempt, error, pause };
            self.shared.emit(&self.job, self.info.tick, kind);
            if is_stopped_within(self.shared.sleep(pause), &lock).await {
                return Outcome::Stopped;
            }
            self.job.tries_again(attempt.saturating_add(1));
        }
        Outcome::Finished
    }
}

/// Waits for the next attempt; not where there will be none.
async fn is_stopped_within(pause: Sleep, lock: &LockContext) -> bool {
    let mut pause = pin!(pause);
    tokio::select! {
        () = &mut pause => {}
        // Or a renewal is late, and may come still.
        () = lock.stopping() => if !lock.is_asked_to_stop() { pause.await },
    }
    lock.is_asked_to_stop()
}

fn message(panic: &(dyn Any + Send)) -> Arc<str> {
    if let Some(text) = panic.downcast_ref::<&str>() {
        return (*text).into();
    }
    panic.downcast_ref::<String>().map_or("a panic without a text", String::as_str).into()
}
