//! A job and its options.

use std::{fmt, future::Future, time::Duration};

use tower_service::Service;

use super::{
    Claim, JobContext, JobError, JobResult, Missed, Overlap,
    policy::Policy,
    work::{BlockingWork, FnWork, JobWork, ServiceWork},
};
use crate::{
    lock::{LockOptions, Overrun},
    schedule::Schedule,
};

/// A periodic job: a name, a schedule, and the work.
///
/// The name is what the fleet knows the job by: replicas run the same jobs under the same names. The
/// job's lock is the resource `job:<name>`, for [`inspect`](crate::Redlock::inspect) and the like.
///
/// ```
/// use std::time::Duration;
/// use tower_redlock::{scheduler::Missed, Job, Schedule};
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
    pub(super) work: Box<dyn JobWork>,
    pub(super) options: JobOptions,
}

#[derive(Clone, Debug)]
pub(super) struct JobOptions {
    pub(super) policy: Policy,
    pub(super) claim: Claim,
    /// What was set; see [`lock`](Self::lock).
    pub(super) lock: LockOptions,
    pub(super) min_hold: Duration,
    pub(super) stop_grace: Duration,
    pub(super) retries: u32,
    pub(super) backoff: Duration,
    /// The work blocks a thread of its own: it is polled once.
    pub(super) blocks: bool,
}

const STALL_LIMIT: Duration = Duration::from_secs(60);
const MAX_RUN: Duration = Duration::from_secs(3600);

impl JobOptions {
    /// How often the holder of the job's lock polls at least, or its runtime hangs. Work that blocks
    /// a thread has none of that; what comes after it has.
    pub(super) fn polled_within(&self) -> Duration {
        self.lock.stall_limit.unwrap_or(STALL_LIMIT)
    }

    /// The options of the job's lock, with a job's defaults.
    pub(super) fn lock(&self) -> LockOptions {
        let defaults = LockOptions::new().wait(Duration::ZERO).max_hold(MAX_RUN);
        let watched = LockOptions::new().stall_limit(STALL_LIMIT);
        self.lock.or(defaults).or(if self.blocks { LockOptions::new() } else { watched })
    }
}

impl Default for JobOptions {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            claim: Claim::default(),
            lock: LockOptions::new(),
            min_hold: Duration::ZERO,
            stop_grace: Duration::from_secs(5),
            retries: 0,
            backoff: Duration::from_secs(1),
            blocks: false,
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
    /// attempts. The work must ask [`ensure_valid`](crate::LockContext::ensure_valid) before
    /// effects and now and then in between; [`on_overrun`](Self::on_overrun) decides what follows
    /// if it runs past the end of its lock. The lock is not given back before the work has ended;
    /// but it ends at [`max_run`](Self::max_run), as any other. For work that may hang before that,
    /// set [`heartbeat_within`](Self::heartbeat_within).
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
        work: Box<dyn JobWork>,
        blocks: bool,
    ) -> Self {
        let mut options = JobOptions::default();
        if blocks {
            options.blocks = true;
        }
        Self { name: name.into(), schedule: schedule.into(), work, options }
    }
}

/// # Ticks
impl Job {
    /// What is done about ticks that were not started in time. Default: [`Missed::Skip`].
    pub fn missed(mut self, missed: Missed) -> Self {
        self.options.policy.missed = missed;
        self
    }

    /// How long ago a missed tick may be for it to be made up for, or one whose run was broken off
    /// to be repeated. Default: 24 h.
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
}

/// # Runs
impl Job {
    /// How long one run may go on, retries included; then it is stopped. Default: 1 h. See
    /// [`LockOptions::max_hold`].
    pub fn max_run(self, limit: Duration) -> Self {
        self.options(LockOptions::new().max_hold(limit))
    }

    /// Time that a run has to end after a stop request for the next tick ([`Overlap::Stop`]); then
    /// it is dropped. Default: 5 s.
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

    /// The pause before the first retry, and before a tick that is [not done](super::NotDone) is run
    /// again; each further one is twice as long, up to a minute. Default:
    /// 1 s.
    pub fn backoff(mut self, pause: Duration) -> Self {
        self.options.backoff = pause;
        self
    }

    /// When a tick counts as done, should the replica crash. Default: [`Claim::AtStart`].
    pub fn claim(mut self, claim: Claim) -> Self {
        self.options.claim = claim;
        self
    }

    /// How many times a tick is started at most, where each of its runs is broken off and the job
    /// [claims at the end](Claim::AtEnd); then it is given up, with a WARN and
    /// [`GivenUp`](super::JobEventKind::GivenUp). So work that ends its process each time does not
    /// go on for ever. Retries within a run don't count. Default: 10; zero counts as 1.
    pub fn max_attempts(mut self, limit: u32) -> Self {
        self.options.policy.max_attempts = limit;
        self
    }
}

/// # Lock
impl Job {
    /// Sets all that is set in `options` for the job's lock; what was set before and is not set there
    /// stays. `max_hold` is [`max_run`](Self::max_run).
    ///
    /// `wait`, `max_attempts` and `retry_after` don't apply: when a job tries again follows from its
    /// schedule. Where one of them is set, [`Scheduler::start`](super::Scheduler::start) fails with
    /// [`InvalidJob`](super::StartError::InvalidJob).
    pub fn options(mut self, options: LockOptions) -> Self {
        self.options.lock = options.or(self.options.lock);
        self
    }

    /// See [`LockOptions::ttl`]: how long a crashed replica keeps others from taking over.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.options(LockOptions::new().ttl(ttl))
    }

    /// For how long after the start of a run the lock is kept, however soon the work ends. Default:
    /// zero. Ticks don't need it: no tick is started twice, however far apart clocks are.
    pub fn min_hold(mut self, time: Duration) -> Self {
        self.options.min_hold = time;
        self
    }

    #[cfg(test)]
    pub(crate) fn lock_request(&self, redlock: &crate::Redlock) -> crate::lock::LockRequest {
        super::acquire::request(redlock, &self.name, &self.options)
    }
}

/// # Work that hangs
impl Job {
    /// How long the work may hang before its lock is not renewed any more: for how long one poll of
    /// it may go on, and for how long its runtime may not poll it at all. Then other replicas go on
    /// with the job. See [`LockOptions::stall_limit`]. Default: 1 min, and no limit for a
    /// [blocking](Self::blocking) job, whose work is one long poll.
    ///
    /// While the end of a run is being stored, or its lock [kept](Self::min_hold), the runtime has to
    /// poll as often; after a blocking run, once in a minute. The outcome of a poll that hangs is told
    /// when it returns.
    pub fn stall_limit(self, limit: Duration) -> Self {
        self.options(LockOptions::new().stall_limit(limit))
    }

    /// See [`LockOptions::heartbeat_within`]; also for [blocking](Self::blocking) jobs. Counted from
    /// the start of each attempt.
    pub fn heartbeat_within(self, limit: Duration) -> Self {
        self.options(LockOptions::new().heartbeat_within(limit))
    }

    /// See [`LockOptions::on_overrun`].
    pub fn on_overrun(self, overrun: Overrun) -> Self {
        self.options(LockOptions::new().on_overrun(overrun))
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
