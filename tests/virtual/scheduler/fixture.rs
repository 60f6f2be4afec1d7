//! Replicas of a service over the testing kit's clock and nodes.

use std::{
    fmt,
    future::{Future, IntoFuture, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Poll, Waker},
    time::Duration,
};

use tokio::sync::{broadcast, watch};
use tower_redlock::{
    Job, JobContext, Redlock, Schedule, Scheduler, SchedulerHandle,
    lock::Spawner,
    scheduler::{
        Candidate, JobEvent, JobEventKind, JobRun, JobStatus, MissReason, ShutdownReport,
        SkipReason, UnknownJob,
    },
    testing::{ManualClock, ManualSpawner, Nodes, Replica, Task},
};

use crate::{scheduler::wire::Wire, support::mock_node::with_nodes};

pub(crate) use crate::durations::{DAY, HOUR, MINUTE, MS, SECOND};
pub(crate) use crate::scheduler::run_log::{Entry, Log, after_start};

pub(crate) const TTL: Duration = Duration::from_secs(10);

pub(crate) struct Fixture {
    pub(crate) clock: ManualClock,
    pub(crate) nodes: Nodes,
    pub(crate) log: Log,
}

/// A replica with its own manager, whose operations a test can count and refuse.
pub(crate) struct Host {
    pub(crate) name: &'static str,
    pub(crate) replica: Replica,
    pub(crate) redlock: Redlock,
    pub(crate) clock: ManualClock,
    pub(crate) wire: Wire,
    pub(crate) log: Log,
    killed: watch::Sender<bool>,
    hang: Arc<Hang>,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        Self { nodes: Nodes::new(5, &clock), clock, log: Log::default() }
    }

    /// The fixture with hosts of these names.
    pub(crate) fn hosts<const N: usize>(names: [&'static str; N]) -> (Self, [Host; N]) {
        let fixture = Self::new();
        let hosts = names.map(|name| fixture.host(name));
        (fixture, hosts)
    }

    /// Starts the same job on hosts of these names.
    pub(crate) fn fleet<const N: usize>(
        &self,
        names: [&'static str; N],
        job: impl Fn(&Host) -> Job,
    ) -> [(Host, RunningScheduler); N] {
        names.map(|name| {
            let host = self.host(name);
            let jobs = host.start([job(&host)]);
            (host, jobs)
        })
    }

    /// Starts the same job on hosts of these names, of which the first leads.
    pub(crate) fn led<const N: usize>(
        &self,
        names: [&'static str; N],
        job: impl Fn(&Host) -> Job,
    ) -> [(Host, RunningScheduler); N] {
        names.map(|name| {
            let host = self.host(name);
            let jobs = host.start_led([job(&host)]);
            // The first host leads before the next one campaigns.
            self.clock.settle();
            (host, jobs)
        })
    }

    pub(crate) fn host(&self, name: &'static str) -> Host {
        self.host_at(name, self.clock.clone())
    }

    /// A replica on a machine with this clock.
    pub(crate) fn host_at(&self, name: &'static str, clock: ManualClock) -> Host {
        self.host_of(name, clock, false)
    }

    /// A replica on a machine with a wall clock of its own, over nodes that report theirs.
    pub(crate) fn timed_host(&self, name: &'static str) -> Host {
        self.host_of(name, self.clock.ahead_by(Duration::ZERO), true)
    }

    pub(crate) fn host_of(&self, name: &'static str, clock: ManualClock, tells_time: bool) -> Host {
        let replica = self.nodes.replica(name).with_clock(clock.clone());
        let wire = Wire::default();
        let builder = Redlock::builder()
            .owner(name)
            .max_ttl(60 * TTL)
            .spawner(clock.spawner())
            .clock(clock.clone());
        let direct = replica.redlock();
        let watched = direct.nodes().iter().enumerate().map(|(number, node)| {
            let node = wire.node(node, number, &self.clock);
            if tells_time { node } else { node.without_wall() }
        });
        let redlock = with_nodes(builder, watched).build().unwrap();
        let (log, killed) = (self.log.clone(), watch::Sender::new(false));
        let hang = Arc::default();
        Host { name, replica, redlock, clock, wire, log, killed, hang }
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// Drives a command for at most 3 s, and returns its result.
    pub(crate) fn done<T: Send + 'static>(
        &self,
        command: impl IntoFuture<Output = T, IntoFuture: Send + 'static>,
    ) -> T {
        let mut task = self.clock.spawn(command.into_future());
        for _ in 0..30 {
            self.clock.settle();
            if let Some(result) = task.take() {
                return result;
            }
            self.advance(100 * MS);
        }
        panic!("the command does not end");
    }

    /// Returns the history of a job.
    pub(crate) fn history(&self, jobs: &RunningScheduler, job: &'static str) -> Vec<JobRun> {
        let handle = jobs.handle.clone();
        self.done(async move { handle.history(job).await }).unwrap()
    }

    /// Begins to shut a scheduler down.
    pub(crate) fn shutdown(
        &self,
        jobs: &RunningScheduler,
        grace: Duration,
    ) -> Task<ShutdownReport> {
        let handle = jobs.handle.clone();
        self.clock.spawn(async move { handle.shutdown(grace).await })
    }

    /// Begins to remove a job.
    pub(crate) fn remove(
        &self,
        jobs: &RunningScheduler,
        job: &'static str,
    ) -> Task<Result<(), UnknownJob>> {
        let handle = jobs.handle.clone();
        self.clock.spawn(async move { handle.remove(job).await })
    }
}

impl Host {
    pub(crate) fn start(&self, jobs: impl IntoIterator<Item = Job>) -> RunningScheduler {
        self.run(self.scheduler().jobs(jobs))
    }

    /// A scheduler that does not look for unused jobs, whose messages would be counted.
    fn scheduler(&self) -> Scheduler {
        Scheduler::new(self.redlock.clone()).forget_unused_after(Duration::MAX)
    }

    /// Starts a scheduler whose jobs run on the leader only.
    pub(crate) fn start_led(&self, jobs: impl IntoIterator<Item = Job>) -> RunningScheduler {
        self.start_led_by("x", jobs)
    }

    pub(crate) fn start_led_by(
        &self,
        leader: impl Into<Candidate>,
        jobs: impl IntoIterator<Item = Job>,
    ) -> RunningScheduler {
        self.run(self.scheduler().jobs(jobs).leader_only(leader))
    }

    /// Stops the runtime from polling the selected tasks, numbered in the order in which they
    /// were spawned; the manager's thread continues.
    pub(crate) fn hang(&self, which: impl Fn(usize) -> bool + Send + 'static) {
        self.hang.which.lock().unwrap().replace(Box::new(which));
    }

    /// The runtime polls all tasks again.
    pub(crate) fn unhang(&self) {
        self.hang.which.lock().unwrap().take();
        std::mem::take(&mut *self.hang.wakers.lock().unwrap()).into_iter().for_each(Waker::wake);
        self.clock.settle();
    }

    pub(crate) fn run(&self, scheduler: Scheduler) -> RunningScheduler {
        let (killed, hang) = (self.killed.clone(), Arc::clone(&self.hang));
        let spawner = KillableSpawner { inner: self.clock.spawner(), killed, hang };
        let handle = scheduler.spawner(spawner).start().unwrap();
        RunningScheduler { events: handle.events(), handle }
    }

    /// Ends the process: it sends nothing more, and runs nothing.
    pub(crate) fn crash(&self) {
        self.replica.partition(0..5);
        self.killed.send_replace(true);
        self.clock.settle();
    }

    /// A job that records its runs, each of which takes this time.
    pub(crate) fn job(&self, name: &str, schedule: impl Into<Schedule>, takes: Duration) -> Job {
        let (log, host, clock) = (self.log.clone(), self.name, self.clock.clone());
        Job::new(name, schedule, move |cx: JobContext| {
            let ended = log.begin(host, &cx, &clock);
            let sleep = clock.sleep(takes);
            async move {
                if !takes.is_zero() {
                    sleep.await;
                }
                ended.finished();
            }
        })
    }
}

type Which = Box<dyn Fn(usize) -> bool + Send>;

/// Tasks that their runtime does not poll.
#[derive(Default)]
struct Hang {
    spawned: AtomicUsize,
    which: Mutex<Option<Which>>,
    wakers: Mutex<Vec<Waker>>,
}

impl Hang {
    fn guards(self: &Arc<Self>, mut task: BoxFuture) -> BoxFuture {
        let (hang, number) = (Arc::clone(self), self.spawned.fetch_add(1, Ordering::SeqCst));
        Box::pin(poll_fn(move |cx| {
            if hang.which.lock().unwrap().as_ref().is_some_and(|hangs| hangs(number)) {
                hang.wakers.lock().unwrap().push(cx.waker().clone());
                return Poll::Pending;
            }
            task.as_mut().poll(cx)
        }))
    }
}

impl fmt::Debug for Hang {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hang")
    }
}

type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs tasks until it is killed.
#[derive(Debug)]
struct KillableSpawner {
    inner: ManualSpawner,
    killed: watch::Sender<bool>,
    hang: Arc<Hang>,
}

impl Spawner for KillableSpawner {
    fn spawn(&self, task: BoxFuture) {
        let mut killed = self.killed.subscribe();
        let task = self.hang.guards(task);
        self.inner.spawn(Box::pin(async move {
            tokio::select! {
                biased;
                _ = killed.wait_for(|killed| *killed) => {}
                () = task => {}
            }
        }));
    }
}

/// A started scheduler, and its events.
pub(crate) struct RunningScheduler {
    pub(crate) handle: SchedulerHandle,
    events: broadcast::Receiver<JobEvent>,
}

impl RunningScheduler {
    /// The events since the last call.
    pub(crate) fn new_events(&mut self) -> Vec<JobEvent> {
        std::iter::from_fn(|| match self.events.try_recv() {
            Ok(event) => Some(event),
            Err(broadcast::error::TryRecvError::Lagged(lost)) => panic!("{lost} events lost"),
            Err(_) => None,
        })
        .collect()
    }

    /// The names of the events since the last call.
    pub(crate) fn event_names(&mut self) -> Vec<&'static str> {
        self.new_events().iter().map(|event| event_name(&event.kind)).collect()
    }

    /// Counts, first ticks and reasons of what was reported as missed since the last call.
    pub(crate) fn missed(&mut self) -> Vec<(u64, u64, MissReason)> {
        let missed = self.new_events().into_iter().filter_map(|event| match event.kind {
            JobEventKind::Missed { count, first, why } => Some((count, after_start(first), why)),
            _ => None,
        });
        missed.collect()
    }

    pub(crate) fn status(&self, job: &str) -> JobStatus {
        self.handle.jobs().into_iter().find(|status| &*status.name == job).unwrap()
    }
}

pub(crate) fn event_name(kind: &JobEventKind) -> &'static str {
    match kind {
        JobEventKind::Claimed { .. } => "claimed",
        JobEventKind::Skipped(SkipReason::AlreadyStarted { .. }) => "already started",
        JobEventKind::Skipped(SkipReason::Overlap) => "overlap",
        JobEventKind::Skipped(SkipReason::NotLeading) => "not leading",
        JobEventKind::Skipped(SkipReason::Held { .. }) => "held",
        JobEventKind::Skipped(SkipReason::Unavailable { .. }) => "unavailable",
        JobEventKind::Missed { .. } => "missed",
        JobEventKind::GivenUp { .. } => "given up",
        JobEventKind::Interrupted { .. } => "interrupted",
        JobEventKind::Started { .. } => "started",
        JobEventKind::Extended { .. } => "extended",
        JobEventKind::Stopping => "stopping",
        JobEventKind::Retrying { .. } => "retrying",
        JobEventKind::Finished { .. } => "finished",
        JobEventKind::Failed { .. } => "failed",
        JobEventKind::Panicked { .. } => "panicked",
        JobEventKind::Lost { .. } => "lost",
        JobEventKind::TimedOut { .. } => "timed out",
        JobEventKind::Stopped { .. } => "stopped",
        JobEventKind::NotDone { .. } => "not done",
        JobEventKind::Skipped(SkipReason::Ended) => "cancelled",
        JobEventKind::Ended { .. } => "ended",
        _ => "unknown",
    }
}

/// Runs a test on a thread, and panics if it does not end within the limit.
pub(crate) fn with_timeout(limit: Duration, what: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        what();
        let _ = done.send(());
    });
    match is_done.recv_timeout(limit) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("the test does not end"),
        // Its own panic is reported below.
        _ => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}
