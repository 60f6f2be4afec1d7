//! Operations that wait for room on the connection.

use std::{collections::VecDeque, time::Duration};

use crate::{
    node::{Op, redis::node::Request},
    time::Timestamp,
};

/// What is not written yet, once a connection has as much under way as it may.
///
/// Renewals, releases and all else go before acquires, each in the order of the calls. So an acquire
/// may be overtaken by a later operation of its lease. It is not written behind its release: the
/// lease is over before that is sent.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    first: VecDeque<Waiting>,
    acquires: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    request: Request,
    since: Timestamp,
}

/// What is to be done next.
#[derive(Debug, Default)]
pub(super) struct Next {
    pub(super) write: Vec<Request>,
    /// Acquires whose attempt is over.
    pub(super) over: Vec<Request>,
    /// Longest wait of those that are written.
    pub(super) waited: Duration,
}

impl Lanes {
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.acquires.is_empty()
    }

    pub(super) fn push(&mut self, request: Request, since: Timestamp) {
        let lane = match request.op {
            Op::Acquire { .. } => &mut self.acquires,
            _ => &mut self.first,
        };
        lane.push_back(Waiting { request, since });
    }

    /// When the first of those came that still wait.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        let oldest = |lane: &VecDeque<Waiting>| lane.front().map(|waiting| waiting.since);
        oldest(&self.first).into_iter().chain(oldest(&self.acquires)).min()
    }

    /// Takes at most `room` operations to write.
    pub(super) fn next(&mut self, room: usize, now: Timestamp) -> Next {
        let mut next = Next::default();
        let order = std::iter::from_fn(|| {
            self.first.pop_front().map(|waiting| (waiting, false)).or_else(|| {
                let waiting = self.acquires.pop_front()?;
                let is_over = waiting.request.op.is_over();
                Some((waiting, is_over))
            })
        });
        for (Waiting { request, since }, is_over) in order {
            if is_over {
                next.over.push(request);
                continue;
            }
            next.waited = next.waited.max(now.since(since));
            next.write.push(request);
            if next.write.len() == room {
                break;
            }
        }
        next
    }

    /// Takes everything.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Request> {
        let all = std::mem::take(self);
        all.first.into_iter().chain(all.acquires).map(|waiting| waiting.request)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        node::{
            LeaseId, Nonce, Reply,
            redis::{node::Request, status::Status},
        },
        resource::Resource,
        time::SystemClock,
    };

    struct Scene {
        lanes: Lanes,
        status: Arc<Status>,
    }

    impl Scene {
        fn new() -> Self {
            let status = Status::new("n".into(), Arc::new(SystemClock::new()));
            Self { lanes: Lanes::default(), status: Arc::new(status) }
        }

        fn push(&mut self, op: Op, at: u64) {
            let request = Request::new(op, Reply::from_fn(|_| {}), &self.status);
            self.lanes.push(request, Timestamp::from_nanos(at));
        }

        /// `A1` is the acquire of lease 1, and so on; in brackets, what is over.
        fn next(&mut self, room: usize) -> String {
            let next = self.lanes.next(room, Timestamp::from_nanos(100));
            let over = next.over.iter().map(|request| format!("({})", shown(request)));
            next.write.iter().map(shown).chain(over).collect::<Vec<_>>().join(" ")
        }
    }

    fn shown(request: &Request) -> String {
        let letter = match request.op {
            Op::Acquire { .. } => 'A',
            Op::Extend { .. } => 'E',
            Op::Release { .. } => 'R',
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
        Op::Acquire {
            lease: Arc::clone(lease),
            ttl: Duration::from_secs(1),
            token: 1,
            block_end: 1,
            expires: Timestamp::MAX,
            patience: Duration::ZERO,
            waits: false,
        }
    }

    fn extend(lease: &Arc<LeaseId>) -> Op {
        Op::Extend {
            lease: Arc::clone(lease),
            ttl: Duration::from_secs(1),
            token: 1,
            until: Timestamp::MAX,
            patience: Duration::ZERO,
        }
    }

    /// As a lease does it.
    fn release(lease: &Arc<LeaseId>) -> Op {
        lease.end();
        Op::Release { lease: Arc::clone(lease) }
    }

    #[test]
    fn renewals_and_releases_overtake_acquires() {
        let mut scene = Scene::new();
        let [a, b, c, d] = [1, 2, 3, 4].map(lease);
        for op in [acquire(&a), acquire(&b), extend(&c), release(&d), extend(&c)] {
            scene.push(op, 1);
        }
        assert_eq!(scene.next(2), "E3 R4");
        assert_eq!(scene.next(2), "E3 A1");
        assert_eq!(scene.next(2), "A2");
        assert!(scene.lanes.is_empty());
    }

    #[test]
    fn no_acquire_follows_its_release() {
        let mut scene = Scene::new();
        let [a, b] = [1, 2].map(lease);
        for op in [acquire(&a), acquire(&b), release(&a)] {
            scene.push(op, 1);
        }
        assert_eq!(scene.next(1), "R1");
        assert_eq!(scene.next(8), "A2 (A1)");
    }

    #[test]
    fn operations_of_one_lease_keep_their_order() {
        let mut scene = Scene::new();
        let a = lease(1);
        for op in [extend(&a), extend(&a), release(&a)] {
            scene.push(op, 1);
        }
        assert_eq!(scene.next(8), "E1 E1 R1");
    }

    #[test]
    fn the_longest_wait_is_known() {
        let mut scene = Scene::new();
        let [a, b] = [1, 2].map(lease);
        scene.push(acquire(&a), 10);
        scene.push(extend(&b), 30);
        assert_eq!(scene.lanes.oldest(), Some(Timestamp::from_nanos(10)));
        let now = Timestamp::from_nanos(100);
        assert_eq!(scene.lanes.next(1, now).waited, Duration::from_nanos(70));
        assert_eq!(scene.lanes.next(1, now).waited, Duration::from_nanos(90));
        assert_eq!(scene.lanes.oldest(), None);
    }

    #[test]
    fn everything_is_taken_at_the_end() {
        let mut scene = Scene::new();
        let [a, b] = [1, 2].map(lease);
        scene.push(acquire(&a), 1);
        scene.push(release(&b), 1);
        assert_eq!(scene.lanes.drain().map(|request| shown(&request)).collect::<String>(), "R2A1");
        assert!(scene.lanes.is_empty());
    }
}
