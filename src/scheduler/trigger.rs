//! A run on demand, and how it comes out.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::sync::oneshot;

use super::{
    Outcome, SkipReason,
    pending_trigger::{PendingTrigger, TriggerResult},
    shared_job::SharedJob,
};
use crate::lock::is_inside;

/// A run requested by [`SchedulerHandle::trigger_here`](super::SchedulerHandle::trigger_here).
///
/// As a future it returns the [`Outcome`] of the run, retries included, or the reason why there was
/// none. The run does not depend on it: dropping it changes nothing. Awaited by a run of the same job, which
/// comes first, it returns [`SkipReason::OwnRun`] at once, and the run follows.
///
/// ```
/// use std::time::Duration;
/// use tower_redlock::{scheduler::Outcome, Job, Redlock, Schedule, Scheduler};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let jobs = Scheduler::new(Redlock::embedded())
///     .job(Job::new("report", Schedule::every(Duration::from_secs(3600)), |_| async {}))
///     .start()?;
/// assert_eq!(jobs.trigger_here("report")?.await?, Outcome::Finished);
/// # jobs.shutdown(Duration::from_secs(1)).await;
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
///
/// Safe: polling it through a reference, as in a `select!`, loses nothing.
///
/// # Panics
///
/// If polled again after it was ready.
pub struct Trigger {
    id: u64,
    end: oneshot::Receiver<TriggerResult>,
    job: Arc<SharedJob>,
}

impl Trigger {
    /// Returns the two ends of a request for a run of this job.
    pub(super) fn new(id: u64, job: Arc<SharedJob>) -> (Self, PendingTrigger) {
        let (pending, end) = PendingTrigger::new(id);
        (Self { id, end, job }, pending)
    }

    /// The number of this request, counted from 1 in its scheduler: the
    /// [events](super::JobEvent::trigger) and log lines of the run have it.
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl fmt::Debug for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trigger").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Future for Trigger {
    type Output = Result<Outcome, SkipReason>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = Pin::new(&mut self.end).poll(cx);
        if polled.is_pending() && is_inside(&self.job) {
            return Poll::Ready(Err(SkipReason::OwnRun));
        }
        let end = ready!(polled);
        // Dropped unanswered when the job's runtime ended.
        Poll::Ready(end.unwrap_or(Err(SkipReason::Ended)))
    }
}
