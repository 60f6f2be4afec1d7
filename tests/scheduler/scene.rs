//! Replicas of a service over the testing kit's clock and nodes.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use tokio::sync::{broadcast, watch};
use tower_redlock::{
    Job, JobContext, Redlock, Scheduler, SchedulerHandle,
    lock::Spawner,
    schedule::{Schedule, WallTime},
    scheduler::{JobEvent, JobEventKind, JobStatus, SkipReason},
    testing::{ManualClock, ManualSpawner, Nodes, Replica},
    time::Clock,
};

use crate::site::{Watched, Wire};

pub const SECOND: Duration = Duration::from_secs(1);
pub const MS: Duration = Duration::from_millis(1);
pub const TTL: Duration = Duration::from_secs(10);

pub struct Scene {
    pub clock: ManualClock,
    pub nodes: Nodes,
    pub log: Log,
}

/// A replica with its own manager, and all that it sends in view.
pub struct Site {
    pub name: &'static str,
    pub replica: Replica,
    pub redlock: Redlock,
    pub clock: ManualClock,
    pub wire: Wire,
    pub log: Log,
    killed: watch::Sender<bool>,
}

impl Scene {
    pub fn new() -> Self {
        let clock = ManualClock::new();
        Self { nodes: Nodes::new(5, &clock), clock, log: Log::default() }
    }

    pub fn site(&self, name: &'static str) -> Site {
        self.site_at(name, self.clock.clone())
    }

    /// On a machine with this view of the clock.
    pub fn site_at(&self, name: &'static str, clock: ManualClock) -> Site {
        let replica = self.nodes.replica(name).with_clock(clock.clone());
        let wire = Wire::default();
        let builder = Redlock::builder().owner(name).spawner(clock.spawner()).clock(clock.clone());
        let direct = replica.redlock();
        let watched = direct.nodes().iter().enumerate().map(|(number, node)| Watched {
            inner: Arc::clone(node),
            number,
            wire: wire.clone(),
        });
        let redlock = watched.fold(builder, tower_redlock::RedlockBuilder::node).build().unwrap();
        let (log, killed) = (self.log.clone(), watch::Sender::new(false));
        Site { name, replica, redlock, clock, wire, log, killed }
    }

    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

impl Site {
    pub fn start(&self, jobs: impl IntoIterator<Item = Job>) -> Running {
        let spawner = Mortal { inner: self.clock.spawner(), killed: self.killed.clone() };
        let scheduler = Scheduler::new(self.redlock.clone()).jobs(jobs).spawner(spawner);
        let handle = scheduler.start().unwrap();
        Running { events: handle.events(), handle }
    }

    /// The process is gone: nothing more comes from it, and nothing runs in it.
    pub fn crash(&self) {
        self.replica.partition(0..5);
        self.killed.send_replace(true);
        self.clock.settle();
    }

    /// A job that notes its runs, each of which takes so long.
    pub fn job(&self, name: &str, schedule: impl Into<Schedule>, takes: Duration) -> Job {
        let (log, site, clock) = (self.log.clone(), self.name, self.clock.clone());
        Job::new(name, schedule, move |cx: JobContext| {
            let ended = log.begin(site, &cx, &clock);
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

/// Runs tasks until it is killed.
#[derive(Debug)]
struct Mortal {
    inner: ManualSpawner,
    killed: watch::Sender<bool>,
}

impl Spawner for Mortal {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let mut killed = self.killed.subscribe();
        self.inner.spawn(Box::pin(async move {
            tokio::select! {
                biased;
                _ = killed.wait_for(|killed| *killed) => {}
                () = task => {}
            }
        }));
    }
}

/// A scheduler that was started, and what it tells.
pub struct Running {
    pub handle: SchedulerHandle,
    events: broadcast::Receiver<JobEvent>,
}

impl Running {
    /// What was told since this was asked last.
    pub fn told(&mut self) -> Vec<JobEvent> {
        std::iter::from_fn(|| match self.events.try_recv() {
            Ok(event) => Some(event),
            Err(broadcast::error::TryRecvError::Lagged(lost)) => panic!("{lost} events lost"),
            Err(_) => None,
        })
        .collect()
    }

    /// The same, in a word each.
    pub fn words(&mut self) -> Vec<&'static str> {
        self.told().iter().map(|event| word(&event.kind)).collect()
    }

    pub fn status(&self, job: &str) -> JobStatus {
        self.handle.jobs().into_iter().find(|status| &*status.name == job).unwrap()
    }
}

pub fn word(kind: &JobEventKind) -> &'static str {
    match kind {
        JobEventKind::Claimed { .. } => "claimed",
        JobEventKind::Skipped(SkipReason::AlreadyStarted { .. }) => "already started",
        JobEventKind::Skipped(SkipReason::Overlap) => "overlap",
        JobEventKind::Skipped(SkipReason::Held { .. }) => "held",
        JobEventKind::Skipped(SkipReason::Unavailable { .. }) => "unavailable",
        JobEventKind::Missed { .. } => "missed",
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
        _ => "unknown",
    }
}

/// What ran where, in the order of the starts.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<Entry>>>);

#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub site: &'static str,
    pub job: String,
    pub tick: WallTime,
    pub attempt: u32,
    pub token: u64,
    pub lateness: Duration,
    /// On the clock of the site, since the epoch.
    pub began: Duration,
    /// When it ended or was dropped.
    pub ended: Option<Duration>,
    pub finished: bool,
}

/// Notes the end of a run, also where it is dropped.
pub struct Ended {
    log: Log,
    entry: usize,
    clock: ManualClock,
}

impl Log {
    pub fn begin(&self, site: &'static str, cx: &JobContext, clock: &ManualClock) -> Ended {
        let mut entries = self.0.lock().unwrap();
        entries.push(Entry {
            site,
            job: cx.job().into(),
            tick: cx.tick(),
            attempt: cx.attempt(),
            token: cx.fencing_token().get(),
            lateness: cx.lateness(),
            began: clock.wall(),
            ended: None,
            finished: false,
        });
        Ended { log: self.clone(), entry: entries.len() - 1, clock: clock.clone() }
    }

    pub fn entries(&self) -> Vec<Entry> {
        self.0.lock().unwrap().clone()
    }

    /// The ticks that were run, in the order of their runs, in milliseconds after the first moment.
    pub fn ticks(&self) -> Vec<u64> {
        self.entries().iter().map(|run| after_start(run.tick)).collect()
    }

    /// Who ran, in the same order.
    pub fn sites(&self) -> Vec<&'static str> {
        self.entries().iter().map(|run| run.site).collect()
    }
}

impl Ended {
    pub fn finished(self) {
        self.log.0.lock().unwrap()[self.entry].finished = true;
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.log.0.lock().unwrap()[self.entry].ended = Some(self.clock.wall());
    }
}

/// In milliseconds after the clock's first moment.
pub fn after_start(tick: WallTime) -> u64 {
    tick.as_millis().saturating_sub(ManualClock::new().wall().as_millis() as u64)
}

/// Runs what would not end if it failed.
pub fn within(limit: Duration, what: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        what();
        let _ = done.send(());
    });
    match is_done.recv_timeout(limit) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it does not end"),
        // A panic of its own is told below.
        _ => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}
