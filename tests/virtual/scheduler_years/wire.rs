//! Requests and answers that take their time, or get lost.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use tower_redlock::{
    error::Reason,
    node::{Node, Op, Reply},
    testing::ManualClock,
    time::{Clock, Timestamp},
};

use crate::{scheduler_years::rng::Rng, support::mock_node::MockNode};

const MICRO: Duration = Duration::from_micros(1);

/// The network between all machines and nodes.
#[derive(Clone)]
pub(crate) struct Network {
    state: Arc<AtomicU8>,
    rng: Arc<Mutex<Rng>>,
    clock: ManualClock,
}

const AT_ONCE: u8 = 0;
const SLOW: u8 = 1;
const LOSSY: u8 = 2;

impl Network {
    pub(crate) fn new(seed: u64, clock: &ManualClock) -> Self {
        let rng = Arc::new(Mutex::new(Rng::new(seed)));
        Self { state: Arc::default(), rng, clock: clock.clone() }
    }

    pub(crate) fn set(&self, is_slow: bool, is_lossy: bool) {
        let state = match (is_lossy, is_slow) {
            (true, _) => LOSSY,
            (_, true) => SLOW,
            _ => AT_ONCE,
        };
        self.state.store(state, Ordering::Relaxed);
    }

    /// From one process to one node.
    /// `claims_cut`: the nodes that its claims do not reach, and the place of this node among them.
    pub(crate) fn way_to(
        &self,
        node: &Arc<dyn Node>,
        (claims_cut, number): (&Arc<AtomicU8>, usize),
    ) -> MockNode {
        let (network, to, claims_cut) = (self.clone(), Arc::clone(node), Arc::clone(claims_cut));
        // When what was sent last arrives: what comes behind it does not overtake it.
        let last = Mutex::new(Timestamp::ZERO);
        MockNode::over(node, move |op, reply, _| {
            let is_cut = claims_cut.load(Ordering::Relaxed) & (1 << number) != 0;
            if is_cut && matches!(op, Op::Claim(_)) {
                return reply.not_sent(Reason::NotConnected("lost".into()));
            }
            network.send(&to, &last, op, reply);
        })
    }

    fn send(&self, node: &Arc<dyn Node>, last: &Mutex<Timestamp>, op: Op, reply: Reply) {
        let state = self.state.load(Ordering::Relaxed);
        if state == AT_ONCE {
            return node.send(op, reply);
        }
        if state == LOSSY && self.roll(12) {
            return reply.not_sent(Reason::NotConnected("lost".into()));
        }
        let longest = if state == LOSSY { 40_000 } else { 8_000 };
        let is_unanswered = state == LOSSY && self.roll(12);
        let arrives = {
            let mut last = last.lock().unwrap();
            *last = (*last + MICRO).max(self.clock.now() + self.delay(longest));
            *last
        };
        let back = self.delay(longest);
        let (node, clock) = (Arc::clone(node), self.clock.clone());
        let reply = Reply::from_fn(move |answer| {
            if is_unanswered {
                return reply.send(Err(Reason::Disconnected));
            }
            let sleep = clock.sleep(back);
            drop(clock.spawn(async move {
                sleep.await;
                reply.send(answer);
            }));
        });
        let sleep = self.clock.sleep_until(arrives);
        drop(self.clock.spawn(async move {
            sleep.await;
            node.send(op, reply);
        }));
    }

    fn delay(&self, at_most: u64) -> Duration {
        let mut rng = self.rng.lock().unwrap();
        Duration::from_micros(rng.below(at_most))
    }

    fn roll(&self, chance: u64) -> bool {
        self.rng.lock().unwrap().percent(chance)
    }
}
