//! Processes over nodes, on a clock that the test moves.

use std::{
    future::{Future, IntoFuture},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::Wake,
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};
use tower_redlock::{
    Lock, LockError, LockRequest, Redlock, RedlockBuilder,
    error::Reason,
    node::{Answer, Node, Op, Reply},
    testing::{ManualClock, Nodes, Task},
};

use crate::support::mock_node::{MockNode, with_nodes};

/// A request that may wait.
pub(crate) type Acquiring = Task<Result<Lock, LockError>>;

/// A manager for each process.
pub(crate) struct Fixture<const N: usize> {
    pub(crate) clock: ManualClock,
    pub(crate) nodes: Nodes,
    pub(crate) processes: [Redlock; N],
}

impl<const N: usize> Fixture<N> {
    /// Over this number of nodes, with processes of these names.
    pub(crate) fn new(nodes: usize, names: [&str; N]) -> Self {
        Self::on(ManualClock::new(), nodes, names)
    }

    pub(crate) fn on(clock: ManualClock, nodes: usize, names: [&str; N]) -> Self {
        let nodes = Nodes::new(nodes, &clock);
        let processes = names.map(|name| nodes.replica(name).redlock());
        Self { clock, nodes, processes }
    }

    /// Over three nodes, with processes `p0`, `p1`, …
    pub(crate) fn numbered(seed: u64) -> Self {
        let clock = ManualClock::with_seed(seed);
        let nodes = Nodes::new(3, &clock);
        let processes = std::array::from_fn(|i| nodes.replica(format!("p{i}")).redlock());
        Self { clock, nodes, processes }
    }

    /// Starts a future, and lets the nodes answer.
    pub(crate) fn spawn<F>(&self, future: F) -> Task<F::Output>
    where
        F: IntoFuture<IntoFuture: Send + 'static, Output: Send + 'static>,
    {
        let task = self.clock.spawn(future.into_future());
        self.clock.settle();
        task
    }

    /// Returns the output of a future that waits for the nodes only.
    pub(crate) fn done<F>(&self, future: F) -> F::Output
    where
        F: IntoFuture<IntoFuture: Send + 'static, Output: Send + 'static>,
    {
        self.spawn(future).take().expect("the future needs no time")
    }
}

impl<const N: usize> Fixture<N> {
    /// A request of a process for the name `report`.
    pub(crate) fn request(&self, process: usize) -> LockRequest {
        self.processes[process].lock("report")
    }

    pub(crate) fn read(&self, process: usize) -> Result<Lock, LockError> {
        self.done(self.request(process).shared())
    }

    pub(crate) fn write(&self, process: usize) -> Result<Lock, LockError> {
        self.done(self.request(process))
    }
}

/// Calls the first node of a process directly, and keeps its answers.
pub(crate) struct DirectNode {
    pub(crate) redlock: Redlock,
    replies: Arc<Mutex<Vec<Result<Answer, Reason>>>>,
}

impl DirectNode {
    pub(crate) fn new(redlock: Redlock) -> Self {
        Self { redlock, replies: Arc::default() }
    }

    pub(crate) fn send(&self, op: Op) {
        let replies = Arc::clone(&self.replies);
        let reply = Reply::from_fn(move |result| replies.lock().unwrap().push(result));
        self.redlock.nodes()[0].send(op, reply);
    }

    /// Returns the answers since the last call.
    pub(crate) fn replies(&self) -> Vec<Result<Answer, Reason>> {
        std::mem::take(&mut *self.replies.lock().unwrap())
    }
}

/// A manager over the nodes of another one, and the number of acquires that it sent.
pub(crate) fn counted(
    clock: &ManualClock,
    lender: &Redlock,
    with: impl FnOnce(RedlockBuilder) -> RedlockBuilder,
) -> (Redlock, Arc<AtomicUsize>) {
    let acquires = Arc::<AtomicUsize>::default();
    let count = |node: &Arc<dyn Node>| {
        let acquires = Arc::clone(&acquires);
        MockNode::observing(node, move |op| {
            acquires.fetch_add(usize::from(matches!(op, Op::Acquire(_))), Ordering::SeqCst);
        })
    };
    let builder = Redlock::builder().clock(clock.clone()).spawner(clock.spawner());
    let builder = with_nodes(builder, lender.nodes().iter().map(count));
    (with(builder).build().unwrap(), acquires)
}

/// Counts wake-ups.
#[derive(Default)]
pub(crate) struct Woken(pub(crate) AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The processor time of this thread, which runs all tasks of the clock.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.try_into().unwrap())
}

/// Returns the lock of a request that must have been granted.
#[track_caller]
pub(crate) fn granted(request: &mut Acquiring) -> Lock {
    request.take().expect("the waiter is granted the lock").expect("the request succeeds")
}

/// Whether a request was refused because the lock is held.
#[track_caller]
pub(crate) fn is_held(result: Result<Lock, LockError>) -> bool {
    matches!(result.expect_err("the lock is held").root(), LockError::Held { .. })
}

/// The request with a wait that is longer than any test.
pub(crate) fn patient(request: LockRequest) -> LockRequest {
    request.wait(60 * crate::durations::MINUTE)
}

/// Polls a future once, without a waker.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> std::task::Poll<F::Output> {
    let waker = std::task::Waker::noop();
    std::pin::Pin::new(future).poll(&mut std::task::Context::from_waker(waker))
}
