//! The sending half of a node.

use std::{sync::Arc, task::Waker, time::Duration};

use tokio::sync::mpsc;

use super::{
    Endpoint, Listener, Supervisor,
    enrol::{Membership, NodeHandle, NodeSet},
    request::NodeRequest,
    session::DirectWriter,
    status::Status,
};
use crate::{
    error::Reason,
    node::{Hints, Node, NodeHealth, Reply, Subscription, subscriptions::Subscriptions},
    protocol::Op,
    sync::atomic::Ordering,
    time::Timestamp,
};

/// Maximum number of unanswered operations of a node.
const MAX_IN_FLIGHT: usize = 131_072;

/// A Redis or Valkey server as a voting node: the half that sends operations. The other half is the
/// [`Supervisor`](super::Supervisor), which owns the connection.
#[derive(Debug)]
pub(crate) struct RedisNode {
    status: Arc<Status>,
    requests: mpsc::UnboundedSender<NodeRequest>,
    /// Writes to the connection while it is idle.
    direct: Arc<DirectWriter>,
    subscriptions: Arc<Subscriptions>,
}

impl RedisNode {
    /// Returns the nodes of a set, and the tasks that have to run for them.
    pub(crate) fn set(
        endpoints: Vec<Endpoint>,
        set: &Arc<NodeSet>,
    ) -> Vec<(Self, Supervisor, Listener)> {
        let mut members = Vec::with_capacity(endpoints.len());
        let mut nodes = Vec::with_capacity(endpoints.len());
        for (index, endpoint) in endpoints.into_iter().enumerate() {
            let (clock, events) = (&set.settings.clock, &set.settings.events);
            let name = Arc::clone(&endpoint.name);
            let status = Status::new(name, Arc::clone(clock), Arc::clone(events));
            let status = Arc::new(status);
            let (requests, receiver) = mpsc::unbounded_channel();
            let (admin, admin_receiver) = mpsc::unbounded_channel();
            members.push(NodeHandle {
                status: Arc::clone(&status),
                admin,
                endpoint: endpoint.clone(),
            });
            let member = Membership { set: Arc::clone(set), index };
            let subscriptions = Subscriptions::remote();
            let listener = Listener::new(
                endpoint.clone(),
                member.clone(),
                Arc::clone(&status),
                Arc::clone(&subscriptions),
            );
            let direct = Arc::new(DirectWriter::default());
            let supervisor = Supervisor::new(
                endpoint,
                member,
                Arc::clone(&status),
                receiver,
                admin_receiver,
                Arc::clone(&direct),
            );
            nodes.push((Self { status, requests, direct, subscriptions }, supervisor, listener));
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
        if let Some(reason) = self.status.refuses(&op) {
            return reply.not_sent(reason);
        }
        if self.status.in_flight.load(Ordering::Relaxed) >= MAX_IN_FLIGHT {
            return reply.not_sent(Reason::Overloaded);
        }
        let request = NodeRequest::new(op, reply, &self.status.in_flight);
        let in_flight = self.status.in_flight.load(Ordering::Relaxed);
        let Err(request) = self.direct.write(request, in_flight, || self.status.now()) else {
            return;
        };
        self.status.stamp();
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
        self.subscriptions.add(name, &hints)
    }

    fn wake_on_return(&self, waker: Waker) {
        self.status.wake_on_return(waker);
    }
}

impl Drop for RedisNode {
    fn drop(&mut self) {
        self.subscriptions.close();
    }
}
