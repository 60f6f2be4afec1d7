//! A job and its options.

use std::{
    collections::HashSet,
    fmt,
    future::{Future, ready},
    sync::Arc,
    time::Duration,
};

use tower_service::Service;

use super::{
    Claim, IntoJobResult, JobContext, JobError, Missed, Overlap, StartError,
    tick_policy::Policy,
    work::{FnWork, JobWork, ServiceWork},
};
use crate::{
    lock::{LockOptions, LockRequest, Overrun, Redlock, option_setters},
    resource::Resource,
    schedule::Schedule,
};

/// A periodic job: a name, a schedule, and the work.
///
/// The name identifies the job: replicas run the same jobs under the same names. The job's lock is
/// the resource `job:<name>`, for [`inspect`](crate::Redlock::inspect) and the like.
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
    /// Without defaults; see [`lock`](Self::lock).
    pub(super) lock: LockOptions,
    pub(super) min_hold: Duration,
    pub(super) stop_grace: Duration,
    pub(super) retries: u32,
    pub(super) backoff: Duration,
    /// The work blocks a thread of its own: it is polled once.
    pub(super) blocks: bool,
    /// Maximum number of runs at a time, on the whole fleet.
    pub(super) parallel: u32,
}

const STALL_LIMIT: Duration = Duration::from_secs(60);
const MAX_RUN: Duration = Duration::from_secs(3600);

impl JobOptions {
    /// Maximum time between two polls of the holder of the job's lock; a longer one means that its
    /// runtime hangs. Does not apply while work blocks a thread.
    pub(super) fn polled_within(&self) -> Duration {
        self.lock.stall_limit.unwrap_or(STALL_LIMIT)
    }

    /// The options of the job's lock, with a job's defaults.
    pub(super) fn lock(&self) -> LockOptions {
        let defaults = LockOptions::new().wait(Duration::ZERO).max_hold(MAX_RUN);
        let watched = LockOptions::new().stall_limit(STALL_LIMIT);
        self.lock.or(defaults).or(if self.blocks { LockOptions::new() } else { watched })
    }

    /// Whether its runs may overlap.
    pub(super) const fn is_parallel(&self) -> bool {
        self.parallel > 1
    }

    /// The request for the slot of a run of a parallel job.
    pub(super) fn slot_request(&self, redlock: &Redlock, name: &str) -> LockRequest {
        let request = redlock.slot_of_own(Resource::of_job(name), self.parallel);
        request.options(self.lock()).polled_within(Some(self.polled_within())).expects_holder()
    }

    /// The request for the lock of a job with this name.
    pub(super) fn request(&self, redlock: &Redlock, name: &str) -> LockRequest {
        let request = redlock.lock_own(Resource::of_job(name)).options(self.lock());
        request.polled_within(Some(self.polled_within())).expects_holder()
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
            parallel: 1,
        }
    }
}

impl Job {
    /// Creates a job of a closure that is called for each run. It may return nothing or a result.
    pub fn new<F, Fut>(name: impl Into<String>, schedule: impl Into<Schedule>, work: F) -> Self
    where
        F: FnMut(JobContext) -> Fut + Send + 'static,
        Fut: Future<Output: IntoJobResult> + Send + 'static,
    {
        Self::of(name, schedule, Box::new(FnWork(work)), false)
    }

    /// Creates a job of a service: each run is one request. Layers around the service, such as a
    /// timeout or a retry, run under the job's lock; a retry keeps the lock and its token.
    pub fn service<S>(name: impl Into<String>, schedule: impl Into<Schedule>, service: S) -> Self
    where
        S: Service<JobContext, Response = ()> + Send + 'static,
        S::Error: Into<JobError>,
        S::Future: Send,
    {
        Self::of(name, schedule, Box::new(ServiceWork(service)), false)
    }

    /// Creates a job that blocks. It runs on a thread of its own, in the context of the runtime that
    /// the scheduler was started in, if any.
    ///
    /// A thread can't be stopped from outside, so a hard stop only takes effect between two
    /// attempts. The work must call [`ensure_valid`](crate::LockContext::ensure_valid) at intervals
    /// and before each effect; [`overrun`](Self::overrun) decides what happens if it runs past
    /// the end of its lock. The lock is not released before the work has ended, but it ends at
    /// [`max_run`](Self::max_run), as any other. For work that may hang before that, set
    /// [`heartbeat_within`](Self::heartbeat_within).
    pub fn blocking<F, R>(
        name: impl Into<String>,
        schedule: impl Into<Schedule>,
        mut work: F,
    ) -> Self
    where
        F: FnMut(JobContext) -> R + Send + 'static,
        R: IntoJobResult,
    {
        let work = move |context| ready(work(context).into_result());
        Self::of(name, schedule, Box::new(FnWork(work)), true)
    }

    fn of(
        name: impl Into<String>,
        schedule: impl Into<Schedule>,
        work: Box<dyn JobWork>,
        blocks: bool,
    ) -> Self {
        let options = JobOptions { blocks, ..JobOptions::default() };
        Self { name: name.into(), schedule: schedule.into(), work, options }
    }
}

/// # Ticks
impl Job {
    /// Sets what is done about ticks that were not started in time. Default: [`Missed::Skip`].
    pub fn missed(mut self, missed: Missed) -> Self {
        self.options.policy.missed = missed;
        self
    }

    /// Maximum age of a missed tick that is still run, and of a tick whose interrupted run is
    /// repeated. Default: 24 h.
    pub fn catch_up(mut self, window: Duration) -> Self {
        self.options.policy.catch_up = window;
        self
    }

    /// Maximum delay after which a tick still starts. A later one is missed, also if the next tick
    /// comes first. Default: 1 min.
    pub fn start_within(mut self, limit: Duration) -> Self {
        self.options.policy.start_within = limit;
        self
    }

    /// Sets what is done when a tick comes during the previous run. Default: [`Overlap::Skip`].
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.options.policy.overlap = overlap;
        self
    }
}

/// # Runs
impl Job {
    /// Maximum duration of a run, retries included; then it is stopped. Default: 1 h. See
    /// [`LockOptions::max_hold`].
    #[doc(alias = "timeout")]
    pub fn max_run(self, limit: Duration) -> Self {
        self.options(LockOptions::new().max_hold(limit))
    }

    /// Time between the stop request for the next tick ([`Overlap::Stop`]) and the drop of a run
    /// that has not ended. Default: 5 s.
    pub fn stop_grace(mut self, grace: Duration) -> Self {
        self.options.stop_grace = grace;
        self
    }

    /// Maximum number of retries of failed work within a run, under the same lock. Default: zero.
    pub fn retries(mut self, retries: u32) -> Self {
        self.options.retries = retries;
        self
    }

    /// Pause before the first retry, and before a tick that is [not done](super::NotDone) is run
    /// again. Doubles each time, up to 1 min. Default: 1 s.
    pub fn backoff(mut self, pause: Duration) -> Self {
        self.options.backoff = pause;
        self
    }

    /// Sets when a tick counts as done if its replica crashes. Default: [`Claim::AtStart`].
    pub fn claim(mut self, claim: Claim) -> Self {
        self.options.claim = claim;
        self
    }

    /// Maximum number of runs of a tick whose runs are interrupted, for a job that
    /// [claims at the end](Claim::AtEnd). Then the tick is given up, with a WARN and
    /// [`GivenUp`](super::JobEventKind::GivenUp), so work that crashes its process is not repeated
    /// without end. Retries within a run don't count. Default: 10; zero counts as 1.
    pub fn max_attempts(mut self, limit: u32) -> Self {
        self.options.policy.max_attempts = limit;
        self
    }
}

/// # Runs beside each other
impl Job {
    /// Sets the maximum number of runs of the job at a time, on the whole fleet: 1 to 256. Default: 1.
    ///
    /// With more than one, a tick that comes during a run starts another run beside it, on this replica
    /// or another. Each tick still starts once. While `runs` runs are under way, a tick waits for the end
    /// of one, at most for [`start_within`](Self::start_within); then it is missed, and
    /// [`missed`](Self::missed) decides about it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_redlock::{Job, Schedule};
    ///
    /// # async fn import() {}
    /// let imports = Job::new("import", Schedule::every(Duration::from_secs(60)), |cx| async move {
    ///     println!("tick {}, beside at most three others: slot {:?}", cx.tick(), cx.slot());
    ///     import().await;
    /// })
    /// .parallel(4);
    /// # drop(imports);
    /// ```
    ///
    /// Each run holds a slot of its own ([`LockContext::slot`](crate::LockContext::slot)): slot 2 of the
    /// job `import` is the lock `slot:2:job:import`. The job's lock is held only while a tick is claimed,
    /// and while the end of a run is stored. Fencing tokens grow within a slot and do not compare between
    /// slots, so a resource that checks them has to keep the newest token of each slot. Overlapping runs
    /// may end in any order.
    ///
    /// All replicas should have the same number. During a change, as in a rolling deployment, there are
    /// at most as many runs as the greater one, and a WARN names both. A replica with 1, or of a
    /// version without this option, may start one run more beside those that have begun, and reports them
    /// as interrupted; while its run lasts, no other one begins.
    ///
    /// [`trigger_here`](super::SchedulerHandle::trigger_here) and
    /// [`trigger`](super::SchedulerHandle::trigger) also start runs beside others.
    /// [`stop`](super::SchedulerHandle::stop) stops all runs that are under way.
    ///
    /// [`Scheduler::start`](super::Scheduler::start) fails with
    /// [`InvalidJob`](super::StartError::InvalidJob) if `runs` is 0 or above 256; and with more than 1
    /// also for a [blocking](Self::blocking) job, whose closure serves one run at a time, with
    /// [`Claim::AtEnd`], as the servers keep the claim of the latest tick alone, with an
    /// [`overlap`](Self::overlap) other than the default, with a schedule that counts from the end
    /// of the last run, and in a scheduler that is [`leader_only`](super::Scheduler::leader_only).
    #[doc(alias = "concurrency")]
    pub fn parallel(mut self, runs: u32) -> Self {
        self.options.parallel = runs;
        self
    }
}

/// # Lock
impl Job {
    /// Sets options of the job's lock: each that is set in `options`. The others keep their values.
    /// `max_hold` is [`max_run`](Self::max_run).
    ///
    /// `wait`, `max_attempts` and `retry_after` don't apply, as the schedule decides when a job tries
    /// again; nor do `slots`, for which there is [`parallel`](Self::parallel), and `shared`, as one replica
    /// at a time claims a tick. If one of them is set, [`Scheduler::start`](super::Scheduler::start)
    /// fails with [`InvalidJob`](super::StartError::InvalidJob).
    ///
    /// Work that reads a resource while others read it, and not while one writes it, acquires a shared
    /// lock on that resource within its run. If that lock is lost, the work under it is stopped:
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_redlock::{Job, LockError, Redlock, Schedule};
    ///
    /// # async fn print_report() {}
    /// # let redlock = Redlock::embedded();
    /// let report = Job::new("print", Schedule::every(Duration::from_secs(3600)), move |_| {
    ///     let readers = redlock.lock("report").shared().wait(Duration::from_secs(60));
    ///     async move { readers.run(|_| print_report()).await }
    /// })
    /// .retries(3);
    /// # drop(report);
    /// ```
    pub fn options(mut self, options: LockOptions) -> Self {
        self.options.lock = options.or(self.options.lock);
        self
    }

    /// See [`LockOptions::ttl`]: the time for which a crashed replica blocks the others.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.options(LockOptions::new().ttl(ttl))
    }

    /// Minimum time for which the lock is kept from the start of a run, even if the work ends
    /// earlier. Default: zero. Ticks don't need it: none is started twice, even if clocks differ.
    pub fn min_hold(mut self, time: Duration) -> Self {
        self.options.min_hold = time;
        self
    }

    #[cfg(test)]
    pub(crate) fn lock_request(&self, redlock: &Redlock) -> LockRequest {
        self.options.request(redlock, &self.name)
    }
}

/// # Work that hangs
impl Job {
    option_setters! {
        /// Maximum duration of one poll of the work, and maximum time for which the runtime does not poll
        /// it. Beyond it the lock is no longer renewed, and other replicas continue with the job. See
        /// [`LockOptions::stall_limit`]. Default: 1 min, and no limit for a [blocking](Self::blocking)
        /// job, whose work is one long poll.
        ///
        /// While the end of a run is stored, or its lock [kept](Self::min_hold), the runtime has to poll
        /// at the same rate; after a blocking run, once a minute. The outcome of a poll that hangs is
        /// reported when it returns.
        pub fn stall_limit(self, limit: Duration) -> Self;

        /// See [`LockOptions::heartbeat_within`]; also for [blocking](Self::blocking) jobs. Counted from
        /// the start of each attempt.
        pub fn heartbeat_within(self, limit: Duration) -> Self;

        /// See [`LockOptions::overrun`].
        pub fn overrun(self, overrun: Overrun) -> Self;
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

/// Checks jobs before they start.
pub(super) fn check_all(redlock: &Redlock, jobs: &[Job], is_led: bool) -> Result<(), StartError> {
    let mut names = HashSet::new();
    for job in jobs {
        let name: Arc<str> = job.name.as_str().into();
        let invalid =
            |reason: &str| Err(StartError::InvalidJob { job: name.clone(), reason: reason.into() });
        if name.is_empty() {
            return invalid("the name is empty");
        }
        if let Err(error) = Resource::of_job(&name) {
            return Err(StartError::InvalidName { job: name, error });
        }
        if !names.insert(Arc::clone(&name)) {
            return Err(StartError::DuplicateJob { job: name });
        }
        if let Err(error) = job.schedule.check() {
            return Err(StartError::Schedule { job: name, error });
        }
        let JobOptions { lock, min_hold, policy, .. } = &job.options;
        if let Err(reason) = lock.refuse_waiting().and_then(|()| check_holders(job, is_led)) {
            return invalid(&reason);
        }
        let max_run = job.options.lock().max_hold.unwrap_or(Duration::MAX);
        if max_run.is_zero() {
            return invalid("max_run is zero");
        }
        if *min_hold > max_run {
            return invalid("min_hold is longer than max_run");
        }
        if policy.start_within.is_zero() {
            return invalid("start_within is zero: no tick would be on time");
        }
        let max_ttl = redlock.max_ttl();
        if let Some(ttl) = lock.ttl.filter(|ttl| *ttl > max_ttl) {
            return invalid(&format!(
                "its ttl of {ttl:?} is above the manager's max_ttl of {max_ttl:?}: build the manager with max_ttl({ttl:?}) or more, on all replicas, or give the job a shorter ttl"
            ));
        }
        let request = job.options.request(redlock, &name);
        request.check().map_err(|error| StartError::lock(&name, error))?;
    }
    Ok(())
}

/// Checks the number of runs at a time, and the options that it depends on.
fn check_holders(job: &Job, is_led: bool) -> Result<(), String> {
    let JobOptions { lock, policy, claim, blocks, parallel, .. } = &job.options;
    lock.refuse(&[(
        "slots",
        "this lock has one holder; parallel is the number of runs at a time",
    )])?;
    if lock.shared == Some(true) {
        return Err("shared does not apply: one replica at a time claims a tick, under the job's own lock; for work that reads a resource beside other readers, acquire a shared lock on that resource within the run, by redlock.lock(…).shared().run(…)".into());
    }
    if *parallel == 0 {
        return Err("parallel is zero: nothing could run".into());
    }
    if *parallel > Resource::MAX_SLOTS {
        return Err(format!("parallel is {parallel}, above {}", Resource::MAX_SLOTS));
    }
    let refused = [
        (*blocks, "a blocking job", "its closure serves one run at a time"),
        (
            *claim == Claim::AtEnd,
            "Claim::AtEnd",
            "the servers keep the claim of the latest tick alone, so an earlier one could not be repeated",
        ),
        (
            policy.overlap != Overlap::Skip,
            "overlap",
            "a tick that comes during a run starts another run beside it",
        ),
        (
            job.schedule.is_after_end(),
            "a schedule that counts from the end of the last run",
            "its next tick follows from one run",
        ),
        (is_led, "leader_only", "the runs are those of one replica"),
    ];
    match refused.iter().find(|(is_refused, ..)| job.options.is_parallel() && *is_refused) {
        Some((_, what, why)) => Err(format!("parallel does not apply with {what}: {why}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::upkeep::UNUSED_FOR, *};
    use crate::defaults::{assert_documented, duration, variant};

    #[test]
    fn defaults_are_in_the_guide() {
        let JobOptions { policy, claim, stop_grace, retries, .. } = JobOptions::default();
        assert_documented("missed", &variant("Missed", policy.missed));
        assert_documented("overlap", &variant("Overlap", policy.overlap));
        assert_documented("claim", &variant("Claim", claim));
        for (setting, default) in [
            ("max_run", MAX_RUN),
            ("catch_up", policy.catch_up),
            ("start_within", policy.start_within),
            ("stop_grace", stop_grace),
            ("stall_limit", STALL_LIMIT),
            ("forget_unused_after", UNUSED_FOR),
        ] {
            assert_documented(setting, &duration(default));
        }
        assert_documented("max_attempts", &policy.max_attempts.to_string());
        assert_documented("retries", &retries.to_string());
    }
}
