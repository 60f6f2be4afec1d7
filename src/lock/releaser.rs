//! Repeats the releases that nodes did not acknowledge (R8).
//!
//! A release that is not final is repeated in the background, at most until the key has expired: to
//! a silent node one at a time with an increasing backoff, to a node that answers in batches. A node
//! that returns gets all of them at once.

use std::{
    sync::{Arc, Weak},
    task::{Wake, Waker},
    time::Duration,
};

use crate::{
    error::Reason,
    metrics,
    node::{Node, Reply},
    protocol::{Answer, LeaseId, Op},
    quorum::pending_releases::{CAPACITY, Dropped, PendingRelease, PendingReleases},
    sync::{Guard, Mutex},
    time::{TimerKey, Timers},
};

/// Repeats the releases that nodes did not acknowledge, until the keys have expired.
#[derive(Debug)]
pub(crate) struct Releaser {
    nodes: Box<[Arc<Repeater>]>,
}

/// The repeated releases of one node. The timers wake it.
struct Repeater {
    node: Weak<dyn Node>,
    /// The timers. Weak, because their entries keep the repeater alive.
    timers: Weak<Timers>,
    state: Mutex<RepeaterState>,
}

#[derive(Default)]
struct RepeaterState {
    backlog: PendingReleases<Arc<LeaseId>>,
    timer: Option<TimerKey>,
}

/// Wakes a repeater when its node returns.
struct ReturnWaker(Weak<Repeater>);

impl Releaser {
    pub(crate) fn new(nodes: &[Arc<dyn Node>], timers: &Arc<Timers>) -> Self {
        let repeater = |node: &Arc<dyn Node>| {
            let repeater = Arc::new(Repeater {
                node: Arc::downgrade(node),
                timers: Arc::downgrade(timers),
                state: Mutex::default(),
            });
            let on_return = ReturnWaker(Arc::downgrade(&repeater));
            node.wake_on_return(Waker::from(Arc::new(on_return)));
            repeater
        };
        Self { nodes: nodes.iter().map(repeater).collect() }
    }

    /// Repeats a release. `ttl` is the maximum time for which the node may keep the key.
    pub(crate) fn push(&self, node: usize, lease: Arc<LeaseId>, ttl: Duration) {
        let repeater = &self.nodes[node];
        let Some(timers) = repeater.timers.upgrade() else { return };
        let now = timers.clock().now();
        let entry = PendingRelease { lease, until: now + ttl };
        let dropped = repeater.state().backlog.push(entry, now);
        if let Some(dropped) = dropped {
            repeater.report(dropped);
        }
        repeater.schedule(&timers);
    }

    /// Returns the number of releases that are not acknowledged.
    pub(crate) fn pending(&self, node: usize) -> usize {
        self.nodes[node].state().backlog.unacknowledged()
    }
}

impl Repeater {
    fn state(&self) -> Guard<'_, RepeaterState> {
        crate::sync::lock(&self.state)
    }

    fn report(&self, Dropped { is_first }: Dropped) {
        let Some(node) = self.node.upgrade() else { return };
        let node = node.name();
        metrics::dropped_release(node);
        if is_first {
            crate::log::warn!(
                node,
                limit = CAPACITY,
                "too many releases wait for the node, and the oldest are dropped: their keys stay locked there until they expire"
            );
        }
    }

    /// Sets the timer, unless an earlier one is set.
    fn schedule(self: &Arc<Self>, timers: &Timers) {
        let nudge = {
            let mut state = self.state();
            let Some(at) = state.backlog.next_wake() else { return };
            if state.timer.is_some_and(|timer| timer.at <= at) {
                return;
            }
            if let Some(later) = state.timer.take() {
                timers.remove(later);
            }
            let (timer, nudge) = timers.insert_locked(at, Waker::from(Arc::clone(self)));
            state.timer = Some(timer);
            nudge
        };
        timers.nudge(nudge);
    }

    /// Sends the releases that are due.
    fn send_due(self: &Arc<Self>) {
        let (Some(node), Some(timers)) = (self.node.upgrade(), self.timers.upgrade()) else {
            return;
        };
        let due = self.state().backlog.take(timers.clock().now());
        if due.is_empty() {
            return self.schedule(&timers);
        }
        for entry in due {
            let this = Arc::clone(self);
            let op = Op::Release(Arc::clone(&entry.lease));
            let reply = Reply::from_fn(move |result| this.on_answer(entry, &result));
            node.send(op, reply);
        }
    }

    fn on_answer(
        self: Arc<Self>,
        entry: PendingRelease<Arc<LeaseId>>,
        result: &Result<Answer, Reason>,
    ) {
        let (Some(node), Some(timers)) = (self.node.upgrade(), self.timers.upgrade()) else {
            return;
        };
        let now = timers.clock().now();
        match result {
            Ok(Answer::Released(_)) => {
                let (node, resource) = (node.name(), entry.lease.resource());
                crate::log::debug!(node, %resource, "late release acknowledged");
                self.state().backlog.answered();
            }
            Err(Reason::Unsettled) => self.state().backlog.unsettled(entry, now),
            _ => self.state().backlog.failed(entry, now),
        }
        self.schedule(&timers);
    }
}

impl Wake for Repeater {
    fn wake(self: Arc<Self>) {
        self.state().timer = None;
        self.send_due();
    }
}

impl Wake for ReturnWaker {
    fn wake(self: Arc<Self>) {
        let Some(repeater) = self.0.upgrade() else { return };
        let Some(timers) = repeater.timers.upgrade() else { return };
        repeater.state().backlog.resumed(timers.clock().now());
        repeater.send_due();
    }
}

opaque_debug!(Repeater);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        protocol::{Nonce, ReleasedAnswer},
        resource::Resource,
        time::SystemClock,
    };

    /// A node that keeps the replies to its operations.
    #[derive(Debug, Default)]
    struct SilentNode {
        replies: Mutex<Vec<Reply>>,
        on_return: Mutex<Option<Waker>>,
    }

    impl Node for SilentNode {
        fn send(&self, op: Op, reply: Reply) {
            assert!(matches!(op, Op::Release(_)), "{op:?}");
            crate::sync::lock(&self.replies).push(reply);
        }

        fn name(&self) -> &'static str {
            "silent"
        }

        fn wake_on_return(&self, waker: Waker) {
            *crate::sync::lock(&self.on_return) = Some(waker);
        }
    }

    impl SilentNode {
        fn answer(&self, result: &Result<Answer, Reason>) -> usize {
            let replies = std::mem::take(&mut *crate::sync::lock(&self.replies));
            let count = replies.len();
            for reply in replies {
                reply.send(result.clone());
            }
            count
        }

        fn returns(&self) {
            let waker = crate::sync::lock(&self.on_return).take().expect("the releaser waits");
            waker.wake_by_ref();
            *crate::sync::lock(&self.on_return) = Some(waker);
        }
    }

    const TTL: Duration = Duration::from_secs(60);

    /// A releaser with three pending releases, whose timers never fire.
    fn pending(node: &Arc<SilentNode>) -> (Releaser, Arc<Timers>) {
        let timers = Arc::new(Timers::new(Arc::new(SystemClock::new())));
        let releaser = Releaser::new(&[Arc::clone(node) as Arc<dyn Node>], &timers);
        for number in 0..3 {
            let resource = Resource::try_from("a").unwrap();
            let nonce = Nonce::from_bytes([number; 16]);
            let lease = LeaseId::new(resource, nonce, "me".into(), Duration::ZERO);
            releaser.push(0, Arc::new(lease), TTL);
        }
        (releaser, timers)
    }

    #[test]
    fn node_that_returns_is_sent_releases_without_timer() {
        let node = Arc::<SilentNode>::default();
        let (releaser, _timers) = pending(&node);
        let answer = Ok(Answer::Released(ReleasedAnswer { existed: true, awaited: false }));

        node.returns();

        assert_eq!(node.answer(&answer), 3);
        assert_eq!(releaser.pending(0), 0);
    }

    #[test]
    fn unsettled_releases_stay_pending() {
        let node = Arc::<SilentNode>::default();
        let (releaser, _timers) = pending(&node);

        node.returns();

        assert_eq!(node.answer(&Err(Reason::Unsettled)), 3);
        assert_eq!(releaser.pending(0), 3);
        node.returns();
        assert_eq!(node.answer(&Err(Reason::Unsettled)), 3, "they are sent again");
    }
}
