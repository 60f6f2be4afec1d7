//! Two replicas in virtual time, and the number of runs of their work.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tower_redlock::{
    Redlock,
    testing::{ManualClock, Nodes, Replica},
};

pub(crate) struct Pair {
    pub(crate) clock: ManualClock,
    pub(crate) nodes: Nodes,
    pub(crate) blue: Replica,
    pub(crate) at_blue: Redlock,
    pub(crate) at_green: Redlock,
    pub(crate) runs: Runs,
}

impl Pair {
    pub(crate) fn new(nodes: usize) -> Self {
        let clock = ManualClock::new();
        let nodes = Nodes::new(nodes, &clock);
        let (blue, green) = (nodes.replica("blue"), nodes.replica("green"));
        let (at_blue, at_green) = (blue.redlock(), green.redlock());
        Self { clock, nodes, blue, at_blue, at_green, runs: Runs::default() }
    }
}

/// The number of runs of the work.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs(Arc<AtomicUsize>);

impl Runs {
    /// Returns the number of this run, from one.
    pub(crate) fn run(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}
