//! Operations to be sent to a server, with their replies, and the groups that share a script call.

use std::sync::Arc;

use crate::{
    error::Reason,
    node::Reply,
    protocol::{Answer, Op, views::View},
    sync::atomic::{AtomicUsize, Ordering},
};

#[derive(Debug)]
pub(super) struct NodeRequest {
    pub(super) op: Op,
    pub(super) reply: Reply,
    /// It met another tag and was sent again.
    begun_again: bool,
    counted: Counted,
}

#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl NodeRequest {
    /// `in_flight` counts the request until it is answered or dropped.
    pub(super) fn new(op: Op, reply: Reply, in_flight: &Arc<AtomicUsize>) -> Self {
        in_flight.fetch_add(1, Ordering::Relaxed);
        Self { op, reply, begun_again: false, counted: Counted(Arc::clone(in_flight)) }
    }

    /// Returns true the first time.
    pub(super) fn begin_again(&mut self) -> bool {
        !std::mem::replace(&mut self.begun_again, true)
    }

    /// Sends the answer; the request is not counted any more by then.
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

/// Operations of one command: acquires and releases, or a single other operation.
pub(super) type Group = Vec<NodeRequest>;

fn shares(request: &NodeRequest) -> bool {
    matches!(request.op, Op::Acquire(_) | Op::Release(_))
}

/// Splits a batch into groups, in order. Adjacent operations share a call, whose own cost at the server
/// is similar to that of one lease.
pub(super) fn group(requests: Vec<NodeRequest>) -> Vec<Group> {
    if requests.iter().all(shares) {
        return vec![requests];
    }
    let mut groups: Vec<Group> = Vec::new();
    for request in requests {
        match groups.last_mut() {
            Some(group) if shares(&group[0]) && shares(&request) => group.push(request),
            _ => groups.push(vec![request]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        protocol::{AcquireOp, LeaseId, Nonce, RaiseOp},
        resource::Resource,
        time::Timestamp,
    };

    fn lease(n: u8) -> Arc<LeaseId> {
        let resource = Resource::try_from("a").unwrap();
        Arc::new(LeaseId::new(resource, Nonce::from_bytes([n; 16]), "me".into(), Duration::ZERO))
    }

    fn request(op: Op) -> NodeRequest {
        NodeRequest::new(op, Reply::from_fn(|_| {}), &Arc::default())
    }

    fn acquire(lease: &Arc<LeaseId>) -> NodeRequest {
        request(Op::Acquire(AcquireOp {
            lease: Arc::clone(lease),
            ttl: Duration::from_secs(1),
            token: 1,
            block_end: 1,
            expires: Timestamp::MAX,
            patience: Duration::ZERO,
            waits: false,
        }))
    }

    fn raise(lease: &Arc<LeaseId>) -> NodeRequest {
        request(Op::Raise(RaiseOp { lease: Arc::clone(lease), token: 2, block_end: 2 }))
    }

    fn release(lease: &Arc<LeaseId>) -> NodeRequest {
        request(Op::Release(Arc::clone(lease)))
    }

    /// `A1` is the acquire of lease 1, and so on.
    fn shown(groups: &[Group]) -> Vec<String> {
        let show = |request: &NodeRequest| {
            let letter = match request.op {
                Op::Acquire(_) => 'A',
                Op::Raise(_) => 'X',
                Op::Extend(_) => 'E',
                Op::Release(_) => 'R',
                _ => '?',
            };
            let hex = request.op.lease().unwrap().nonce().to_hex();
            format!("{letter}{}", char::from(hex[1]))
        };
        groups.iter().map(|group| group.iter().map(show).collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn acquires_and_releases_share_ordered_call() {
        let [a, b, c, d] = [1, 2, 3, 4].map(lease);
        let groups = group(vec![release(&a), acquire(&b), release(&c), acquire(&d)]);
        assert_eq!(shown(&groups), ["R1 A2 R3 A4"]);
        let groups = group(vec![acquire(&a), raise(&b), raise(&c), release(&b), release(&d)]);
        assert_eq!(shown(&groups), ["A1", "X2", "X3", "R2 R4"]);
    }
}
