//! One simulated server: an embedded node that can be stopped, frozen and made to forget.

use std::{
    collections::VecDeque,
    sync::{Arc, mpsc},
    time::Duration,
};

use super::{
    clock::{ManualClock, WeakClock},
    network::{HintQueue, Link},
    probation::Probations,
};
use crate::{
    error::Reason,
    node::{EmbeddedNodes, Hint, Hints, Node, NodeHealth, NodeState, Reply, Subscription},
    protocol::{AcquireOp, Answer, ClaimOp, ExtendOp, ForgetJobOp, Op, PrepareOp, RecordOp},
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
    state: Mutex<SimState>,
}

#[derive(Debug)]
struct SimState {
    /// A set of one node.
    set: EmbeddedNodes,
    /// The node of `set`.
    node: Arc<dyn Node>,
    mode: ServerMode,
    since: Timestamp,
    /// The start and the end of the probation.
    probation: Option<(Timestamp, Timestamp)>,
    /// Operations that were received and not run, in order.
    queue: VecDeque<QueuedOp>,
    /// Whether the queue is being run, so that new operations are added to it.
    is_draining: bool,
    next_id: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerMode {
    Running,
    Frozen,
    Stopped,
}

/// The voting state of a server, as clients see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VoteState {
    /// Stopped or frozen.
    Away,
    Votes,
    InProbation,
    /// The probation is over, and the server has to learn from others.
    Due,
}

#[derive(Debug)]
struct QueuedOp {
    id: u64,
    op: Op,
    /// `None` once the client stopped waiting.
    reply: Option<Reply>,
    sent: Timestamp,
    from: Arc<Link>,
}

impl SimServer {
    pub(super) fn new(name: String, clock: &ManualClock, probations: &Arc<Probations>) -> Self {
        let set = EmbeddedNodes::with_clock(1, clock.clone());
        let node = set.nodes(PREFIX).next().expect("a set of one node");
        let state = SimState {
            node,
            set,
            probation: None,
            mode: ServerMode::Running,
            since: clock.now(),
            queue: VecDeque::new(),
            is_draining: false,
            next_id: 0,
        };
        Self {
            name,
            clock: clock.weak().clone(),
            hints: Arc::default(),
            probations: Arc::clone(probations),
            state: Mutex::new(state),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
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

    pub(super) fn vote_state(&self, now: Timestamp) -> VoteState {
        let state = self.state();
        match (state.mode, state.probation) {
            (ServerMode::Stopped | ServerMode::Frozen, _) => VoteState::Away,
            (ServerMode::Running, None) => VoteState::Votes,
            (ServerMode::Running, Some((_, until))) if now < until => VoteState::InProbation,
            (ServerMode::Running, Some(_)) => VoteState::Due,
        }
    }

    pub(super) fn set(&self) -> EmbeddedNodes {
        self.state().set.clone()
    }

    pub(super) fn end_probation(&self) {
        self.state().probation = None;
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

/// Key prefix of the embedded node. The managers' prefixes have no effect here.
const PREFIX: &str = "redlock";

impl SimState {
    fn enter(&mut self, mode: ServerMode, now: Timestamp) {
        if self.mode != mode {
            (self.mode, self.since) = (mode, now);
        }
    }

    fn run(&self, op: Op, now: Timestamp) -> Result<Answer, Reason> {
        if let Some((_, until)) = self.probation
            && (op.is_vote() || matches!(op, Op::Extend(_)))
        {
            return Err(Reason::Probation { remaining: until.saturating_duration_since(now) });
        }
        let (answer, answered) = mpsc::channel();
        let reply = Reply::from_fn(move |result| {
            let _ = answer.send(result);
        });
        self.node.send(op, reply);
        answered.try_recv().unwrap_or(Err(Reason::Unknown))
    }

    /// Returns whether a server refuses the operation `waited` after it was sent: it then stores no
    /// key, but renews an existing one.
    fn is_late(&self, op: &Op, waited: Duration) -> bool {
        match op {
            Op::Acquire(AcquireOp { ttl, .. }) => waited >= *ttl,
            Op::Prepare(PrepareOp { patience, .. })
            | Op::Claim(ClaimOp { patience, .. })
            | Op::ForgetJob(ForgetJobOp { patience, .. })
            | Op::Record(RecordOp { patience, .. }) => waited > *patience,
            Op::Extend(ExtendOp { lease, patience, .. }) => {
                let is_gone = |name: &Arc<str>| {
                    let stored = self.run(Op::Inspect([Arc::clone(name)].into()), Timestamp::ZERO);
                    matches!(stored, Ok(Answer::Inspected(found)) if found == [None])
                };
                waited > *patience && lease.resource().shared_names().iter().any(is_gone)
            }
            _ => false,
        }
    }
}
