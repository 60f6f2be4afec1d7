use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::sync::mpsc;

use super::{
    Access, Endpoint, Listener, Supervisor, enrol::NodeSet, guards::Guards, listener::Board,
    status::Status, supervisor::Member,
};
use crate::{
    error::Reason,
    node::{Hints, Node, NodeHealth, Reply, Subscription},
    protocol::{Answer, Op, names::View},
    time::{Clock, Timestamp},
};

/// Beyond so many unanswered operations a node takes no more.
const MAX_IN_FLIGHT: usize = 131_072;

/// A Redis or Valkey server as a voting node: the sending half. The other half is the
/// [`Supervisor`](super::Supervisor), which owns the connection.
#[derive(Debug)]
pub(crate) struct RedisNode {
    status: Arc<Status>,
    requests: mpsc::UnboundedSender<Request>,
    board: Arc<Board>,
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) op: Op,
    pub(super) reply: Reply,
    /// It met another tag than it was sent with, and is sent once more.
    begun_again: bool,
    /// Counts as long as the request is there.
    counted: Counted,
}

#[derive(Debug)]
struct Counted(Arc<Status>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Request {
    pub(super) fn new(op: Op, reply: Reply, status: &Arc<Status>) -> Self {
        status.in_flight.fetch_add(1, Ordering::Relaxed);
        Self { op, reply, begun_again: false, counted: Counted(Arc::clone(status)) }
    }

    /// True the first time.
    pub(super) fn begin_again(&mut self) -> bool {
        !std::mem::replace(&mut self.begun_again, true)
    }

    /// Answers, and is counted no more by the time of the answer.
    pub(super) fn answer(self, result: Result<Answer, Reason>, view: Option<Arc<View>>) {
        let Self { reply, counted, .. } = self;
        drop(counted);
        reply.send_with_view(result, view);
    }

    pub(super) fn not_sent(self, reason: Reason) {
        let Self { reply, counted, .. } = self;
        drop(counted);
        reply.not_sent(reason);
    }
}

/// What all nodes of a set have in common.
#[derive(Clone, Debug)]
pub(crate) struct RedisSettings {
    pub(crate) prefix: Arc<str>,
    pub(crate) guards: Guards,
    pub(crate) max_ttl: Duration,
    pub(crate) drift_factor: f64,
    pub(crate) node_timeout: Duration,
    pub(crate) access: Access,
    pub(crate) clock: Arc<dyn Clock>,
}

impl RedisNode {
    /// The nodes of a set, and what has to be run for them.
    pub(crate) fn set(
        endpoints: Vec<Endpoint>,
        set: &Arc<NodeSet>,
    ) -> Vec<(Self, Supervisor, Listener)> {
        let mut members = Vec::with_capacity(endpoints.len());
        let mut nodes = Vec::with_capacity(endpoints.len());
        for (index, endpoint) in endpoints.into_iter().enumerate() {
            let clock = Arc::clone(&set.settings.clock);
            let status = Arc::new(Status::new(Arc::clone(&endpoint.name), clock));
            let (requests, receiver) = mpsc::unbounded_channel();
            let (admin, admin_receiver) = mpsc::unbounded_channel();
            members.push((Arc::clone(&status), admin, endpoint.clone()));
            let member = Member { set: Arc::clone(set), index };
            let board = Board::new(&set.settings.prefix);
            let listener = Listener::new(
                endpoint.clone(),
                member.clone(),
                Arc::clone(&status),
                Arc::clone(&board),
            );
            let supervisor =
                Supervisor::new(endpoint, member, Arc::clone(&status), receiver, admin_receiver);
            nodes.push((Self { status, requests, board }, supervisor, listener));
        }
        set.join(members);
        nodes
    }
}

impl Node for RedisNode {
    fn send(&self, op: Op, reply: Reply) {
        if let Some(reason) = self.status.down() {
            return reply.not_sent(reason);
        }
        if let Some(reason) = self.status.bars(&op) {
            return reply.not_sent(reason);
        }
        if self.status.in_flight.load(Ordering::Relaxed) >= MAX_IN_FLIGHT {
            return reply.not_sent(Reason::Overloaded);
        }
        self.status.stamp();
        let request = Request::new(op, reply, &self.status);
        if let Err(mpsc::error::SendError(request)) = self.requests.send(request) {
            request.not_sent(Reason::NotConnected("the node's task has ended".into()));
        }
    }

    fn name(&self) -> &str {
        self.status.name()
    }

    fn health(&self) -> NodeHealth {
        self.status.health()
    }

    fn wall(&self, now: Timestamp, _: Duration) -> Option<Duration> {
        self.status.wall(now)
    }

    fn has_own_wall(&self) -> bool {
        true
    }

    fn subscribe(&self, name: &Arc<str>, hints: Hints) -> Subscription {
        self.board.add(name, &hints)
    }
}

impl Drop for RedisNode {
    fn drop(&mut self) {
        self.board.close();
    }
}
