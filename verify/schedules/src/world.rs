//! The world of one schedule: nodes inside the process, managers, threads, and a clock that moves
//! when there is no other activity.

use std::{
    future::{Future, IntoFuture, poll_fn},
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
    LockError, LockRequest, Redlock, RedlockBuilder, lock::Spawner, node::EmbeddedNodes,
    testing::ManualClock,
};

use crate::{
    activity::{Activity, Actor, ActorGuard},
    holders::Holders,
    late::LateNode,
};

/// Step in which the clock is moved.
const TICK: Duration = Duration::from_millis(1);

/// A wait that is longer than any test.
pub const LONG: Duration = Duration::from_secs(3_600);

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

    /// Starts threads that use a manager.
    pub fn users(
        &self,
        redlock: &Redlock,
        count: usize,
        user: impl Fn(&Thread, &Redlock, &Holders) + Clone + Send + 'static,
    ) {
        for _ in 0..count {
            let (redlock, holders, user) = (redlock.clone(), self.holders.clone(), user.clone());
            self.thread(move |thread| user(&thread, &redlock, &holders));
        }
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

    /// Holds a lock for some points of the schedule.
    pub fn hold(&self, request: LockRequest, holders: &Holders) {
        let lock = self.block_on(request.into_future()).expect("the lock is granted");
        holders.granted(&lock);
        pass();
        drop(lock);
    }

    /// Drops a request after some points of the schedule, unless it is granted at once.
    pub fn abandon_request(&self, request: LockRequest, holders: &Holders) {
        if let Some(lock) = self.abandon(request.into_future()) {
            holders.granted(&lock.expect("the lock is granted"));
        }
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

/// Requests `x` until it is granted.
pub fn request(redlock: &Redlock) -> LockRequest {
    redlock.lock("x").wait(LONG)
}

/// Holds `x` once.
pub fn hold(thread: &Thread, redlock: &Redlock, holders: &Holders) {
    thread.hold(request(redlock), holders);
}

/// Requests `x`, and drops the request.
pub fn abandon(thread: &Thread, redlock: &Redlock, holders: &Holders) {
    thread.abandon_request(request(redlock), holders);
}

/// Attempts `x` once.
pub fn attempt(thread: &Thread, redlock: &Redlock, holders: &Holders) {
    match thread.block_on(redlock.lock("x").into_future()) {
        Ok(lock) => holders.granted(&lock),
        Err(error) => assert!(matches!(error, LockError::Held { .. }), "{error}"),
    }
}

/// Requests `x` of a manager that may be shut down meanwhile.
pub fn request_until_closed(thread: &Thread, redlock: &Redlock, holders: &Holders) {
    match thread.block_on(request(redlock).into_future()) {
        Ok(lock) => holders.granted(&lock),
        Err(error) => assert!(matches!(error, LockError::Closed), "{error}"),
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
