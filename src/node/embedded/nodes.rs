use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use super::store::Store;
use crate::{
    node::{Hints, Node, Reply, Subscription, listeners::Listeners},
    protocol::Op,
    sync::Guard,
    time::{Clock, MonotonicWall, SystemClock, Timestamp},
};

/// A set of voting nodes inside this process.
///
/// For a single process, for development without servers, and for tests. Replicas within the
/// process share one set: `Redlock::builder().nodes_from(&set)`. The nodes keep nothing when the
/// process ends, and exclude nobody outside it.
///
/// ```
/// use tower_redlock::{EmbeddedNodes, Redlock};
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
    nodes: Arc<[Server]>,
    clock: Arc<MonotonicWall>,
}

/// What one node keeps, apart for each key prefix.
#[derive(Debug, Default)]
struct Server {
    namespaces: Mutex<HashMap<String, Namespace>>,
}

#[derive(Clone, Debug, Default)]
struct Namespace {
    store: Arc<Mutex<Store>>,
    listeners: Arc<Listeners>,
}

impl EmbeddedNodes {
    /// A set of `count` fresh nodes.
    pub fn new(count: usize) -> Self {
        Self::with_clock(count, SystemClock::new())
    }

    /// A set of `count` fresh nodes that read time from `clock`.
    pub fn with_clock(count: usize, clock: impl Clock) -> Self {
        let nodes = (0..count).map(|_| Server::default()).collect();
        Self { nodes, clock: Arc::new(MonotonicWall::new(Arc::new(clock))) }
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none; no manager can be built over such a set.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many keys are stored on each node, of all prefixes; expired ones are not counted.
    pub fn key_counts(&self) -> Vec<usize> {
        let now = self.clock.now();
        let count = |server: &Server| {
            let namespaces = crate::sync::lock(&server.namespaces);
            namespaces.values().map(|space| locked(&space.store).len(now)).sum()
        };
        self.nodes.iter().map(count).collect()
    }

    /// What the nodes' clocks show, which are not set back.
    #[cfg(feature = "testing")]
    pub(crate) fn wall(&self) -> Duration {
        self.clock.read(self.clock.now())
    }

    /// Lets all nodes lose what they keep, and grant no token up to `floor`. Who listens goes on
    /// listening.
    #[cfg(feature = "testing")]
    pub(crate) fn forget(&self, floor: u64) {
        self.each_store(|_, store| *store = Store::above(floor));
    }

    /// The greatest fence.
    #[cfg(feature = "testing")]
    pub(crate) fn greatest_fence(&self) -> u64 {
        let mut greatest = 0;
        self.each_store(|_, store| greatest = greatest.max(store.greatest_fence()));
        greatest
    }

    /// Takes over the fences, claims and records that the nodes of another set keep.
    #[cfg(feature = "testing")]
    pub(crate) fn learn(&self, other: &Self) {
        // One store after the other is locked: two sets may learn from each other.
        let mut known = HashMap::new();
        other.each_store(|prefix, store| {
            let mut copy = Store::default();
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
    fn each_store(&self, mut what: impl FnMut(&str, &mut Store)) {
        for server in &*self.nodes {
            for (prefix, space) in &*crate::sync::lock(&server.namespaces) {
                what(prefix, &mut locked(&space.store));
            }
        }
    }

    /// The nodes as a manager with this key prefix sees them: to be given to a builder one by one,
    /// wrapped perhaps.
    pub fn nodes(&self, prefix: &str) -> impl Iterator<Item = Arc<dyn Node>> {
        self.nodes.iter().enumerate().map(move |(i, server)| {
            let mut namespaces = crate::sync::lock(&server.namespaces);
            let node = EmbeddedNode {
                name: format!("embedded-{}", i + 1),
                space: namespaces.entry(prefix.to_owned()).or_default().clone(),
                clock: Arc::clone(&self.clock),
            };
            Arc::new(node) as Arc<dyn Node>
        })
    }
}

fn locked(store: &Mutex<Store>) -> Guard<'_, Store> {
    crate::sync::lock(store)
}

#[derive(Debug)]
struct EmbeddedNode {
    name: String,
    space: Namespace,
    clock: Arc<MonotonicWall>,
}

impl Node for EmbeddedNode {
    fn send(&self, op: Op, reply: Reply) {
        let mut freed = Vec::new();
        let result = locked(&self.space.store).run(&op, &self.clock, &mut freed);
        reply.send(result);
        for name in freed {
            self.space.listeners.freed(&name);
        }
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn wall(&self, _: Timestamp, wall: Duration) -> Option<Duration> {
        // One process, one clock: what differs is that the nodes' is not set back.
        Some(wall.saturating_add(self.clock.set_back_by()))
    }

    fn subscribe(&self, name: &Arc<str>, hints: Hints) -> Subscription {
        self.space.listeners.add(name, &hints)
    }
}
