//! A set of nodes inside the process.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::{sharing::Notice, store::EmbeddedStore};
use crate::{
    node::{Hint, Hints, Node, Reply, Subscription, subscriptions::Subscriptions},
    protocol::{Answer, Op},
    sync::{Mutex, lock},
    time::{Clock, MonotonicWall, SystemClock, Timestamp},
};

/// A set of voting nodes inside this process.
///
/// For a single process, for development without servers, and for tests. Replicas within the
/// process share one set: `Redlock::builder().nodes_from(&set)`. The nodes lose their state when
/// the process ends, and do not exclude clients in other processes.
///
/// ```
/// use tower_redlock::{node::EmbeddedNodes, Redlock};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let nodes = EmbeddedNodes::new(5);
/// let blue = Redlock::builder().nodes_from(&nodes).owner("blue").build()?;
/// let green = Redlock::builder().nodes_from(&nodes).owner("green").build()?;
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let lock = blue.lock("report").await?;
/// assert!(green.lock("report").await.is_err());
/// # drop(lock);
/// # Ok::<(), tower_redlock::LockError>(())
/// # })?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct EmbeddedNodes {
    nodes: Arc<[EmbeddedServer]>,
    clock: Arc<MonotonicWall>,
}

/// The state of one node, by key prefix.
#[derive(Debug, Default)]
struct EmbeddedServer {
    namespaces: Mutex<HashMap<String, Namespace>>,
}

#[derive(Clone, Debug)]
struct Namespace {
    store: Arc<Mutex<EmbeddedStore>>,
    subscriptions: Arc<Subscriptions>,
}

impl Default for Namespace {
    fn default() -> Self {
        Self { store: Arc::default(), subscriptions: Subscriptions::local() }
    }
}

impl EmbeddedNodes {
    /// Creates a set of `count` new nodes.
    pub fn new(count: usize) -> Self {
        Self::with_clock(count, SystemClock::new())
    }

    /// Creates a set of `count` new nodes that read time from `clock`.
    pub fn with_clock(count: usize, clock: impl Clock) -> Self {
        let nodes = (0..count).map(|_| EmbeddedServer::default()).collect();
        Self { nodes, clock: Arc::new(MonotonicWall::new(clock.into_kept())) }
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether there are no nodes; no manager can be built on an empty set.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the number of unexpired keys on each node, over all prefixes.
    pub fn key_counts(&self) -> Vec<usize> {
        let now = self.clock.now();
        let count = |server: &EmbeddedServer| {
            let namespaces = lock(&server.namespaces);
            namespaces.values().map(|space| lock(&space.store).len(now)).sum()
        };
        self.nodes.iter().map(count).collect()
    }

    /// Returns the nodes' wall clock, which never moves back.
    #[cfg(feature = "testing")]
    pub(crate) fn wall(&self) -> Duration {
        self.clock.read(self.clock.now())
    }

    /// Clears all nodes, which then grant no token up to `floor`. Subscriptions stay.
    #[cfg(feature = "testing")]
    pub(crate) fn forget(&self, floor: u64) {
        self.each_store(|_, store| *store = EmbeddedStore::above(floor));
    }

    /// Returns the greatest fence.
    #[cfg(feature = "testing")]
    pub(crate) fn greatest_fence(&self) -> u64 {
        let mut greatest = 0;
        self.each_store(|_, store| greatest = greatest.max(store.greatest_fence()));
        greatest
    }

    /// Merges the fences, claims and records of another set.
    #[cfg(feature = "testing")]
    pub(crate) fn learn(&self, other: &Self) {
        // Only one store is locked at a time, as two sets may learn from each other.
        let mut known = HashMap::new();
        other.each_store(|prefix, store| {
            let mut copy = EmbeddedStore::default();
            copy.learn(store);
            known.insert(prefix.to_owned(), copy);
        });
        self.each_store(|prefix, store| {
            if let Some(known) = known.get(prefix) {
                store.learn(known);
            }
        });
    }

    #[cfg(feature = "testing")]
    fn each_store(&self, mut what: impl FnMut(&str, &mut EmbeddedStore)) {
        for server in &*self.nodes {
            for (prefix, space) in &*lock(&server.namespaces) {
                what(prefix, &mut lock(&space.store));
            }
        }
    }

    /// Returns the nodes as a manager with this key prefix uses them, for a builder.
    pub fn nodes(&self, prefix: &str) -> impl Iterator<Item = Arc<dyn Node>> {
        self.nodes.iter().enumerate().map(move |(i, server)| {
            let mut namespaces = lock(&server.namespaces);
            let node = EmbeddedNode {
                name: format!("embedded-{}", i + 1),
                space: namespaces.entry(prefix.to_owned()).or_default().clone(),
                clock: Arc::clone(&self.clock),
            };
            Arc::new(node) as Arc<dyn Node>
        })
    }
}

#[derive(Debug)]
struct EmbeddedNode {
    name: String,
    space: Namespace,
    clock: Arc<MonotonicWall>,
}

impl Node for EmbeddedNode {
    fn send(&self, op: Op, reply: Reply) {
        let mut notices = Vec::new();
        let mut result = lock(&self.space.store).run(&op, &self.clock, &mut notices);
        // A request for any of several slots listens, and leaves no mark.
        if let (Op::Release(lease), Ok(Answer::Released(released))) = (&op, &mut result)
            && lease.is_always_awaited()
        {
            let name = &lease.resource().shared_names()[0];
            released.awaited &= self.space.subscriptions.listening(name) > 0;
        }
        reply.send(result);
        for notice in notices {
            match notice {
                Notice::Freed(name) => self.space.subscriptions.released(&name, None),
                Notice::Asked { owner, name } => {
                    self.space.subscriptions.tell(&owner, &Hint::Asked { name });
                }
                Notice::Withdrawn { owner, name } => {
                    self.space.subscriptions.tell(&owner, &Hint::Withdrawn { name });
                }
            }
        }
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn wall(&self, _: Timestamp, wall: Duration) -> Option<Duration> {
        // The wall clock of the process, except that this one never moves back.
        Some(wall.saturating_add(self.clock.set_back_by()))
    }

    fn subscribe(&self, name: &Arc<str>, hints: Hints) -> Subscription {
        self.space.subscriptions.add(name, &hints)
    }
}
