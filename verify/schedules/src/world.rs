//! The world of one schedule: nodes inside the process, managers, threads, and a clock that moves
//! when there is no other activity.

use std::{
    future::{Future, poll_fn},
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use shuttle::{
    future,
    rand::{Rng, thread_rng},
    thread,
};
use tower_redlock::{
    Redlock, RedlockBuilder, lock::Spawner, node::EmbeddedNodes, testing::ManualClock,
};

use crate::{
    activity::{Activity, Actor, ActorGuard},
    holders::Holders,
    late::LateNode,
};

/// Step in which the clock is moved.
const TICK: Duration = Duration::from_millis(1);

/// Maximum number of points that [`pass`] passes: about the length of a release.
const MAX_POINTS: u32 = 60;

/// Nodes, managers and threads of one schedule.
#[derive(Debug)]
pub struct World {
    /// Moved when all tasks and threads wait, in [`run`](Self::run), or by a thread of the test.
    pub clock: ManualClock,
    /// The oracle of this world.
    pub holders: Holders,
    nodes: EmbeddedNodes,
    /// Whether nodes answer after the call.
    is_late: bool,
    activity: Arc<Activity>,
    /// Number of threads of the test, and of the managers' tasks, that have not ended.
    threads: Arc<AtomicUsize>,
    tasks: Arc<AtomicUsize>,
}

/// A thread of the test.
#[derive(Debug)]
pub struct Thread {
    actor: Arc<Actor>,
    activity: Arc<Activity>,
    threads: Arc<AtomicUsize>,
}

impl World {
    /// Creates a world with this number of nodes, which answer within the call.
    pub fn new(nodes: usize) -> Self {
        Self::with_nodes(nodes, false)
    }

    /// Creates a world with this number of nodes, which answer after the call, on another thread.
    pub fn late(nodes: usize) -> Self {
        Self::with_nodes(nodes, true)
    }

    fn with_nodes(nodes: usize, is_late: bool) -> Self {
        let clock = ManualClock::new();
        Self {
            nodes: EmbeddedNodes::with_clock(nodes, clock.clone()),
            is_late,
            clock,
            holders: Holders::default(),
            activity: Arc::default(),
            threads: Arc::default(),
            tasks: Arc::default(),
        }
    }

    /// A manager with the default settings.
    pub fn manager(&self, owner: &str) -> Redlock {
        self.manager_with(owner, |builder| builder)
    }

    /// A manager with other settings.
    pub fn manager_with(
        &self,
        owner: &str,
        settings: impl FnOnce(RedlockBuilder) -> RedlockBuilder,
    ) -> Redlock {
        let spawner =
            TaskSpawner { activity: Arc::clone(&self.activity), tasks: Arc::clone(&self.tasks) };
        let mut builder = Redlock::builder().owner(owner).clock(self.clock.clone());
        if self.is_late {
            for node in self.nodes.nodes("redlock") {
                builder = builder.node(LateNode::new(node, spawner.clone()));
            }
        } else {
            builder = builder.nodes_from(&self.nodes);
        }
        settings(builder.spawner(spawner)).build().expect("valid settings")
    }

    /// Starts a thread.
    pub fn thread(&self, body: impl FnOnce(Thread) + Send + 'static) {
        Thread::start(&self.activity, &self.threads, body);
    }

    /// Runs the threads to their ends, and then the tasks of the managers, which the threads have
    /// dropped. The clock moves whenever all of them wait, by at most `idle` in total.
    ///
    /// # Panics
    ///
    /// If a wait takes longer, or a key is left on a node.
    pub fn run(self, idle: Duration) {
        let mut idled = Duration::ZERO;
        loop {
            future::block_on(self.activity.idle());
            let (threads, tasks) =
                (self.threads.load(Ordering::Relaxed), self.tasks.load(Ordering::Relaxed));
            if threads == 0 {
                // They keep the managers.
                self.holders.forget();
            }
            if (threads, tasks) == (0, 0) {
                break;
            }
            assert!(
                idled < idle,
                "{threads} threads and {tasks} tasks wait for something that does not come within {idle:?}"
            );
            self.clock.leap(TICK);
            idled += TICK;
        }
        let keys = self.nodes.key_counts();
        assert!(keys.iter().all(|keys| *keys == 0), "keys are left: {keys:?}");
    }
}

impl Thread {
    fn start(
        activity: &Arc<Activity>,
        threads: &Arc<AtomicUsize>,
        body: impl FnOnce(Self) + Send + 'static,
    ) {
        let actor = activity.actor();
        let ended = (Counted::new(threads), ActorGuard(Arc::clone(&actor)));
        let this = Self { actor, activity: Arc::clone(activity), threads: Arc::clone(threads) };
        thread::spawn(move || {
            let _ended = ended;
            body(this);
        });
    }

    /// Starts another thread.
    pub fn spawn(&self, body: impl FnOnce(Self) + Send + 'static) {
        Self::start(&self.activity, &self.threads, body);
    }

    /// Runs a future to its end.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        future::block_on(self.actor.run(future))
    }

    /// Polls a future once, and drops it after some points of the schedule. Returns its output if
    /// it was ready at once.
    pub fn abandon<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = Box::pin(future);
        self.block_on(poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => {
                pass();
                Poll::Ready(None)
            }
        }))
    }
}

/// Passes up to `MAX_POINTS` points of the schedule, at which other threads may run.
pub fn pass() {
    for _ in 0..thread_rng().gen_range(0..=MAX_POINTS) {
        thread::sleep(Duration::ZERO);
    }
}

/// Runs the managers' tasks as tasks of the schedule.
#[derive(Clone, Debug)]
struct TaskSpawner {
    activity: Arc<Activity>,
    tasks: Arc<AtomicUsize>,
}

impl Spawner for TaskSpawner {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let actor = self.activity.actor();
        let ended = (Counted::new(&self.tasks), ActorGuard(Arc::clone(&actor)));
        drop(future::spawn(async move {
            let _ended = ended;
            actor.run(task).await;
        }));
    }

    fn spawn_blocking(
        &self,
        _: &str,
        task: Pin<Box<dyn Future<Output = ()> + Send>>,
    ) -> io::Result<()> {
        self.spawn(task);
        Ok(())
    }
}

/// Counts its instances until they are dropped.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
