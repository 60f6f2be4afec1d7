//! Requests and answers that take their time, or get lost.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use tower_redlock::{
    error::Reason,
    node::{Hints, Node, NodeHealth, Op, Reply, Subscription},
    testing::ManualClock,
    time::{Clock, Timestamp},
};

use crate::rng::Rng;

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

    pub(crate) fn way_to(&self, node: &Arc<dyn Node>) -> Way {
        Way { node: Arc::clone(node), network: self.clone(), last: Mutex::new(Timestamp::ZERO) }
    }

    fn delay(&self, at_most: u64) -> Duration {
        let mut rng = self.rng.lock().unwrap();
        Duration::from_micros(rng.below(at_most))
    }

    fn roll(&self, chance: u64) -> bool {
        self.rng.lock().unwrap().percent(chance)
    }
}

/// From one process to one node.
pub(crate) struct Way {
    node: Arc<dyn Node>,
    network: Network,
    /// When what was sent last arrives: what comes behind it does not overtake it.
    last: Mutex<Timestamp>,
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt(f)
    }
}

impl Node for Way {
    fn send(&self, op: Op, reply: Reply) {
        let network = self.network.clone();
        let state = network.state.load(Ordering::Relaxed);
        if state == AT_ONCE {
            return self.node.send(op, reply);
        }
        if state == LOSSY && network.roll(12) {
            return reply.not_sent(Reason::NotConnected("lost".into()));
        }
        let longest = if state == LOSSY { 40_000 } else { 8_000 };
        let is_unanswered = state == LOSSY && network.roll(12);
        let arrives = {
            let mut last = self.last.lock().unwrap();
            *last = (*last + MICRO).max(network.clock.now() + network.delay(longest));
            *last
        };
        let back = network.delay(longest);
        let node = Arc::clone(&self.node);
        let clock = network.clock.clone();
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
        let sleep = network.clock.sleep_until(arrives);
        drop(network.clock.spawn(async move {
            sleep.await;
            node.send(op, reply);
        }));
    }

    fn name(&self) -> &str {
        self.node.name()
    }

    fn health(&self) -> NodeHealth {
        self.node.health()
    }

    fn wall(&self, now: Timestamp, wall: Duration) -> Option<Duration> {
        self.node.wall(now, wall)
    }

    fn has_own_wall(&self) -> bool {
        self.node.has_own_wall()
    }

    fn subscribe(&self, name: &Arc<str>, hints: Hints) -> Subscription {
        self.node.subscribe(name, hints)
    }
}
