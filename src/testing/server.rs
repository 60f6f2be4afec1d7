use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use super::{clock::ManualClock, hints::Post, link::Link, probation::Probations};
use crate::{
    error::Reason,
    node::{EmbeddedNodes, Hint, Hints, Node, NodeHealth, NodeState, Reply, Subscription},
    protocol::{AcquireOp, Answer, ClaimOp, ExtendOp, Op, PrepareOp, RecordOp},
    sync::Guard,
    time::{Clock, Timestamp},
};

/// How long a client waits for a silent server before it gives up what it asked.
pub(super) const GIVE_UP: Duration = Duration::from_secs(1);

/// A node that can be stopped and frozen.
#[derive(Debug)]
pub(super) struct Server {
    name: String,
    clock: ManualClock,
    post: Arc<Post>,
    /// Of the whole set.
    probations: Arc<Probations>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// A set of this node alone,
    set: EmbeddedNodes,
    /// and the node.
    node: Arc<dyn Node>,
    mode: Mode,
    since: Timestamp,
    /// It may have forgotten locks, since the first moment, and does not vote until the second.
    probation: Option<(Timestamp, Timestamp)>,
    /// What it was sent and has not run, in order.
    queue: VecDeque<Queued>,
    /// Somebody runs the queue: what is sent meanwhile goes behind it.
    is_draining: bool,
    next_id: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Running,
    Frozen,
    Stopped,
}

/// How a server stands, as clients see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerState {
    /// Stopped or frozen.
    Away,
    Votes,
    /// Its probation goes on.
    Waits,
    /// Its probation is over, and it has to learn what it missed.
    Waited,
}

#[derive(Debug)]
struct Queued {
    id: u64,
    op: Op,
    /// Absent once its client gave up.
    reply: Option<Reply>,
    sent: Timestamp,
    from: Arc<Link>,
}

impl Server {
    pub(super) fn new(name: String, clock: &ManualClock, probations: &Arc<Probations>) -> Self {
        let set = EmbeddedNodes::with_clock(1, clock.clone());
        let node = set.nodes(PREFIX).next().expect("a set of one node");
        let state = State {
            node,
            set,
            probation: None,
            mode: Mode::Running,
            since: clock.now(),
            queue: VecDeque::new(),
            is_draining: false,
            next_id: 0,
        };
        Self {
            name,
            clock: clock.clone(),
            post: Arc::default(),
            probations: Arc::clone(probations),
            state: Mutex::new(state),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn state(&self) -> Guard<'_, State> {
        crate::sync::lock(&self.state)
    }

    pub(super) fn send(self: &Arc<Self>, op: Op, reply: Reply, from: &Arc<Link>) {
        self.look();
        if let Op::Acquire(AcquireOp { ttl, .. }) = &op {
            self.probations.asked_for(*ttl);
        }
        let mut state = self.state();
        if state.mode == Mode::Stopped {
            drop(state);
            return reply.not_sent(Reason::NotConnected("stopped".into()));
        }
        if state.mode == Mode::Running && !state.is_draining {
            let result = state.run(op, self.clock.now());
            drop(state);
            reply.send(result);
            return self.post.deliver();
        }
        let (id, sent) = (state.next_id, self.clock.now());
        state.next_id += 1;
        state.queue.push_back(Queued { id, op, reply: Some(reply), sent, from: Arc::clone(from) });
        drop(state);
        let (server, until) = (Arc::downgrade(self), self.clock.sleep_until(sent + GIVE_UP));
        drop(self.clock.spawn(async move {
            until.await;
            if let Some(server) = server.upgrade() {
                server.give_up(|queued| queued.id == id);
            }
        }));
    }

    /// Tells clients that they hear nothing more. What they sent stays where it is.
    fn give_up(&self, which: impl Fn(&Queued) -> bool) {
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
        self.post.tell(Some(link), Hint::Deaf);
    }

    pub(super) fn heal(&self, link: &Arc<Link>) {
        link.heal();
        if self.state().mode != Mode::Stopped {
            self.post.tell(Some(link), Hint::Listening);
        }
    }

    pub(super) fn subscribe(
        &self,
        name: &Arc<str>,
        hints: Hints,
        from: &Arc<Link>,
    ) -> Subscription {
        let client = self.post.client(from, hints);
        let inner = {
            let state = self.state();
            state.node.subscribe(name, self.post.inbox(&client))
        };
        if self.state().mode != Mode::Stopped {
            self.post.deliver();
        }
        Subscription::new((inner, client))
    }

    pub(super) fn stop(&self) {
        let unrun = {
            let mut state = self.state();
            state.enter(Mode::Stopped, self.clock.now());
            std::mem::take(&mut state.queue)
        };
        for reply in unrun.into_iter().filter_map(|queued| queued.reply) {
            reply.send(Err(Reason::Disconnected));
        }
        self.post.tell(None, Hint::Deaf);
    }

    pub(super) fn start(self: &Arc<Self>) {
        {
            let mut state = self.state();
            if state.mode != Mode::Stopped {
                return;
            }
            state.enter(Mode::Running, self.clock.now());
            self.begin_again(&mut state);
        }
        self.post.tell(None, Hint::Listening);
    }

    pub(super) fn freeze(&self) {
        let mut state = self.state();
        if state.mode == Mode::Running {
            state.enter(Mode::Frozen, self.clock.now());
        }
    }

    /// Runs what was queued, in order; answers are given between two of them, outside the lock.
    pub(super) fn thaw(self: &Arc<Self>) {
        let mut state = self.state();
        if state.mode != Mode::Frozen {
            return;
        }
        state.enter(Mode::Running, self.clock.now());
        self.begin_again(&mut state);
        if std::mem::replace(&mut state.is_draining, true) {
            return;
        }
        while state.mode == Mode::Running
            && let Some(Queued { op, reply, sent, .. }) = state.queue.pop_front()
        {
            let now = self.clock.now();
            let result = if state.is_late(&op, now.saturating_duration_since(sent)) {
                Err(Reason::Late)
            } else {
                state.run(op, now)
            };
            drop(state);
            if let Some(reply) = reply {
                reply.send(result);
            }
            self.post.deliver();
            state = self.state();
        }
        state.is_draining = false;
    }

    pub(super) fn forget_unguarded(&self) {
        self.state().set.forget(0);
    }

    /// Loses what it keeps, and begins a probation.
    pub(super) fn forget(self: &Arc<Self>) {
        let mut state = self.state();
        state.set.forget(0);
        state.probation = Some((self.clock.now(), Timestamp::MAX));
        self.begin_again(&mut state);
    }

    /// A probation counts from when clients see the server.
    fn begin_again(self: &Arc<Self>, state: &mut State) {
        let Some((since, _)) = state.probation else { return };
        let until = self.clock.now() + self.probations.length();
        state.probation = Some((since, until));
        let (server, sleep) = (Arc::downgrade(self), self.clock.sleep_until(until));
        drop(self.clock.spawn(async move {
            sleep.await;
            if let Some(server) = server.upgrade() {
                server.look();
            }
        }));
    }

    /// Ends probations that are over.
    fn look(&self) {
        let is_over = |(_, until): (Timestamp, Timestamp)| self.clock.now() >= until;
        if self.state().probation.is_some_and(is_over) {
            self.probations.end(self.clock.now());
        }
    }

    pub(super) fn vote_state(&self, now: Timestamp) -> ServerState {
        let state = self.state();
        match (state.mode, state.probation) {
            (Mode::Stopped | Mode::Frozen, _) => ServerState::Away,
            (Mode::Running, None) => ServerState::Votes,
            (Mode::Running, Some((_, until))) if now < until => ServerState::Waits,
            (Mode::Running, Some(_)) => ServerState::Waited,
        }
    }

    /// What it keeps.
    pub(super) fn set(&self) -> EmbeddedNodes {
        self.state().set.clone()
    }

    pub(super) fn end_probation(&self) {
        self.state().probation = None;
    }

    pub(super) fn key_count(&self) -> usize {
        self.state().set.key_counts().into_iter().sum()
    }

    /// What its wall clock shows, to who is connected to it.
    pub(super) fn wall(&self, link: &Link) -> Option<Duration> {
        let state = self.state();
        let is_there = state.mode != Mode::Stopped && link.cut_since().is_none();
        is_there.then(|| state.set.wall())
    }

    pub(super) fn health(&self, link: &Arc<Link>) -> NodeHealth {
        self.look();
        let state = self.state();
        let now = self.clock.now();
        let down =
            |reason, since| NodeState::Down { reason, since: now.saturating_duration_since(since) };
        let waits = |queued: &&Queued| queued.reply.is_some() && Arc::ptr_eq(&queued.from, link);
        let mut health = NodeHealth::voting(&self.name);
        health.in_flight = state.queue.iter().filter(waits).count();
        let stopped = || Reason::NotConnected("stopped".into());
        health.state = match (state.mode, link.cut_since()) {
            (Mode::Stopped, _) => down(stopped(), state.since),
            (_, Some(since)) => down(Link::reason(), since),
            (Mode::Frozen, None) => down(Reason::TimedOut, state.since),
            (Mode::Running, None) => match state.probation {
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

/// Embedded nodes keep apart what managers with different prefixes store. One is enough here.
const PREFIX: &str = "redlock";

impl State {
    fn enter(&mut self, mode: Mode, now: Timestamp) {
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

    /// Whether a server refuses the operation, so long after it was sent: no key is stored then,
    /// while one that is still there may be renewed.
    fn is_late(&self, op: &Op, waited: Duration) -> bool {
        match op {
            Op::Acquire(AcquireOp { patience, .. })
            | Op::Prepare(PrepareOp { patience, .. })
            | Op::Claim(ClaimOp { patience, .. })
            | Op::Record(RecordOp { patience, .. }) => waited > *patience,
            Op::Extend(ExtendOp { lease, patience, .. }) => {
                let is_gone = |name: &Arc<str>| {
                    let stored = self.run(Op::Inspect(Arc::clone(name)), Timestamp::ZERO);
                    matches!(stored, Ok(Answer::Inspected(None)))
                };
                waited > *patience && lease.resource().shared_names().iter().any(is_gone)
            }
            _ => false,
        }
    }
}
