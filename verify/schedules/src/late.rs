//! Nodes that answer after the call, on a separate task.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex},
    task::Waker,
    time::Duration,
};

use tower_redlock::{
    lock::Spawner,
    node::{Hints, Node, NodeHealth, Op, Reply, Subscription},
    time::Timestamp,
};

use crate::activity::locked;

/// A node that runs operations in their order, after the calls that sent them.
pub(crate) struct LateNode<S> {
    inner: Arc<dyn Node>,
    queue: Arc<Mutex<LateQueue>>,
    spawner: S,
}

#[derive(Default)]
struct LateQueue {
    ops: VecDeque<(Op, Reply)>,
    /// Whether a task runs the operations.
    is_running: bool,
}

impl<S> LateNode<S> {
    pub(crate) fn new(inner: Arc<dyn Node>, spawner: S) -> Self {
        Self { inner, queue: Arc::default(), spawner }
    }
}

impl<S: Spawner> Node for LateNode<S> {
    fn send(&self, op: Op, reply: Reply) {
        let is_running = {
            let mut queue = locked(&self.queue);
            queue.ops.push_back((op, reply));
            std::mem::replace(&mut queue.is_running, true)
        };
        if !is_running {
            let (inner, queue) = (Arc::clone(&self.inner), Arc::clone(&self.queue));
            self.spawner.spawn(Box::pin(async move {
                while let Some((op, reply)) = next(&queue) {
                    inner.send(op, reply);
                }
            }));
        }
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn health(&self) -> NodeHealth {
        self.inner.health()
    }

    fn wall(&self, now: Timestamp, wall: Duration) -> Option<Duration> {
        self.inner.wall(now, wall)
    }

    fn subscribe(&self, name: &Arc<str>, hints: Hints) -> Subscription {
        self.inner.subscribe(name, hints)
    }

    fn wake_on_return(&self, waker: Waker) {
        self.inner.wake_on_return(waker);
    }
}

fn next(queue: &Mutex<LateQueue>) -> Option<(Op, Reply)> {
    let mut queue = locked(queue);
    let next = queue.ops.pop_front();
    queue.is_running = next.is_some();
    next
}

impl<S> fmt::Debug for LateNode<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LateNode").field("inner", &self.inner).finish_non_exhaustive()
    }
}
