use std::{fmt, future::Future, time::Duration};

use tower_service::Service;

use super::{
    Claim, JobContext, JobError, JobResult, Missed, Overlap,
    policy::Policy,
    work::{BlockingWork, FnWork, ServiceWork, Work},
};
use crate::{lock::Overrun, schedule::Schedule};

/// A periodic job: a name, a schedule, and the work.
///
/// The name is what the fleet knows the job by: replicas run the same jobs under the same names. The
/// job's lock is the resource `job:<name>`, for [`inspect`](crate::Redlock::inspect) and the like.
///
/// ```
/// use std::time::Duration;
/// use tower_redlock::{Job, scheduler::Missed, schedule::Schedule};
///
/// let report = Job::new("report", Schedule::every(Duration::from_secs(3600)), |cx| async move {
///     println!("the report of {:?}, under token {}", cx.tick(), cx.fencing_token());
/// })
/// .missed(Missed::RunLatest)
/// .retries(2)
/// .max_run(Duration::from_secs(600));
/// # drop(report);
/// ```
#[must_use = "a job does nothing until a scheduler has it and is started"]
pub struct Job {
    pub(super) name: String,
    pub(super) schedule: Schedule,
    pub(super) work: Box<dyn Work>,
    pub(super) is_blocking: bool,
    pub(super) options: JobOptions,
}

#[derive(Clone, Debug)]
pub(super) struct JobOptions {
    pub(super) policy: Policy,
    pub(super) claim: Claim,
    pub(super) ttl: Option<Duration>,
    pub(super) max_run: Duration,
    pub(super) min_hold: Duration,
    pub(super) stop_grace: Duration,
    pub(super) retries: u32,
    pub(super) backoff: Duration,
    pub(super) on_overrun: Option<Overrun>,
}

impl Default for JobOptions {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            claim: Claim::default(),
            ttl: None,
            max_run: Duration::from_secs(3600),
            min_hold: Duration::ZERO,
            stop_grace: Duration::from_secs(5),
            retries: 0,
            backoff: Duration::from_secs(1),
            on_overrun: None,
        }
    }
}

impl Job {
    /// A job of a closure, which is called for each run, and may give back nothing or a result.
    pub fn new<F, Fut>(name: impl Into<String>, schedule: impl Into<Schedule>, work: F) -> Self
    where
        F: FnMut(JobContext) -> Fut + Send + 'static,
        Fut: Future<Output: JobResult> + Send,
    {
        Self::of(name, schedule, Box::new(FnWork(work)), false)
    }

    /// A job of a service: each run is one request. So layers that limit time, retry or trace can be
    /// put around the work; they run under the job's lock, and a retry keeps the lock and its token.
    pub fn service<S>(name: impl Into<String>, schedule: impl Into<Schedule>, service: S) -> Self
    where
        S: Service<JobContext, Response = ()> + Send + 'static,
        S::Error: Into<JobError>,
        S::Future: Send,
    {
        Self::of(name, schedule, Box::new(ServiceWork(service)), false)
    }

    /// A job that blocks: it runs on a thread of its own, within the runtime that the scheduler was
    /// started in, if it was in one.
    ///
    /// Nothing can stop a thread from outside, so a hard stop only takes effect between two
    /// attempts. The work must ask [`ensure_valid`](crate::LockContext::ensure_valid) before effects
    /// and now and then in between; what is done when it goes on past the end of its lock is
    /// [`on_overrun`](Self::on_overrun). The lock is not given back before the work has ended;
    /// but it ends at [`max_run`](Self::max_run), as any other.
    pub fn blocking<F, R>(name: impl Into<String>, schedule: impl Into<Schedule>, work: F) -> Self
    where
        F: FnMut(JobContext) -> R + Send + 'static,
        R: JobResult,
    {
        Self::of(name, schedule, Box::new(BlockingWork(work)), true)
    }

    fn of(
        name: impl Into<String>,
        schedule: impl Into<Schedule>,
        work: Box<dyn Work>,
        is_blocking: bool,
    ) -> Self {
        let options = JobOptions::default();
        Self { name: name.into(), schedule: schedule.into(), work, is_blocking, options }
    }

    /// When a tick counts as done, should the replica crash. Default: [`Claim::AtStart`].
    pub fn claim(mut self, claim: Claim) -> Self {
        self.options.claim = claim;
        self
    }

    /// What is done about ticks that were not started in time. Default: [`Missed::Skip`].
    pub fn missed(mut self, missed: Missed) -> Self {
        self.options.policy.missed = missed;
        self
    }

    /// How long ago a missed tick may be for it to be made up for. Default: 24 h.
    pub fn catch_up(mut self, window: Duration) -> Self {
        self.options.policy.catch_up = window;
        self
    }

    /// How late a tick may start and not count as missed, unless the next one comes first. Default:
    /// 1 min.
    pub fn start_within(mut self, limit: Duration) -> Self {
        self.options.policy.start_within = limit;
        self
    }

    /// What is done when a tick comes while the run before is still going. Default:
    /// [`Overlap::Skip`].
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.options.policy.overlap = overlap;
        self
    }

    /// The TTL of the job's lock: how long a crashed replica keeps others from taking over. Default:
    /// the manager's (10 s).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// How long one run may go on, retries included; then it is stopped. Default: 1 h.
    pub fn max_run(mut self, limit: Duration) -> Self {
        self.options.max_run = limit;
        self
    }

    /// For how long after the start of a run the lock is kept, however soon the work ends. Default:
    /// zero. Ticks don't need it: no tick is started twice, however far apart clocks are.
    pub fn min_hold(mut self, time: Duration) -> Self {
        self.options.min_hold = time;
        self
    }

    /// How long a run that was asked to stop for the next tick ([`Overlap::Stop`]) may take to end
    /// by itself; then it is dropped. Default: 5 s.
    pub fn stop_grace(mut self, grace: Duration) -> Self {
        self.options.stop_grace = grace;
        self
    }

    /// How often work that failed is tried again within its run, under the same lock. Default: not
    /// at all.
    pub fn retries(mut self, retries: u32) -> Self {
        self.options.retries = retries;
        self
    }

    /// The pause before the first retry; each further one is twice as long, up to a minute. Default:
    /// 1 s.
    pub fn backoff(mut self, pause: Duration) -> Self {
        self.options.backoff = pause;
        self
    }

    /// What is done about work that is inside a poll when its lock has ended. Default: the manager's
    /// ([`Overrun::Warn`]).
    pub fn on_overrun(mut self, overrun: Overrun) -> Self {
        self.options.on_overrun = Some(overrun);
        self
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("name", &self.name)
            .field("schedule", &self.schedule)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
