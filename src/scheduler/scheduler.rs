//! The scheduler: its options, checks and start.

use std::{fmt, sync::Arc, time::Duration};

use tokio::{
    runtime::Handle,
    sync::{Semaphore, broadcast, watch},
};

use super::{
    Candidate, Job, JobOutcome, SchedulerHandle, StartError,
    event_sink::EventSink,
    job::check_all,
    outcome_hook::OutcomeHook,
    roster::Roster,
    shared::{Control, Executor, Phase, SchedulerShared},
    shared_job::SharedJob,
    tasks::{TaskGuard, begin},
    upkeep::{UNUSED_FOR, lead},
    wall_timer::WallTimer,
};
use crate::{
    callback::CallbackOutput,
    lock::{Redlock, RuntimeSpawner, Spawner},
    protocol::Op,
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
    forget_unused_after: Duration,
    outcome_hook: Option<Arc<OutcomeHook>>,
}

/// Default number of events that are kept for a slow receiver: for each job, within these bounds.
const EVENTS_PER_JOB: usize = 16;
const MIN_EVENTS: usize = 1_024;
const MAX_EVENTS: usize = 65_536;
/// Maximum configurable number of events.
const EVENT_LIMIT: usize = 1_048_576;

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
            forget_unused_after: UNUSED_FOR,
            outcome_hook: None,
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
        let Self {
            redlock,
            jobs,
            spawner,
            leader,
            event_capacity,
            max_concurrent_runs,
            forget_unused_after,
            outcome_hook,
        } = self;
        if !redlock.has_fencing() {
            return Err(StartError::NoFencing);
        }
        if redlock.is_closed() {
            return Err(StartError::Closed);
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
            (None, Some(runtime)) => Arc::new(RuntimeSpawner::from(runtime.clone())),
            (None, None) => return Err(StartError::NoRuntime),
        };
        check_all(&redlock, &jobs, leader.is_some())?;
        let leader = leader.map(|leader| leader.check(&redlock)).transpose()?;
        let events = event_capacity.unwrap_or_else(|| {
            jobs.len().saturating_mul(EVENTS_PER_JOB).clamp(MIN_EVENTS, MAX_EVENTS)
        });
        let slots = |runs: usize| Arc::new(Semaphore::new(runs.min(Semaphore::MAX_PERMITS)));
        let states: Vec<_> = jobs.iter().map(|job| Arc::new(SharedJob::of(job))).collect();
        let wall_timer = Arc::new(WallTimer::new(redlock.clone()));
        let receivers = broadcast::Sender::new(events.clamp(1, EVENT_LIMIT));
        let hook = outcome_hook.clone();
        let events = EventSink { receivers, outcome_hook, wall_timer: Arc::clone(&wall_timer) };
        let shared = Arc::new(SchedulerShared {
            redlock,
            wall_timer,
            executor: Executor { spawner: Arc::clone(&spawner), runtime },
            control: watch::Sender::new(Control { phase: Phase::Running, leads: leader.is_none() }),
            leader: leader.clone(),
            events: Arc::new(events),
            roster: Arc::new(Roster::new(states.clone())),
            slots: max_concurrent_runs.map(slots),
            forget_unused_after,
            triggers: AtomicU64::new(0),
        });
        // Created before the task: it may be dropped unpolled.
        let guards = states.into_iter().map(|job| TaskGuard { shared: Arc::clone(&shared), job });
        let guards: Vec<TaskGuard> = guards.collect();
        spawner.spawn(Box::pin(begin(Arc::clone(&shared), jobs, guards)));
        if let Some(hook) = hook {
            let shared = Arc::clone(&shared);
            let calls = async move { hook.run(&shared.redlock, shared.ended()).await };
            spawner.spawn(Box::pin(calls));
        }
        if let Some(leader) = leader {
            spawner.spawn(Box::pin(lead(leader, Arc::clone(&shared))));
        }
        Ok(SchedulerHandle { shared })
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
    /// All replicas that campaign under one name need the same jobs, since a job that the leader does not
    /// have runs nowhere. A replica that stands by compares its jobs with the leader's, a minute after
    /// it has seen the leader, and reports [`JobConflict::NotLed`](super::JobConflict::NotLed). Give each service a
    /// name of its own.
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

    /// Sets a callback, plain or async, for how runs and ticks ended on this replica, so that a job that failed, was missed or
    /// came late reaches a person.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_redlock::{Redlock, Scheduler, scheduler::JobOutcome};
    ///
    /// # async fn page(text: String) {}
    /// Scheduler::new(Redlock::embedded()).on_outcome(|outcome: JobOutcome| async move {
    ///     if outcome.is_failure() || outcome.lateness > Duration::from_secs(60) {
    ///         page(outcome.to_string()).await;
    ///     }
    /// });
    /// ```
    ///
    /// It is called for one outcome after the other, in their order, by a task of the scheduler, under no
    /// lock. A call may take 30 s; one that takes longer, or panics, is logged at WARN. Up to 1,024 outcomes wait
    /// for it. Of more, the oldest that is no [failure](JobOutcome::is_failure) is dropped, or the oldest failure if
    /// there is no other; before the next call, their number is logged at WARN. A [shutdown](SchedulerHandle::shutdown) waits for it, for its grace once more. A later call of
    /// `on_outcome` replaces an earlier one.
    ///
    /// Each replica reports its own runs; a tick that does not run is reported by one replica of the fleet. No
    /// replica that is down can call it: alert on the [metrics](crate#metrics), too.
    pub fn on_outcome<F, R, Kind>(mut self, callback: F) -> Self
    where
        F: Fn(JobOutcome) -> R + Send + Sync + 'static,
        R: CallbackOutput<Kind>,
    {
        self.outcome_hook = Some(Arc::new(OutcomeHook::new(callback)));
        self
    }

    /// Time after which the servers forget a job of the namespace that nothing uses, also one of another
    /// scheduler: see [`unused_jobs`](Redlock::unused_jobs). Default: 90 days. `Duration::MAX`: never.
    ///
    /// The servers keep claims of at most 10,000 job names, so names that are made up at run time would
    /// fill them. Each scheduler, or its leader, looks within an hour after its start, then once a day, and
    /// once an hour while the servers are full. The shortest time among the schedulers of the namespace
    /// counts. Jobs of its own, and jobs that are not [certain](super::UnusedJob::is_certain) to be unused,
    /// stay: `redlock jobs forget --unused-for` forgets the latter. A job that is forgotten and comes back is
    /// a new one: a scheduler makes up for no earlier tick of it, and reports a moment that has passed.
    pub fn forget_unused_after(mut self, unused_for: Duration) -> Self {
        self.forget_unused_after = unused_for;
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

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").field("jobs", &self.jobs).finish_non_exhaustive()
    }
}
