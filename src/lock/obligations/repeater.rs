//! Repeats the operations that nodes did not acknowledge.
//!
//! An operation that is not acknowledged is repeated in the background, at most until it is moot: to
//! a silent node one at a time with an increasing backoff, to a node that answers in batches. A node
//! that returns gets all of them at once.

use std::{
    fmt,
    sync::{Arc, Weak},
    task::{Wake, Waker},
};

use crate::{
    error::Reason,
    metrics,
    node::{Node, Reply},
    protocol::{Answer, ForgetOp, LeaseId, Op},
    quorum::backlog::{Backlog, BacklogEntry, CAPACITY, Dropped},
    sync::{Guard, Mutex},
    time::{TimerKey, Timers, Timestamp},
};

/// An end that a node has to learn of. It is sent until the node has acknowledged it.
pub(crate) trait Obligation: fmt::Debug + Send + Sync + 'static {
    /// Returns the operation to send to the node; `None` if nothing is owed to it any more.
    fn op(self: Arc<Self>, node: usize, now: Timestamp) -> Option<Op>;

    /// Handles the node's answer. Returns whether the node has acknowledged the end.
    ///
    /// Called on the thread that receives the answer, with no mutex of the crate locked.
    fn answered(&self, node: usize, answer: Result<Answer, Reason>) -> bool;

    /// Called if it is not sent to a node any more, as too many wait for it.
    fn dropped(&self) {}

    /// Returns the name of what ends, for the log.
    fn subject(&self) -> String;
}

/// A release.
impl Obligation for LeaseId {
    fn op(self: Arc<Self>, _: usize, _: Timestamp) -> Option<Op> {
        Some(Op::Release(self))
    }

    fn answered(&self, _: usize, answer: Result<Answer, Reason>) -> bool {
        matches!(answer, Ok(Answer::Released(_)))
    }

    fn subject(&self) -> String {
        self.resource().to_string()
    }
}

/// The removal of the record of work that has not started.
impl Obligation for ForgetOp {
    fn op(self: Arc<Self>, _: usize, _: Timestamp) -> Option<Op> {
        Some(Op::Forget(Self::clone(&self)))
    }

    fn answered(&self, _: usize, answer: Result<Answer, Reason>) -> bool {
        matches!(answer, Ok(Answer::Forgotten(_)))
    }

    fn subject(&self) -> String {
        self.name.to_string()
    }
}

type Pending = BacklogEntry<Arc<dyn Obligation>>;

/// Repeats the operations that the nodes did not acknowledge, until they are moot.
#[derive(Debug)]
pub(crate) struct Repeaters {
    nodes: Box<[Arc<Repeater>]>,
}

/// The repeated operations of one node. The timers wake it.
struct Repeater {
    /// Number of the node.
    number: usize,
    node: Weak<dyn Node>,
    /// The timers. Weak, because their entries keep the repeater alive.
    timers: Weak<Timers>,
    state: Mutex<RepeaterState>,
}

#[derive(Default)]
struct RepeaterState {
    backlog: Backlog<Arc<dyn Obligation>>,
    timer: Option<TimerKey>,
}

/// Wakes a repeater when its node returns.
struct ReturnWaker(Weak<Repeater>);

impl Repeaters {
    pub(crate) fn new(nodes: &[Arc<dyn Node>], timers: &Arc<Timers>) -> Self {
        let repeater = |(number, node): (usize, &Arc<dyn Node>)| {
            let repeater = Arc::new(Repeater {
                number,
                node: Arc::downgrade(node),
                timers: Arc::downgrade(timers),
                state: Mutex::default(),
            });
            let on_return = ReturnWaker(Arc::downgrade(&repeater));
            node.wake_on_return(Waker::from(Arc::new(on_return)));
            repeater
        };
        Self { nodes: nodes.iter().enumerate().map(repeater).collect() }
    }

    /// Repeats an operation that was sent and is not acknowledged. It is moot from `until` on.
    pub(crate) fn repeat(&self, node: usize, end: &Arc<impl Obligation>, until: Timestamp) {
        let what = Arc::clone(end) as Arc<dyn Obligation>;
        self.nodes[node].add(BacklogEntry { what, until });
    }

    /// Sends an operation, and repeats it until the node has acknowledged it. It is moot from `until`
    /// on.
    pub(crate) fn send(&self, node: usize, end: Arc<dyn Obligation>, until: Timestamp) {
        let repeater = Arc::clone(&self.nodes[node]);
        let (Some(to), Some(timers)) = (repeater.node.upgrade(), repeater.timers.upgrade()) else {
            return;
        };
        let Some(op) = Arc::clone(&end).op(node, timers.clock().now()) else { return };
        let reply = Reply::from_fn(move |answer| {
            if !end.answered(repeater.number, answer) {
                repeater.add(BacklogEntry { what: end, until });
            }
        });
        to.send(op, reply);
    }

    /// Returns the number of operations that the node has not acknowledged.
    pub(crate) fn unacknowledged(&self, node: usize) -> usize {
        self.nodes[node].state().backlog.unacknowledged()
    }
}

impl Repeater {
    fn state(&self) -> Guard<'_, RepeaterState> {
        crate::sync::lock(&self.state)
    }

    fn report(&self, dropped: &Dropped<Arc<dyn Obligation>>) {
        dropped.what.dropped();
        let Some(node) = self.node.upgrade() else { return };
        let node = node.name();
        metrics::dropped_release(node);
        if dropped.is_first {
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

    fn add(self: &Arc<Self>, entry: Pending) {
        let Some(timers) = self.timers.upgrade() else { return };
        let now = timers.clock().now();
        let dropped = self.state().backlog.push(entry, now);
        if let Some(dropped) = dropped {
            self.report(&dropped);
        }
        self.schedule(&timers);
    }

    /// Sends the operations that are due.
    fn send_due(self: &Arc<Self>) {
        let (Some(node), Some(timers)) = (self.node.upgrade(), self.timers.upgrade()) else {
            return;
        };
        let now = timers.clock().now();
        let due = self.state().backlog.take(now);
        for entry in due {
            let Some(op) = Arc::clone(&entry.what).op(self.number, now) else {
                self.state().backlog.moot();
                continue;
            };
            let this = Arc::clone(self);
            node.send(op, Reply::from_fn(move |answer| this.on_answer(entry, answer)));
        }
        self.schedule(&timers);
    }

    fn on_answer(self: Arc<Self>, entry: Pending, answer: Result<Answer, Reason>) {
        let Some(timers) = self.timers.upgrade() else { return };
        let now = timers.clock().now();
        let is_silent = answer.as_ref().is_err_and(is_silent);
        if entry.what.answered(self.number, answer) {
            if let Some(node) = self.node.upgrade() {
                let (node, subject) = (node.name(), entry.what.subject());
                crate::log::debug!(node, subject, "late end acknowledged");
            }
            self.state().backlog.answered();
        } else if is_silent {
            self.state().backlog.failed(entry, now);
        } else {
            // It refuses this operation at present, or has to be sent it again.
            self.state().backlog.unsettled(entry, now);
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

/// Returns whether the node answers no operation at present.
fn is_silent(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::TimedOut
            | Reason::NotAwaited
            | Reason::Disconnected
            | Reason::Unknown
            | Reason::NotConnected(_)
            | Reason::NotLocated(_)
            | Reason::Tls(_)
            | Reason::Auth(_)
            | Reason::Stale
            | Reason::Overloaded
            | Reason::Busy
            | Reason::Loading
            | Reason::ReadOnly
    )
}

opaque_debug!(Repeater);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        protocol::{LeaseId, Nonce, Op, ReleasedAnswer},
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
            let waker = crate::sync::lock(&self.on_return).take().expect("the repeater waits");
            waker.wake_by_ref();
            *crate::sync::lock(&self.on_return) = Some(waker);
        }
    }

    const TTL: Duration = Duration::from_secs(60);

    /// Repeaters with three pending releases, whose timers never fire.
    fn pending(node: &Arc<SilentNode>) -> (Repeaters, Arc<Timers>) {
        let timers = Arc::new(Timers::new(Arc::new(SystemClock::new())));
        let repeaters = Repeaters::new(&[Arc::clone(node) as Arc<dyn Node>], &timers);
        for number in 0..3 {
            let resource = Resource::try_from("a").unwrap();
            let nonce = Nonce::from_bytes([number; 16]);
            let lease = LeaseId::new(resource, nonce, "me".into(), Duration::ZERO);
            repeaters.repeat(0, &Arc::new(lease), timers.clock().now() + TTL);
        }
        (repeaters, timers)
    }

    #[test]
    fn node_that_returns_is_sent_releases_without_timer() {
        let node = Arc::<SilentNode>::default();
        let (repeaters, _timers) = pending(&node);
        let answer = Ok(Answer::Released(ReleasedAnswer { existed: true, awaited: false }));

        node.returns();

        assert_eq!(node.answer(&answer), 3);
        assert_eq!(repeaters.unacknowledged(0), 0);
    }

    #[test]
    fn unsettled_releases_stay_pending() {
        let node = Arc::<SilentNode>::default();
        let (repeaters, _timers) = pending(&node);

        node.returns();

        assert_eq!(node.answer(&Err(Reason::Unsettled)), 3);
        assert_eq!(repeaters.unacknowledged(0), 3);
        node.returns();
        assert_eq!(node.answer(&Err(Reason::Unsettled)), 3, "they are sent again");
    }
}
