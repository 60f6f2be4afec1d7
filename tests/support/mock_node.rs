//! One mock node: it forwards each operation to another node, or lets a closure handle it.
#![allow(dead_code, reason = "several test binaries share this file, and each uses a part of it")]

use std::{
    fmt,
    sync::{Arc, Mutex},
    task::Waker,
    time::Duration,
};

use tower_redlock::{
    RedlockBuilder,
    error::Reason,
    node::{Answer, Hints, Node, NodeHealth, NodeState, Op, Reply, Subscription},
    time::Timestamp,
};

type Handler = dyn Fn(Op, Reply, &dyn Node) + Send + Sync;
type HintWrapper = dyn Fn(&str, Hints) -> Hints + Send + Sync;

/// A node whose operations are handled by a closure. Everything else is delegated to the inner
/// node.
#[derive(Clone)]
pub(crate) struct MockNode {
    name: Arc<str>,
    inner: Option<Arc<dyn Node>>,
    state: Option<NodeState>,
    round_trip: Option<Duration>,
    has_wall: bool,
    behind: Duration,
    handler: Arc<Handler>,
    hints: Option<Arc<HintWrapper>>,
}

impl MockNode {
    fn new(
        name: impl Into<Arc<str>>,
        inner: Option<Arc<dyn Node>>,
        handler: impl Fn(Op, Reply, &dyn Node) + Send + Sync + 'static,
    ) -> Self {
        let (name, has_wall) = (name.into(), inner.is_some());
        Self {
            name,
            inner,
            state: None,
            round_trip: None,
            has_wall,
            behind: Duration::ZERO,
            handler: Arc::new(handler),
            hints: None,
        }
    }

    /// Forwards every operation to `inner`.
    pub(crate) fn forwarding(inner: &Arc<dyn Node>) -> Self {
        Self::over(inner, |op, reply, inner| inner.send(op, reply))
    }

    /// Passes each operation to `handler`, with the inner node.
    pub(crate) fn over(
        inner: &Arc<dyn Node>,
        handler: impl Fn(Op, Reply, &dyn Node) + Send + Sync + 'static,
    ) -> Self {
        Self::new(inner.name(), Some(Arc::clone(inner)), handler)
    }

    /// Calls `observe` with each operation before it is forwarded.
    pub(crate) fn observing(
        inner: &Arc<dyn Node>,
        observe: impl Fn(&Op) + Send + Sync + 'static,
    ) -> Self {
        Self::over(inner, move |op, reply, inner| {
            observe(&op);
            inner.send(op, reply);
        })
    }

    /// Answers the operations that `refuses` selects with `reason`, and forwards the others.
    pub(crate) fn refusing(
        inner: &Arc<dyn Node>,
        reason: Reason,
        refuses: impl Fn(&Op) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::over(inner, move |op, reply, inner| {
            if refuses(&op) { reply.send(Err(reason.clone())) } else { inner.send(op, reply) }
        })
    }

    /// Has no inner node: `answer` makes the answer to each operation.
    pub(crate) fn answering(
        name: impl Into<Arc<str>>,
        answer: impl Fn(Op) -> Result<Answer, Reason> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name, None, move |op, reply, _| reply.send(answer(op)))
    }

    /// Never answers, and drops no reply, which would be an answer.
    pub(crate) fn silent(name: impl Into<Arc<str>>) -> Self {
        let unanswered = Mutex::new(Vec::new());
        Self::new(name, None, move |_, reply, _| unanswered.lock().unwrap().push(reply))
    }

    /// The name of the node in errors and logs.
    pub(crate) fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Passes the hints about each name through `wrap`.
    pub(crate) fn with_hints(
        mut self,
        wrap: impl Fn(&str, Hints) -> Hints + Send + Sync + 'static,
    ) -> Self {
        self.hints = Some(Arc::new(wrap));
        self
    }

    /// The state that `health` reports.
    pub(crate) fn in_state(mut self, state: NodeState) -> Self {
        self.state = Some(state);
        self
    }

    /// The round trip that `health` reports.
    pub(crate) fn with_round_trip(mut self, round_trip: Duration) -> Self {
        self.round_trip = Some(round_trip);
        self
    }

    /// Its wall clock is that far behind.
    pub(crate) fn behind(mut self, behind: Duration) -> Self {
        self.behind = behind;
        self
    }

    /// Removes its wall clock, so that its client's clock is used.
    pub(crate) fn without_wall(mut self) -> Self {
        self.has_wall = false;
        self
    }

    fn clocked(&self) -> Option<&Arc<dyn Node>> {
        self.inner.as_ref().filter(|_| self.has_wall)
    }
}

/// Adds each node to the builder.
pub(crate) fn with_nodes(
    builder: RedlockBuilder,
    nodes: impl IntoIterator<Item = MockNode>,
) -> RedlockBuilder {
    nodes.into_iter().fold(builder, RedlockBuilder::node)
}

type Withholding = (Reply, Result<Answer, Reason>);

/// Withholds answers until [`deliver`](Self::deliver) is called.
#[derive(Clone, Default)]
pub(crate) struct Withheld(Arc<Mutex<Vec<Withholding>>>);

impl Withheld {
    /// A node that withholds its answers to the operations that `selects` selects.
    pub(crate) fn node(
        &self,
        inner: &Arc<dyn Node>,
        selects: impl Fn(&Op) -> bool + Send + Sync + 'static,
    ) -> MockNode {
        let withheld = self.clone();
        MockNode::over(inner, move |op, reply, inner| {
            if !selects(&op) {
                return inner.send(op, reply);
            }
            let withheld = withheld.clone();
            let keep = move |answer| withheld.0.lock().unwrap().push((reply, answer));
            inner.send(op, Reply::from_fn(keep));
        })
    }

    /// The number of withheld answers.
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Delivers the withheld answers, in their order.
    pub(crate) fn deliver(&self) {
        let withheld = std::mem::take(&mut *self.0.lock().unwrap());
        for (reply, answer) in withheld {
            reply.send(answer);
        }
    }
}

impl fmt::Debug for MockNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MockNode").field(&self.name).finish()
    }
}

impl Node for MockNode {
    fn send(&self, op: Op, reply: Reply) {
        // The handlers of a node without an inner node forward nothing.
        (self.handler)(op, reply, self.inner.as_deref().unwrap_or(self));
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn health(&self) -> NodeHealth {
        let mut health = match &self.inner {
            Some(inner) => inner.health(),
            None => NodeHealth::voting(&self.name),
        };
        if let Some(state) = &self.state {
            health.state = state.clone();
        }
        health.round_trip = self.round_trip.or(health.round_trip);
        health
    }

    fn wall(&self, now: Timestamp, wall: Duration) -> Option<Duration> {
        let wall = self.clocked().map_or(Some(wall), |inner| inner.wall(now, wall));
        wall.map(|wall| wall.saturating_sub(self.behind))
    }

    fn has_own_wall(&self) -> bool {
        self.clocked().is_some_and(|inner| inner.has_own_wall())
    }

    fn subscribe(&self, name: &Arc<str>, hints: Hints) -> Subscription {
        let hints = match &self.hints {
            Some(wrap) => wrap(name, hints),
            None => hints,
        };
        match &self.inner {
            Some(inner) => inner.subscribe(name, hints),
            None => Subscription::none(),
        }
    }

    fn wake_on_return(&self, waker: Waker) {
        if let Some(inner) = &self.inner {
            inner.wake_on_return(waker);
        }
    }
}
