//! The scheduler: its options, checks and start.

use std::{
    collections::HashSet, fmt, future::Future, panic::AssertUnwindSafe, pin::Pin, sync::Arc,
    time::Duration,
};

use futures_util::FutureExt as _;
use tokio::{
    runtime::Handle,
    sync::{Semaphore, broadcast, watch},
};

use super::{
    Candidate, Job, JobEventKind, JobState, SchedulerHandle, SkipReason, StartError,
    acquire::request,
    attempts::message,
    driver::{CLOSED, Driver},
    election,
    job::JobOptions,
    paused::{read_controls, watch_controls},
    shared::{Control, Phase, SchedulerShared, refresh},
    shared_job::SharedJob,
    wall_timer::WallTimer,
};
use crate::{
    lock::{Redlock, Spawner, claims},
    protocol::Op,
    random,
    resource::Resource,
    sync::atomic::AtomicU64,
};

/// Runs jobs once per tick across a fleet: each replica starts the same scheduler, and one of them
/// runs each tick.
///
/// ```
/// use std::time::Duration;
/// use tower_redlock::{Job, Redlock, Schedule, Scheduler};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let every_ten = Schedule::every(Duration::from_millis(10));
/// let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
/// let jobs = Scheduler::new(Redlock::embedded())
///     .job(Job::new("heartbeat", every_ten, move |cx| {
///         let tell = tell.clone();
///         async move { tell.send(cx.tick()) }
///     }))
///     .start()?;
/// let (first, second) = (told.recv().await, told.recv().await);
/// assert!(first < second);
/// jobs.shutdown(Duration::from_secs(1)).await;
/// # Ok(())
/// # }
/// ```
#[must_use = "a scheduler does nothing until it is started"]
pub struct Scheduler {
    redlock: Redlock,
    jobs: Vec<Job>,
    spawner: Option<Arc<dyn Spawner>>,
    leader: Option<Candidate>,
    event_capacity: Option<usize>,
    max_concurrent_runs: Option<usize>,
}

/// Default number of events that are kept for a slow receiver: for each job, within these bounds.
const EVENTS_A_JOB: usize = 16;
const MIN_EVENTS: usize = 1_024;
const MAX_EVENTS: usize = 65_536;
/// Maximum configurable number of events.
const MOST_EVENTS: usize = 1_048_576;

impl Scheduler {
    /// Creates a scheduler without jobs.
    pub fn new(redlock: Redlock) -> Self {
        Self {
            redlock,
            jobs: Vec::new(),
            spawner: None,
            leader: None,
            event_capacity: None,
            max_concurrent_runs: None,
        }
    }

    /// Adds a job.
    pub fn job(mut self, job: Job) -> Self {
        self.jobs.push(job);
        self
    }

    /// Adds jobs.
    pub fn jobs(mut self, jobs: impl IntoIterator<Item = Job>) -> Self {
        self.jobs.extend(jobs);
        self
    }

    /// Starts the jobs.
    ///
    /// Needs no reachable server: queries are repeated until the servers are up. The jobs run until
    /// the runtime ends or until [`shutdown`](SchedulerHandle::shutdown), whether the handle is
    /// kept or not.
    ///
    /// # Errors
    ///
    /// [`StartError`]: a job or a leader is not valid, two jobs have one name, or there is no runtime.
    /// No job was started then.
    pub fn start(self) -> Result<SchedulerHandle, StartError> {
        let Self { redlock, jobs, spawner, leader, event_capacity, max_concurrent_runs } = self;
        if !redlock.has_fencing() {
            return Err(StartError::NoFencing);
        }
        if redlock.is_closed() {
            return Err(StartError::Closed);
        }
        if redlock.is_forked() {
            return Err(StartError::Forked { built_in: redlock.built_in() });
        }
        if max_concurrent_runs == Some(0) {
            return Err(StartError::NoRuns);
        }
        if jobs.len() > Op::MAX_JOBS {
            return Err(StartError::TooManyJobs { jobs: jobs.len() });
        }
        let runtime = Handle::try_current().ok();
        let spawner = match (spawner, &runtime) {
            (Some(spawner), _) => spawner,
            (None, _) if redlock.spawner().runs_jobs() => Arc::clone(redlock.spawner()),
            (None, Some(runtime)) => Arc::new(OnRuntime(runtime.clone())),
            (None, None) => return Err(StartError::NoRuntime),
        };
        check_all(&redlock, &jobs)?;
        let leader = leader.map(|leader| leader.check(&redlock)).transpose()?;
        let events = event_capacity.unwrap_or_else(|| {
            jobs.len().saturating_mul(EVENTS_A_JOB).clamp(MIN_EVENTS, MAX_EVENTS)
        });
        let slots = |runs: usize| Arc::new(Semaphore::new(runs.min(Semaphore::MAX_PERMITS)));
        let state = |job: &Job| {
            let schedule = job.schedule.to_string();
            Arc::new(SharedJob::new(job.name.as_str().into(), &schedule))
        };
        let shared = Arc::new(SchedulerShared {
            wall_timer: Arc::new(WallTimer::new(redlock.clone())),
            redlock,
            spawner,
            runtime,
            control: watch::Sender::new(Control { phase: Phase::Running, leads: leader.is_none() }),
            leader,
            events: broadcast::Sender::new(events.clamp(1, MOST_EVENTS)),
            jobs: jobs.iter().map(state).collect(),
            alive: watch::Sender::new(jobs.len()),
            slots: max_concurrent_runs.map(slots),
            triggers: AtomicU64::new(0),
        });
        // Created before the task: it may be dropped unpolled.
        let alive =
            |job: &Arc<SharedJob>| TaskGuard { shared: Arc::clone(&shared), job: job.clone() };
        let alive: Vec<TaskGuard> = shared.jobs.iter().map(alive).collect();
        shared.spawner.spawn(Box::pin(begin(Arc::clone(&shared), jobs, alive)));
        if let Some(leader) = shared.leader.clone() {
            shared.spawner.spawn(Box::pin(election::lead(leader, Arc::clone(&shared))));
        }
        Ok(SchedulerHandle::new(shared))
    }
}

/// # Options
impl Scheduler {
    /// Lets the replicas elect a [leader](crate::Leader), which alone runs jobs. `leader` is a name,
    /// for a candidate with default options, or a candidate.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tower_redlock::{Redlock, Scheduler};
    /// # let redlock = Redlock::embedded();
    /// Scheduler::new(redlock.clone()).leader_only("jobs");
    /// Scheduler::new(redlock.clone())
    ///     .leader_only(redlock.leader("jobs").ttl(Duration::from_secs(5)));
    /// ```
    ///
    /// By default the first replica that acquires the lock runs the tick. With a leader, the leader
    /// runs all ticks, and the others stand by. Each run still has the job's own lock, and each tick
    /// its claim. A replica that loses its leadership drops its runs at once.
    ///
    /// The leadership is also lost if the runtime does not poll the scheduler, for example because
    /// its threads are blocked: the scheduler's tasks have to run every 30 s, or within the
    /// [`heartbeat_within`](crate::Leader::heartbeat_within) of the candidate. Runs that hang then
    /// keep the locks of their own jobs, up to [`max_run`](Job::max_run); the next leader runs all
    /// other jobs.
    ///
    /// Clones of a given candidate can watch it, and make it resign or stop: then runs continue for
    /// [`resign_grace`](crate::Leader::resign_grace), and are dropped. A
    /// [shutdown](SchedulerHandle::shutdown) waits for runs first, and then stops the candidate.
    pub fn leader_only(mut self, leader: impl Into<Candidate>) -> Self {
        self.leader = Some(leader.into());
        self
    }

    /// Maximum number of concurrent runs on this replica. Default: one of each job.
    ///
    /// A further run waits until another has ended, first come first served, before it acquires its
    /// job's lock, so another replica may run the tick meanwhile. A tick that waits for longer than
    /// the job's [`start_within`](Job::start_within) is missed, and the job's
    /// [`Missed`](super::Missed) decides about it.
    pub fn max_concurrent_runs(mut self, runs: usize) -> Self {
        self.max_concurrent_runs = Some(runs);
        self
    }

    /// Number of [events](SchedulerHandle::events) that are kept for a slow receiver. One that is
    /// further behind gets the number of lost events. From 1 to 1,048,576; values outside are
    /// clamped. Default: 16 for each job, at least 1,024 and at most 65,536.
    ///
    /// [`start`](Self::start) allocates their memory, about 200 bytes each.
    pub fn event_capacity(mut self, events: usize) -> Self {
        self.event_capacity = Some(events);
        self
    }

    /// Sets what the jobs run on. Default: tasks of the tokio runtime in which [`start`](Self::start)
    /// is called; with a manager of the testing kit, tasks of its clock.
    pub fn spawner(mut self, spawner: impl Spawner) -> Self {
        self.spawner = Some(Arc::new(spawner));
        self
    }
}

fn check_all(redlock: &Redlock, jobs: &[Job]) -> Result<(), StartError> {
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
        if let Err(reason) = lock.refuse_waiting() {
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
        request(redlock, &name, &job.options)
            .check()
            .map_err(|error| StartError::lock(&name, error))?;
    }
    Ok(())
}

/// Reads the claims of all jobs at once, then spawns a task for each.
async fn begin(shared: Arc<SchedulerShared>, jobs: Vec<Job>, alive: Vec<TaskGuard>) {
    let names: Vec<Arc<str>> = shared.jobs.iter().map(|job| Arc::clone(&job.name)).collect();
    let mut control = shared.control.subscribe();
    let mut tries = 0;
    let kept = loop {
        match claims::read(&shared.redlock, &names, &[]).await {
            Ok(kept) => break kept,
            Err(error) => {
                if tries == 0 {
                    crate::log::warn!(%error, "the scheduler waits for a quorum of nodes");
                }
                let error: Arc<str> = error.to_string().into();
                for job in &shared.jobs {
                    job.set_state(JobState::WaitingForNodes { error: Arc::clone(&error) });
                }
                let pause = random::within(&(FIRST_PAUSE..=2 * FIRST_PAUSE)) * (1 << tries);
                tries = (tries + 1).min(MAX_DOUBLINGS);
                tokio::select! {
                    biased;
                    () = shared.sleep(pause) => {}
                    _ = control.wait_for(|control| control.phase > Phase::Running) => {}
                }
            }
        }
        if shared.control().phase > Phase::Running || shared.redlock.is_closed() {
            return;
        }
    };
    if tries > 0 {
        crate::log::info!(jobs = names.len(), "a quorum of nodes answers: the scheduler begins");
    }
    read_controls(&shared).await;
    let wall_timer = Arc::clone(&shared.wall_timer);
    let mut left = shared.alive.subscribe();
    for ((alive, job), kept) in alive.into_iter().zip(jobs).zip(kept) {
        let state = Arc::clone(&alive.job);
        let Job { schedule, options, work, .. } = job;
        let driver = Driver::new(&shared, &state, (schedule, options), work, kept);
        shared.spawner.spawn(Box::pin(async move {
            let alive = alive;
            // `drive` catches panics, but the drop of the work is foreign code too.
            if let Err(panic) = AssertUnwindSafe(driver.drive()).catch_unwind().await {
                let panic = message(&*panic);
                alive.job.set_ended(&format!("a panic outside of the work: {panic}"));
                crate::log::error!(job = %state.name, %panic, "the job has ended: a panic outside of its work");
            }
        }));
    }
    tokio::select! {
        biased;
        () = wall_timer.run() => {}
        () = refresh(&shared) => {}
        () = watch_controls(&shared) => {}
        _ = left.wait_for(|jobs| *jobs == 0) => {}
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_DOUBLINGS: u32 = 6;

/// Counts a job's task as alive until it is dropped.
struct TaskGuard {
    shared: Arc<SchedulerShared>,
    job: Arc<SharedJob>,
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        let reason = match self.shared.control().phase {
            Phase::Running if self.shared.redlock.is_closed() => CLOSED,
            Phase::Running => "its task was dropped: its runtime is gone",
            _ => "the scheduler was shut down",
        };
        for asked in self.job.set_gone(reason) {
            let kind = JobEventKind::Skipped(SkipReason::Ended);
            self.shared.emit_for(&self.job, self.shared.now(), Some(asked.id), kind);
            asked.answer(Err(SkipReason::Ended));
        }
        self.shared.alive.send_modify(|jobs| *jobs -= 1);
    }
}

/// Tasks of the runtime that the scheduler was started in.
#[derive(Debug)]
struct OnRuntime(Handle);

impl Spawner for OnRuntime {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        drop(self.0.spawn(task));
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").field("jobs", &self.jobs).finish_non_exhaustive()
    }
}
