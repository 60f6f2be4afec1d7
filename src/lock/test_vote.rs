//! A test vote of one node.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::client::Client;
use crate::{
    error::Reason,
    node::Reply,
    protocol::{AcquireOp, Answer, LeaseId, Op},
    resource::Resource,
    sync::atomic::Ordering,
    time::Timestamp,
};

/// Timeout for an answer. Far longer than the node timeout, to distinguish slow from silent nodes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum TTL of the key.
const MAX_TTL: Duration = Duration::from_secs(1);

/// Asks a node for its vote on a name that no user can use, and releases the vote. Returns the time
/// from the request to the answer.
pub(super) async fn test_vote(client: &Arc<Client>, node: usize) -> Result<Duration, Reason> {
    let mut key = TestKey::new(client, node)?;
    let begun = client.clock().now();
    match key.acquire().await {
        Ok((Answer::Granted(_), at)) => {
            let took = at.saturating_duration_since(begun);
            key.release().await.map(|()| took)
        }
        Ok(_) => Err(Reason::Protocol("a key with a new name is held".into())),
        Err(reason) => Err(reason),
    }
}

/// The key of a test vote. Dropping it sends the release.
struct TestKey {
    client: Arc<Client>,
    node: usize,
    lease: Arc<LeaseId>,
    ttl: Duration,
    /// Whether the node may have the key.
    may_exist: bool,
}

impl TestKey {
    fn new(client: &Arc<Client>, node: usize) -> Result<Self, Reason> {
        let nonce = crate::random::nonce().map_err(|_| Reason::Unknown)?;
        let name = format!("\u{1}test-vote:{:016x}", crate::random::number());
        let owner = Arc::clone(&client.settings.owner);
        let wall = client.clock().wall();
        let lease = LeaseId::new(Resource::of_invalid(&name), nonce, owner, wall);
        let ttl = client.settings.defaults.ttl.min(MAX_TTL);
        Ok(Self { client: Arc::clone(client), node, lease: Arc::new(lease), ttl, may_exist: false })
    }

    /// Returns the answer, and the time at which it came.
    async fn acquire(&mut self) -> Result<(Answer, Timestamp), Reason> {
        let lease = Arc::clone(&self.lease);
        let mut acquire = AcquireOp::new(lease, self.ttl, Timestamp::MAX);
        if self.client.settings.fencing {
            let token = self.token();
            acquire = acquire.fencing(token, token);
        }
        let (sender, receiver) = oneshot::channel();
        let timers = Arc::clone(&self.client.timers);
        // The clock is read where the answer arrives: the caller's runtime may be busy.
        let reply = Reply::from_fn(move |answer| {
            let at = timers.clock().now();
            drop(sender.send(answer.map(|answer| (answer, at))));
        });
        self.may_exist = true;
        self.client.nodes[self.node].send(Op::Acquire(acquire), reply);
        let answer = self.answer(receiver).await;
        self.may_exist = answer.as_ref().err().is_none_or(Reason::may_have_run);
        answer
    }

    /// Returns a token by the node's clock, because a node refuses a token far ahead of its clock.
    fn token(&self) -> u64 {
        let clock = self.client.clock();
        let (now, wall) = (clock.now(), clock.wall());
        let wall = self.client.nodes[self.node].wall(now, wall).unwrap_or(wall);
        u64::try_from(wall.as_micros()).unwrap_or(0)
    }

    /// Waits until the release is answered.
    async fn release(mut self) -> Result<(), Reason> {
        let released = self.send_release();
        self.answer(released).await
    }

    /// Sends the release; one that fails is repeated until the key has expired.
    fn send_release(&mut self) -> oneshot::Receiver<Result<(), Reason>> {
        self.may_exist = false;
        let (sender, receiver) = oneshot::channel();
        self.lease.end();
        self.client.releasing.fetch_add(1, Ordering::AcqRel);
        let (client, node, lease) = (Arc::clone(&self.client), self.node, Arc::clone(&self.lease));
        // The acquire may take effect until the end of `max_delay`, and the TTL starts then.
        let longest = self.ttl + ANSWER_TIMEOUT * 2;
        let reply = Reply::from_fn(move |answer| {
            if answer.is_err() {
                client.repeaters.repeat(node, &lease, client.now() + longest);
            }
            client.releasing.fetch_sub(1, Ordering::AcqRel);
            drop(sender.send(answer.map(|_| ())));
        });
        self.client.nodes[self.node].send(Op::Release(Arc::clone(&self.lease)), reply);
        receiver
    }

    async fn answer<T>(&self, receiver: oneshot::Receiver<Result<T, Reason>>) -> Result<T, Reason> {
        tokio::select! {
            biased;
            answer = receiver => answer.unwrap_or(Err(Reason::Unknown)),
            () = self.client.sleep(ANSWER_TIMEOUT) => Err(Reason::TimedOut),
        }
    }
}

impl Drop for TestKey {
    fn drop(&mut self) {
        if self.may_exist {
            drop(self.send_release());
        }
    }
}
