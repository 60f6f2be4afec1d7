//! Queues operations that wait for room on the connection.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    time::Duration,
};

use crate::{
    node::redis::request::NodeRequest,
    protocol::{Nonce, Op},
    time::Timestamp,
};

/// Operations beyond the limit of unanswered ones.
///
/// Renewals, releases and other operations are written before acquires. The operations of one lease
/// keep their order: those after a waiting acquire wait with it.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    first: VecDeque<QueuedRequest>,
    /// Acquires, and later operations of their leases.
    second: VecDeque<QueuedRequest>,
    /// Number of operations of each lease in the second lane.
    in_second: HashMap<Nonce, usize>,
    /// Maximum time for which an operation waited to be written since the last report.
    longest_wait: Duration,
}

#[derive(Debug)]
struct QueuedRequest {
    request: NodeRequest,
    since: Timestamp,
}

/// Operations taken from the queue.
#[derive(Debug, Default)]
pub(super) struct NextBatch {
    pub(super) write: Vec<NodeRequest>,
    /// Acquires of ended attempts.
    pub(super) over: Vec<NodeRequest>,
}

impl SendQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.second.is_empty()
    }

    pub(super) fn push(&mut self, request: NodeRequest, since: Timestamp) {
        let nonce = request.op.lease().map(|lease| lease.nonce());
        let is_acquire = matches!(request.op, Op::Acquire(_));
        let waiting = QueuedRequest { request, since };
        match nonce {
            Some(nonce) if is_acquire || self.in_second.contains_key(&nonce) => {
                *self.in_second.entry(nonce).or_default() += 1;
                self.second.push_back(waiting);
            }
            _ => self.first.push_back(waiting),
        }
    }

    /// Records that an operation is written that arrived at `since`.
    pub(super) fn note_wait(&mut self, since: Timestamp, now: Timestamp) {
        self.longest_wait = self.longest_wait.max(now.saturating_duration_since(since));
    }

    /// Returns the maximum time for which an operation has waited since the last call.
    pub(super) fn take_longest_wait(&mut self, now: Timestamp) -> Duration {
        let written = std::mem::take(&mut self.longest_wait);
        let oldest = self.oldest();
        written.max(oldest.map_or(Duration::ZERO, |oldest| now.saturating_duration_since(oldest)))
    }

    /// Returns the arrival of the oldest operation.
    fn oldest(&self) -> Option<Timestamp> {
        let oldest = |lane: &VecDeque<QueuedRequest>| lane.front().map(|waiting| waiting.since);
        oldest(&self.first).into_iter().chain(oldest(&self.second)).min()
    }

    /// Takes at most `room` operations to write.
    pub(super) fn next(&mut self, room: usize, now: Timestamp) -> NextBatch {
        let mut next = NextBatch::default();
        while next.write.len() < room
            && let Some(QueuedRequest { request, since }) = self.pop()
        {
            if matches!(request.op, Op::Acquire(_)) && request.op.is_over() {
                next.over.push(request);
                continue;
            }
            self.note_wait(since, now);
            next.write.push(request);
        }
        debug_assert!(next.write.len() <= room && (self.is_empty() || next.write.len() == room));
        next
    }

    fn pop(&mut self) -> Option<QueuedRequest> {
        if let Some(waiting) = self.first.pop_front() {
            return Some(waiting);
        }
        let waiting = self.second.pop_front()?;
        let nonce = waiting.request.op.lease().map(|lease| lease.nonce());
        let Some(Entry::Occupied(mut count)) = nonce.map(|nonce| self.in_second.entry(nonce))
        else {
            unreachable!("the second lane has counted operations of leases only")
        };
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
        assert!(self.in_second.len() <= self.second.len(), "a count belongs to an operation");
        Some(waiting)
    }

    /// Takes all operations.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = NodeRequest> {
        let all = std::mem::take(self);
        all.first.into_iter().chain(all.second).map(|waiting| waiting.request)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        node::Reply,
        protocol::{AcquireOp, ExtendOp, LeaseId, Nonce},
        resource::Resource,
    };

    struct QueueFixture {
        send_queue: SendQueue,
    }

    impl QueueFixture {
        fn new() -> Self {
            Self { send_queue: SendQueue::default() }
        }

        fn push(&mut self, op: Op, at: u64) {
            let request = NodeRequest::new(op, Reply::from_fn(|_| {}), &Arc::default());
            self.send_queue.push(request, Timestamp::from_nanos(at));
        }

        /// Formats a batch: `A1` is the acquire of lease 1, and so on; operations that have ended
        /// are in brackets.
        fn next(&mut self, room: usize) -> String {
            let next = self.send_queue.next(room, Timestamp::from_nanos(100));
            let over = next.over.iter().map(|request| format!("({})", shown(request)));
            next.write.iter().map(shown).chain(over).collect::<Vec<_>>().join(" ")
        }
    }

    fn shown(request: &NodeRequest) -> String {
        let letter = match request.op {
            Op::Acquire(_) => 'A',
            Op::Extend(_) => 'E',
            Op::Release(_) => 'R',
            _ => '?',
        };
        let hex = request.op.lease().map(|lease| lease.nonce().to_hex());
        format!("{letter}{}", char::from(hex.unwrap()[1]))
    }

    fn lease(n: u8) -> Arc<LeaseId> {
        let resource = Resource::try_from("a").unwrap();
        Arc::new(LeaseId::new(resource, Nonce::from_bytes([n; 16]), "me".into(), Duration::ZERO))
    }

    fn acquire(lease: &Arc<LeaseId>) -> Op {
        Op::Acquire(AcquireOp {
            lease: Arc::clone(lease),
            ttl: Duration::from_secs(1),
            token: 1,
            block_end: 1,
            expires: Timestamp::MAX,
            waiter: None,
        })
    }

    fn extend(lease: &Arc<LeaseId>) -> Op {
        Op::Extend(ExtendOp {
            lease: Arc::clone(lease),
            ttl: Duration::from_secs(1),
            token: 1,
            until: Timestamp::MAX,
            max_delay: Duration::ZERO,
        })
    }

    fn release(lease: &Arc<LeaseId>) -> Op {
        Op::Release(Arc::clone(lease))
    }

    #[test]
    fn renewals_and_releases_overtake_acquires() {
        let mut scene = QueueFixture::new();
        let [a, b, c, d] = [1, 2, 3, 4].map(lease);

        for op in [acquire(&a), acquire(&b), extend(&c), release(&d), extend(&c)] {
            scene.push(op, 1);
        }

        assert_eq!(scene.next(2), "E3 R4");
        assert_eq!(scene.next(2), "E3 A1");
        assert_eq!(scene.next(2), "A2");
        assert!(scene.send_queue.is_empty());
    }

    #[test]
    fn acquires_of_ended_attempts_are_dropped() {
        let mut scene = QueueFixture::new();
        let [a, b] = [1, 2].map(lease);
        for op in [acquire(&a), acquire(&b), release(&a)] {
            scene.push(op, 1);
        }
        a.end();
        assert_eq!(scene.next(8), "A2 R1 (A1)");
    }

    #[test]
    fn operations_of_a_lease_keep_order() {
        let mut scene = QueueFixture::new();
        let [a, b, c] = [1, 2, 3].map(lease);

        for op in [acquire(&a), extend(&a), release(&b), release(&a), acquire(&c), acquire(&a)] {
            scene.push(op, 1);
        }

        assert_eq!(scene.next(3), "R2 A1 E1");

        scene.push(release(&a), 1);
        scene.push(release(&c), 1);
        scene.push(release(&b), 1);
        assert_eq!(scene.next(8), "R2 R1 A3 A1 R1 R3");

        scene.push(release(&a), 1);
        scene.push(acquire(&b), 1);
        scene.push(release(&c), 1);
        assert_eq!(scene.next(8), "R1 R3 A2", "nothing of theirs waits any more");
        assert!(scene.send_queue.in_second.is_empty());
    }

    #[test]
    fn the_longest_wait_is_known() {
        let mut scene = QueueFixture::new();
        let [a, b] = [1, 2].map(lease);
        scene.push(acquire(&a), 10);

        scene.push(extend(&b), 30);
        let mut longest = |written| {
            scene.next(written);
            scene.send_queue.take_longest_wait(Timestamp::from_nanos(150)).as_nanos()
        };

        assert_eq!(longest(0), 140, "the acquire waits");
        assert_eq!(longest(1), 140, "the acquire still waits");
        assert_eq!(longest(1), 90, "the acquire was written");
        assert_eq!(longest(0), 0);
        scene.send_queue.note_wait(Timestamp::from_nanos(1), Timestamp::from_nanos(8));
        assert_eq!(scene.send_queue.take_longest_wait(Timestamp::ZERO).as_nanos(), 7);
    }

    #[test]
    fn everything_is_taken_at_the_end() {
        let mut scene = QueueFixture::new();
        let [a, b] = [1, 2].map(lease);
        scene.push(acquire(&a), 1);
        scene.push(release(&b), 1);
        let all: Vec<_> = scene.send_queue.drain().map(|request| shown(&request)).collect();
        assert_eq!(all, ["R2", "A1"]);
        assert!(scene.send_queue.is_empty());
    }
}
