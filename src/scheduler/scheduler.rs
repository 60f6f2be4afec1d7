use std::{
    collections::HashSet, fmt, future::Future, panic::AssertUnwindSafe, pin::Pin, sync::Arc,
    time::Duration,
};

use futures_util::FutureExt as _;

use tokio::{
    runtime::Handle,
    sync::{broadcast, watch},
};

use super::{
    Job, SchedulerHandle, StartError,
    alarms::Alarms,
    driver::{Driver, lock_name, request},
    election,
    job::JobOptions,
    jobs::{Control, JobState, Phase, Shared},
};
use crate::{
    lock::{Redlock, Spawner, claims},
    node::Op,
    random,
    resource::Resource,
};

/// Runs jobs once per tick across a fleet: each replica starts the same scheduler, and each tick is
/// run by one of them.
///
/// ```
/// use std::time::Duration;
/// use tower_redlock::{Job, Redlock, Scheduler, schedule::Schedule};
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
    leader: Option<String>,
}

/// So many events are kept for a receiver that is slow.
const EVENTS: usize = 1_024;

impl Scheduler {
    /// A scheduler without jobs.
    pub fn new(redlock: Redlock) -> Self {
        Self { redlock, jobs: Vec::new(), spawner: None, leader: None }
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

    /// What the jobs run on. Default: tasks of the tokio runtime that [`start`](Self::start) is
    /// called in.
    pub fn spawner(mut self, spawner: impl Spawner) -> Self {
        self.spawner = Some(Arc::new(spawner));
        self
    }

    /// Lets the replicas elect a [leader](crate::Leader) of this name, which alone runs jobs.
    ///
    /// Without it each tick goes to whoever is first. With it all ticks go to one replica, as long as
    /// it leads; the others stand by. Each run still has the job's own lock, and each tick its claim.
    /// A replica that loses its leadership drops the runs that are going, at once.
    pub fn leader_only(mut self, name: impl Into<String>) -> Self {
        self.leader = Some(name.into());
        self
    }

    /// Starts the jobs.
    ///
    /// It needs no server: one that is down is asked again until it is up. The jobs go on for as
    /// long as the runtime does, or until [`shutdown`](SchedulerHandle::shutdown), whether the
    /// handle is kept or not.
    ///
    /// # Errors
    ///
    /// [`StartError`]: a job that can't be run as it is, two of one name, no runtime. No job was
    /// started then.
    pub fn start(self) -> Result<SchedulerHandle, StartError> {
        let Self { redlock, jobs, spawner, leader } = self;
        let core = Arc::clone(redlock.core());
        if !core.settings.fencing {
            return Err(StartError::NoFencing);
        }
        if core.is_closed() {
            return Err(StartError::Closed);
        }
        if core.is_forked() {
            return Err(StartError::Forked { built_in: core.process });
        }
        if jobs.len() > Op::MAX_JOBS {
            return Err(StartError::TooManyJobs { jobs: jobs.len() });
        }
        let runtime = Handle::try_current().ok();
        let spawner = match (spawner, &runtime) {
            (Some(spawner), _) => spawner,
            (None, Some(runtime)) => Arc::new(OnRuntime(runtime.clone())),
            (None, None) => return Err(StartError::NoRuntime),
        };
        check_all(&redlock, &jobs)?;
        let leader = leader.map(|name| election::candidate(&redlock, &name)).transpose()?;
        let state = |job: &Job| {
            let schedule = job.schedule.to_string();
            Arc::new(JobState::new(job.name.as_str().into(), &schedule))
        };
        let shared = Arc::new(Shared {
            alarms: Arc::new(Alarms::new(core)),
            redlock,
            spawner,
            runtime,
            control: watch::Sender::new(Control { phase: Phase::Running, leads: leader.is_none() }),
            leader,
            events: broadcast::Sender::new(EVENTS),
            jobs: jobs.iter().map(state).collect(),
            alive: watch::Sender::new(jobs.len()),
        });
        // From here on: a task may be dropped before it is polled.
        let alive = |job: &Arc<JobState>| Alive { shared: Arc::clone(&shared), job: job.clone() };
        let alive: Vec<Alive> = shared.jobs.iter().map(alive).collect();
        shared.spawner.spawn(Box::pin(begin(Arc::clone(&shared), jobs, alive)));
        if let Some(leader) = shared.leader.clone() {
            shared.spawner.spawn(Box::pin(election::lead(leader, Arc::clone(&shared))));
        }
        Ok(SchedulerHandle::new(shared))
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
        if let Err(error) = Resource::try_from(lock_name(&name)) {
            return Err(StartError::InvalidName { job: name, error });
        }
        if !names.insert(Arc::clone(&name)) {
            return Err(StartError::DuplicateJob { job: name });
        }
        if let Err(error) = job.schedule.check() {
            return Err(StartError::Schedule { job: name, error });
        }
        let JobOptions { max_run, min_hold, policy, .. } = &job.options;
        if max_run.is_zero() {
            return invalid("max_run is zero");
        }
        if min_hold > max_run {
            return invalid("min_hold is longer than max_run");
        }
        if policy.start_within.is_zero() {
            return invalid("start_within is zero: no tick would be on time");
        }
        request(redlock, &name, &job.options)
            .check()
            .map_err(|error| StartError::lock(&name, error))?;
    }
    Ok(())
}

/// Reads what the nodes keep of all jobs, at once; then lets each go its way.
async fn begin(shared: Arc<Shared>, jobs: Vec<Job>, alive: Vec<Alive>) {
    let names: Vec<Arc<str>> = shared.jobs.iter().map(|job| Arc::clone(&job.name)).collect();
    let mut control = shared.control.subscribe();
    let mut tries = 0;
    let kept = loop {
        match claims::read(shared.core(), &names).await {
            Ok(kept) => break kept,
            Err(error) => {
                if tries == 0 {
                    crate::log::warn!(%error, "the scheduler waits for a quorum of nodes");
                }
                let pause = random::within(&(FIRST_PAUSE..=2 * FIRST_PAUSE)) * (1 << tries);
                tries = (tries + 1).min(MAX_DOUBLINGS);
                tokio::select! {
                    () = shared.sleep(pause) => {}
                    _ = control.wait_for(|control| control.phase > Phase::Running) => {}
                }
            }
        }
        if shared.control().phase > Phase::Running || shared.core().is_closed() {
            return;
        }
    };
    let alarms = Arc::clone(&shared.alarms);
    let mut left = shared.alive.subscribe();
    for ((alive, job), kept) in alive.into_iter().zip(jobs).zip(&kept) {
        let state = Arc::clone(&alive.job);
        let Job { schedule, options, work, is_blocking, .. } = job;
        let driver = Driver::new(&shared, &state, (schedule, options), (work, is_blocking), kept);
        shared.spawner.spawn(Box::pin(async move {
            let _alive = alive;
            // The work's panics are caught where it runs; a schedule is foreign code too.
            if AssertUnwindSafe(driver.drive()).catch_unwind().await.is_err() {
                crate::log::error!(job = %state.name, "the job has ended: its schedule panicked");
            }
        }));
    }
    drop(shared);
    tokio::select! {
        () = alarms.run() => {}
        _ = left.wait_for(|jobs| *jobs == 0) => {}
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_DOUBLINGS: u32 = 6;

/// A job's task has not ended, however it ends.
struct Alive {
    shared: Arc<Shared>,
    job: Arc<JobState>,
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.job.set_gone();
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
