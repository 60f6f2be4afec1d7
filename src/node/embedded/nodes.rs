use std::sync::{Arc, Mutex, PoisonError};

use super::store::Store;
use crate::{
    node::{Node, Op, Reply},
    time::{Clock, SystemClock},
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
    nodes: Arc<[Arc<EmbeddedNode>]>,
}

impl EmbeddedNodes {
    /// A set of `count` fresh nodes.
    pub fn new(count: usize) -> Self {
        Self::with_clock(count, SystemClock::new())
    }

    /// A set of `count` fresh nodes that read time from `clock`.
    pub fn with_clock(count: usize, clock: impl Clock) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(clock);
        let node = |i| {
            Arc::new(EmbeddedNode {
                name: format!("embedded-{i}"),
                store: Mutex::default(),
                clock: Arc::clone(&clock),
            })
        };
        Self { nodes: (1..=count).map(node).collect() }
    }

    /// How many keys are stored on each node, expired ones not counted.
    pub fn key_counts(&self) -> Vec<usize> {
        self.nodes.iter().map(|node| node.key_count()).collect()
    }

    /// The nodes, to be given to a builder one by one, wrapped perhaps.
    pub fn iter(&self) -> impl Iterator<Item = Arc<dyn Node>> {
        self.nodes.iter().map(|node| Arc::clone(node) as Arc<dyn Node>)
    }
}

#[derive(Debug)]
struct EmbeddedNode {
    name: String,
    store: Mutex<Store>,
    clock: Arc<dyn Clock>,
}

impl EmbeddedNode {
    fn key_count(&self) -> usize {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).len(self.clock.now())
    }
}

impl Node for EmbeddedNode {
    fn send(&self, op: Op, reply: Reply) {
        let result = {
            let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
            store.run(&op, self.clock.now(), self.clock.wall())
        };
        reply.send(result);
    }

    fn name(&self) -> &str {
        &self.name
    }
}
