//! A manager over nodes that count the operations, on a manual clock.

use std::{
    future::IntoFuture,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use tower_redlock::{
    Lock, LockRequest, Redlock, RedlockBuilder, Resource, error::ResourceError, lock::Acquire,
    node::Op,
};

use crate::support::{mock_node::MockNode, scene as support};

pub(crate) use crate::{
    fixture::poll,
    support::scene::{TTL, VALIDITY},
};

pub(crate) const NODES: usize = 3;
pub(crate) const WAIT: Duration = Duration::from_secs(3_600);

/// Number of operations that were sent to all nodes.
#[derive(Debug, Default)]
struct Counts {
    acquires: AtomicUsize,
    all: AtomicUsize,
}

pub(crate) struct Fixture {
    fixture: support::Scene,
    counts: Arc<Counts>,
}

impl Deref for Fixture {
    type Target = support::Scene;

    fn deref(&self) -> &support::Scene {
        &self.fixture
    }
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(|builder| builder)
    }

    pub(crate) fn with(set: impl FnOnce(RedlockBuilder) -> RedlockBuilder) -> Self {
        let counts = Arc::<Counts>::default();
        let count = |inner| {
            let counts = Arc::clone(&counts);
            MockNode::observing(&inner, move |op| {
                let is_acquire = matches!(op, Op::Acquire(_));
                counts.acquires.fetch_add(usize::from(is_acquire), Ordering::SeqCst);
                counts.all.fetch_add(1, Ordering::SeqCst);
            })
        };
        let fixture =
            support::Scene::by_hand(NODES).over(|builder| set(builder.owner("we")), count);
        Self { fixture, counts }
    }

    /// Another process, whose messages are not counted.
    pub(crate) fn other(&self) -> Redlock {
        self.manager(|builder| builder.owner("other"))
    }

    /// Number of acquired leases.
    pub(crate) fn leases(&self) -> usize {
        self.counts.acquires.load(Ordering::SeqCst) / NODES
    }

    /// Number of messages that were sent.
    pub(crate) fn sent(&self) -> usize {
        self.counts.all.load(Ordering::SeqCst)
    }

    pub(crate) fn request(&self, name: impl Name) -> LockRequest {
        self.redlock.lock(name).wait(WAIT)
    }

    pub(crate) fn lock(&self, name: impl Name) -> Lock {
        granted(&mut self.request(name).into_future())
    }

    /// Adds a waiter to the queue.
    pub(crate) fn waiter(&self, name: impl Name) -> Acquire {
        waiting(self.request(name))
    }
}

pub(crate) trait Name: TryInto<Resource, Error = ResourceError> {}

impl<N: TryInto<Resource, Error = ResourceError>> Name for N {}

#[track_caller]
pub(crate) fn granted(acquire: &mut Acquire) -> Lock {
    match poll(acquire) {
        Poll::Ready(Ok(lock)) => lock,
        other => panic!("not granted: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn waiting(request: LockRequest) -> Acquire {
    let mut acquire = request.into_future();
    assert!(poll(&mut acquire).is_pending(), "it waits");
    acquire
}
