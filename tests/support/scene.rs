//! A builder of scenes inside the process: a clock, nodes on it, and a manager over them.
#![allow(dead_code, reason = "several test binaries share this file, and each uses a part of it")]

use std::{sync::Arc, time::Duration};

use tower_redlock::{
    Redlock, RedlockBuilder,
    node::{EmbeddedNodes, Node},
};

use super::{
    hand_clock::HandClock,
    mock_node::{MockNode, with_nodes},
};

/// The default.
pub(crate) const TTL: Duration = Duration::from_secs(10);
/// TTL − (1 % + 2 ms).
pub(crate) const VALIDITY: Duration = Duration::from_millis(9_898);

/// A manager with the default settings, unless [`with`](Self::with) or [`over`](Self::over)
/// replaces it.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) clock: HandClock,
    pub(crate) nodes: EmbeddedNodes,
    pub(crate) redlock: Redlock,
}

impl Scene {
    pub(crate) fn by_hand(nodes: usize) -> Self {
        Self::on(HandClock::new(), nodes)
    }

    /// Creates a scene on a clock that notifies no timer.
    pub(crate) fn without_timers(nodes: usize) -> Self {
        Self::on(HandClock::unwatched(), nodes)
    }

    pub(crate) fn on(clock: HandClock, nodes: usize) -> Self {
        let nodes = EmbeddedNodes::with_clock(nodes, clock.clone());
        let redlock = clock.builder().nodes_from(&nodes).build().unwrap();
        Self { clock, nodes, redlock }
    }

    /// Replaces the manager by one with other settings.
    pub(crate) fn with(mut self, set: impl FnOnce(RedlockBuilder) -> RedlockBuilder) -> Self {
        self.redlock = self.manager(set);
        self
    }

    /// Replaces the manager by one over mocks of the nodes.
    pub(crate) fn over(
        mut self,
        set: impl FnOnce(RedlockBuilder) -> RedlockBuilder,
        mock: impl FnMut(Arc<dyn Node>) -> MockNode,
    ) -> Self {
        let mocks = self.nodes.nodes("redlock").map(mock);
        self.redlock = with_nodes(set(self.clock.builder()), mocks).build().unwrap();
        self
    }

    /// Another manager over the same nodes.
    pub(crate) fn manager(&self, set: impl FnOnce(RedlockBuilder) -> RedlockBuilder) -> Redlock {
        set(self.clock.builder()).nodes_from(&self.nodes).build().unwrap()
    }
}
