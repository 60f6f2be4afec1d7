//! One simulated server: an embedded node that can be stopped, frozen and made to forget.

use std::{sync::Arc, time::Duration};

use super::{
    clock::{ManualClock, WeakClock},
    network::{HintQueue, Link},
    probation::Probations,
    sim_state::{QueuedOp, ServerMode, SimState},
};
use crate::{
    error::Reason,
    node::{Hint, Hints, NodeHealth, NodeState, Reply, Subscription},
    protocol::{AcquireOp, Op},
    sync::{Guard, Mutex},
    time::{Clock, Timestamp},
};

/// Timeout after which a client abandons an operation on a silent server.
pub(super) const ABANDON_TIMEOUT: Duration = Duration::from_secs(1);

/// A node that can be stopped and frozen.
#[derive(Debug)]
pub(super) struct SimServer {
    name: String,
    clock: WeakClock,
    hints: Arc<HintQueue>,
    probations: Arc<Probations>,
    state: Arc<Mutex<SimState>>,
}

impl SimServer {
    pub(super) fn new(name: String, clock: &ManualClock, probations: &Arc<Probations>) -> Self {
        Self {
            name,
            clock: clock.weak().clone(),
            hints: Arc::default(),
            probations: Arc::clone(probations),
            state: Arc::new(Mutex::new(SimState::new(clock))),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the state, for the probations.
    pub(super) fn shared_state(&self) -> &Arc<Mutex<SimState>> {
        &self.state
    }

    fn state(&self) -> Guard<'_, SimState> {
        crate::sync::lock(&self.state)
    }

    pub(super) fn send(self: &Arc<Self>, op: Op, reply: Reply, from: &Arc<Link>) {
        self.end_due_probations();
        if let Op::Acquire(AcquireOp { ttl, .. }) = &op {
            self.probations.asked_for(*ttl);
        }
        let mut state = self.state();
        if state.mode == ServerMode::Stopped {
            drop(state);
            return reply.not_sent(Reason::NotConnected("stopped".into()));
        }
        if state.mode == ServerMode::Running && !state.is_draining {
            let result = state.run(op, self.clock.now());
            drop(state);
            reply.send(result);
            return self.hints.deliver();
        }
        let (id, sent) = (state.next_id, self.clock.now());
        state.next_id += 1;
        state.queue.push_back(QueuedOp {
            id,
            op,
            reply: Some(reply),
            sent,
            from: Arc::clone(from),
        });
        drop(state);
        let (server, until) =
            (Arc::downgrade(self), self.clock.sleep_until(sent + ABANDON_TIMEOUT));
        self.clock.spawn(async move {
            until.await;
            if let Some(server) = server.upgrade() {
                server.give_up(|queued| queued.id == id);
            }
        });
    }

    /// Answers the clients of some operations with an error. The operations stay queued.
    fn give_up(&self, which: impl Fn(&QueuedOp) -> bool) {
        let replies: Vec<_> = {
            let mut state = self.state();
            let given_up = state.queue.iter_mut().filter(|queued| which(queued));
            given_up.filter_map(|queued| queued.reply.take()).collect()
        };
        for reply in replies {
            reply.send(Err(Reason::Disconnected));
        }
    }

    pub(super) fn cut_off(&self, link: &Arc<Link>) {
        link.cut(self.clock.now());
        self.give_up(|queued| Arc::ptr_eq(&queued.from, link));
        self.hints.broadcast(Some(link), &Hint::Deaf);
    }

    pub(super) fn heal(&self, link: &Arc<Link>) {
        link.heal();
        if self.state().mode != ServerMode::Stopped {
            self.hints.broadcast(Some(link), &Hint::Listening);
        }
    }

    pub(super) fn subscribe(
        &self,
        name: &Arc<str>,
        hints: Hints,
        from: &Arc<Link>,
    ) -> Subscription {
        let client = self.hints.subscriber(from, hints);
        let inner = {
            let state = self.state();
            state.node.subscribe(name, self.hints.inbox(&client))
        };
        if self.state().mode != ServerMode::Stopped {
            self.hints.deliver();
        }
        Subscription::new((inner, client))
    }

    pub(super) fn stop(&self) {
        let unrun = {
            let mut state = self.state();
            state.enter(ServerMode::Stopped, self.clock.now());
            std::mem::take(&mut state.queue)
        };
        for reply in unrun.into_iter().filter_map(|queued| queued.reply) {
            reply.send(Err(Reason::Disconnected));
        }
        self.hints.broadcast(None, &Hint::Deaf);
    }

    pub(super) fn start(self: &Arc<Self>) {
        {
            let mut state = self.state();
            if state.mode != ServerMode::Stopped {
                return;
            }
            state.enter(ServerMode::Running, self.clock.now());
            self.restart_probation(&mut state);
        }
        self.hints.broadcast(None, &Hint::Listening);
    }

    pub(super) fn freeze(&self) {
        let mut state = self.state();
        if state.mode == ServerMode::Running {
            state.enter(ServerMode::Frozen, self.clock.now());
        }
    }

    /// Runs the queued operations in order. Replies are sent after the mutex is unlocked.
    pub(super) fn thaw(self: &Arc<Self>) {
        let mut state = self.state();
        if state.mode != ServerMode::Frozen {
            return;
        }
        state.enter(ServerMode::Running, self.clock.now());
        self.restart_probation(&mut state);
        if std::mem::replace(&mut state.is_draining, true) {
            return;
        }
        while state.mode == ServerMode::Running
            && let Some(QueuedOp { mut op, reply, sent, .. }) = state.queue.pop_front()
        {
            let now = self.clock.now();
            let waited = now.saturating_duration_since(sent);
            let result = if state.is_late(&op, waited) {
                Err(Reason::Late)
            } else {
                // The keys expire at the same time as if the operation had run at once.
                if let Op::Acquire(AcquireOp { ttl, .. }) = &mut op {
                    *ttl = ttl.saturating_sub(waited);
                }
                state.run(op, now)
            };
            drop(state);
            if let Some(reply) = reply {
                reply.send(result);
            }
            self.hints.deliver();
            state = self.state();
        }
        state.is_draining = false;
    }

    pub(super) fn forget_unguarded(&self) {
        self.state().set.forget(0);
    }

    /// Deletes everything, and begins a probation.
    pub(super) fn forget(self: &Arc<Self>) {
        let mut state = self.state();
        state.set.forget(0);
        state.probation = Some((self.clock.now(), Timestamp::MAX));
        self.restart_probation(&mut state);
    }

    /// Restarts the probation, which counts from the time at which clients reach the server.
    fn restart_probation(self: &Arc<Self>, state: &mut SimState) {
        let Some((since, _)) = state.probation else { return };
        let until = self.clock.now() + self.probations.length();
        state.probation = Some((since, until));
        let (server, sleep) = (Arc::downgrade(self), self.clock.sleep_until(until));
        self.clock.spawn(async move {
            sleep.await;
            if let Some(server) = server.upgrade() {
                server.end_due_probations();
            }
        });
    }

    /// Ends the probations that are over.
    fn end_due_probations(&self) {
        let is_over = |(_, until): (Timestamp, Timestamp)| self.clock.now() >= until;
        if self.state().probation.is_some_and(is_over) {
            self.probations.end(self.clock.now());
        }
    }

    pub(super) fn key_count(&self) -> usize {
        self.state().set.key_counts().into_iter().sum()
    }

    /// Returns the server's wall clock for a connected client.
    pub(super) fn wall(&self, link: &Link) -> Option<Duration> {
        let state = self.state();
        let is_there = state.mode != ServerMode::Stopped && link.cut_since().is_none();
        is_there.then(|| state.set.wall())
    }

    pub(super) fn health(&self, link: &Arc<Link>) -> NodeHealth {
        self.end_due_probations();
        let state = self.state();
        let now = self.clock.now();
        let down =
            |reason, since| NodeState::Down { reason, since: now.saturating_duration_since(since) };
        let waits = |queued: &&QueuedOp| queued.reply.is_some() && Arc::ptr_eq(&queued.from, link);
        let mut health = NodeHealth::voting(&self.name);
        health.in_flight = state.queue.iter().filter(waits).count();
        let stopped = || Reason::NotConnected("stopped".into());
        health.state = match (state.mode, link.cut_since()) {
            (ServerMode::Stopped, _) => down(stopped(), state.since),
            (_, Some(since)) => down(Link::reason(), since),
            (ServerMode::Frozen, None) => down(Reason::TimedOut, state.since),
            (ServerMode::Running, None) => match state.probation {
                None => NodeState::Voting,
                Some((since, until)) => NodeState::Probation {
                    remaining: until.saturating_duration_since(now),
                    since: now.saturating_duration_since(since),
                    blocked: None,
                },
            },
        };
        health
    }
}
