//! Runs the algorithm of one lease: feeds it events, carries out its actions.

use std::{
    collections::VecDeque,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Wake, Waker},
    time::Duration,
};

use super::{
    core::Core,
    queue::Ticket,
    release::Released,
    settings::Plan,
    watchers::{Watch, Watchers},
};
use crate::{
    error::{LockError, LossCause, Reason, ReleaseError},
    node::{Answer, LeaseId, Nonce, Op, OpId, Reply, ReplySink},
    quorum::{Action, Command, Event, Lease, Loss, Refusal, ReleaseVerdict},
    resource::Resource,
    time::{TimerKey, Timestamp},
    token::{FencingToken, block_end},
};

/// One attempt and what follows from it, as the rest of the crate sees it.
///
/// Answers of nodes are taken wherever they arrive; no task belongs to a lease.
pub(crate) struct ActiveLease {
    core: Arc<Core>,
    id: Arc<LeaseId>,
    plan: Plan,
    started: Timestamp,
    token: AtomicU64,
    /// How many tokens the lease reserves.
    block: u64,
    /// The end of the lease in ns while it is held, else 0: what every poll of guarded work reads.
    valid_until: AtomicU64,
    state: Mutex<State>,
}

struct State {
    lease: Lease,
    /// Commands that are decided and not yet sent.
    outbox: VecDeque<(usize, Command)>,
    /// Somebody is sending from the outbox: commands to a node never overtake each other.
    sending: bool,
    timer: Option<TimerKey>,
    decision: Option<Result<(), LockError>>,
    loss: Option<LossCause>,
    /// The result of the last extension that was asked for.
    extension: Option<Result<(), LockError>>,
    released: Option<Result<Released, ReleaseError>>,
    watchers: Watchers,
    /// The turn in the local line; passed on at loss, or behind the holder's release.
    ticket: Option<Ticket>,
    holder_gone: bool,
    /// The release is decided.
    over: bool,
    /// An empty list to be used again.
    spare: Vec<Action>,
}

impl ActiveLease {
    /// Sends the first requests.
    pub(crate) fn start(
        core: Arc<Core>,
        resource: Resource,
        plan: Plan,
        ticket: Ticket,
    ) -> Result<Arc<Self>, LockError> {
        let nonce =
            Nonce::random().map_err(|error| LockError::NoRandomness(error.to_string().into()))?;
        let wall = core.clock().wall();
        let proposal = core.settings.fencing.then(|| core.fences.propose(&resource, wall));
        let (token, block) = proposal.map_or((0, 1), |proposal| (proposal.token, proposal.block));
        let id = LeaseId::new(resource, nonce, Arc::clone(&core.settings.owner), wall);
        let nodes = core.nodes.len();
        let mut actions = Vec::with_capacity(nodes);
        // t0: everything that is valid later counts from here.
        let now = core.clock().now();
        let lease = Lease::start(plan.terms(nodes, proposal), now, &mut actions);
        let this = Arc::new(Self {
            core,
            id: Arc::new(id),
            plan,
            started: now,
            token: AtomicU64::new(token),
            block,
            valid_until: AtomicU64::new(0),
            state: Mutex::new(State {
                lease,
                outbox: VecDeque::with_capacity(nodes),
                sending: false,
                timer: None,
                decision: None,
                loss: None,
                extension: None,
                released: None,
                watchers: Watchers::default(),
                ticket: Some(ticket),
                holder_gone: false,
                over: false,
                spare: Vec::new(),
            }),
        });
        let state = this.state();
        this.carry_out(state, actions);
        Ok(this)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        crate::sync::lock(&self.state)
    }

    fn handle(self: &Arc<Self>, event: Event) {
        let mut state = self.state();
        let mut actions = std::mem::take(&mut state.spare);
        // Read behind the mutex, as late as can be: the algorithm's comparison with now is the last word.
        let now = self.core.clock().now();
        state.lease.handle(event, now, &mut actions);
        self.carry_out(state, actions);
    }

    fn carry_out<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        mut actions: Vec<Action>,
    ) {
        let mut wakers = Vec::new();
        let mut ticket = None;
        let mut orphans = Vec::new();
        let mut decision = None;
        for action in actions.drain(..) {
            match action {
                Action::Send { node, command } => {
                    state.outbox.push_back((node, command));
                    if command != Command::Release {
                        continue;
                    }
                    // Who watches for the end of the lease has it here.
                    self.core.releasing.fetch_add(1, Ordering::AcqRel);
                    state.over = true;
                }
                Action::Orphaned { node } => {
                    orphans.push(node);
                    continue;
                }
                Action::Renewing => {
                    tracing::debug!(resource = %self.resource(), "renewing");
                    continue;
                }
                Action::Acquired { token, until } => {
                    self.token.store(token, Ordering::Release);
                    self.valid_until.store(until.as_nanos(), Ordering::Release);
                    decision = Some(Ok(()));
                    continue;
                }
                Action::Refused(refusal) => {
                    decision = Some(Err(self.refused(refusal)));
                    continue;
                }
                Action::Renewed { until } => {
                    self.valid_until.store(until.as_nanos(), Ordering::Release);
                    tracing::debug!(resource = %self.resource(), "renewed");
                    // Nobody waits for this: guarded work is not woken by every renewal.
                    continue;
                }
                Action::Extended(result) => {
                    state.extension =
                        Some(result.map_err(|votes| LockError::NoQuorum {
                            votes: self.core.votes(votes),
                        }));
                }
                Action::Lost(loss) => {
                    self.valid_until.store(0, Ordering::Release);
                    let cause = self.lost(loss);
                    // An end that was planned is nobody's alarm.
                    let planned = matches!(cause, LossCause::MaxHold { .. });
                    if planned || !self.plan.auto_extend {
                        tracing::debug!(resource = %self.resource(), %cause, "lock ended");
                    } else {
                        tracing::warn!(resource = %self.resource(), %cause, "lock lost");
                    }
                    state.loss = Some(cause);
                    ticket = state.ticket.take();
                }
                Action::Released(verdict) => state.released = Some(self.released(verdict)),
            }
            state.watchers.take(&mut wakers);
        }
        state.spare = actions;
        if !state.sending {
            state = self.send_outbox(state);
            self.arm(&mut state);
            if state.holder_gone {
                ticket = state.ticket.take();
            }
        }
        drop(state);
        for node in orphans {
            // The last grant may run as late as its patience allows; then the TTL starts.
            let longest = self.plan.ttl + self.patience() * 2;
            self.core.releaser.push(&self.core, node, Arc::clone(&self.id), longest);
        }
        drop(ticket);
        if let Some(decision) = decision {
            self.announce(decision, &mut wakers);
        }
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Tells the local line, then whoever waits for the decision: in this order, and from here, as
    /// the task that asked may not be polled for long.
    fn announce(self: &Arc<Self>, decision: Result<(), LockError>, wakers: &mut Vec<Waker>) {
        let ticket = self.state().ticket.take();
        if let Some(ticket) = &ticket {
            match &decision {
                Ok(()) => ticket.holding(self),
                Err(error) => ticket.report(error),
            }
        }
        let mut state = self.state();
        state.decision = Some(decision);
        // Whoever is sending passes the turn on, behind the release.
        let gone = (state.holder_gone && !state.sending) || state.loss.is_some();
        let unwanted = if gone {
            ticket
        } else {
            state.ticket = ticket;
            None
        };
        state.watchers.take(wakers);
        drop(state);
        drop(unwanted);
    }

    /// Sends what is decided, one sender at a time: who comes meanwhile, an answer within the call
    /// to a node included, adds to the outbox and leaves the rest to us.
    fn send_outbox<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        state.sending = true;
        while let Some((node, command)) = state.outbox.pop_front() {
            drop(state);
            let (op, id) = self.op(command);
            let reply = Reply::to_lease(Arc::clone(self) as Arc<dyn ReplySink>, node, id);
            let node = &self.core.nodes[node];
            // A node that panics has dropped the reply: its answer is unknown, and ours goes on.
            if catch_unwind(AssertUnwindSafe(|| node.send(op, reply))).is_err() {
                tracing::error!(node = node.name(), "a node panicked while it was sent to");
            }
            state = self.state();
        }
        state.sending = false;
        state
    }

    fn op(&self, command: Command) -> (Op, OpId) {
        let lease = Arc::clone(&self.id);
        let (ttl, patience) = (self.plan.ttl, self.patience());
        match command {
            Command::Acquire { token, expires } => {
                let block_end = block_end(token, self.block);
                let op = Op::Acquire { lease, ttl, token, block_end, expires, patience };
                (op, OpId::Acquire)
            }
            Command::Raise { round, token } => {
                let block_end = block_end(token, self.block);
                self.core.fences.see(self.resource(), block_end);
                (Op::Raise { lease, token, block_end }, OpId::Raise(round))
            }
            Command::Extend { started, until } => {
                let token = self.token.load(Ordering::Acquire);
                (Op::Extend { lease, ttl, token, until, patience }, OpId::Extend(started))
            }
            Command::Release => {
                // Not before: what stands ahead of it in the outbox is still to be sent.
                self.id.end();
                (Op::Release { lease }, OpId::Release)
            }
        }
    }

    /// How long after sending a node may still store our key: two node timeouts.
    fn patience(&self) -> Duration {
        self.plan.node_timeout * 2
    }

    /// Sets the timer. One that fires too early is left alone: it looks again.
    fn arm(self: &Arc<Self>, state: &mut State) {
        let wanted = state.lease.next_wake();
        match (wanted, state.timer) {
            (Some(at), Some(key)) if key.at <= at => {}
            (Some(at), old) => {
                if let Some(key) = old {
                    self.core.timers.remove(key);
                }
                state.timer = Some(self.core.timers.insert(at, Waker::from(Arc::clone(self))));
            }
            (None, Some(key)) => {
                self.core.timers.remove(key);
                state.timer = None;
            }
            (None, None) => {}
        }
    }

    fn refused(&self, refusal: Refusal) -> LockError {
        match refusal {
            Refusal::Held { retry_after, owner } => LockError::Held { retry_after, owner },
            Refusal::NoQuorum { votes } => LockError::NoQuorum { votes: self.core.votes(votes) },
            Refusal::TooSlow { elapsed } => {
                LockError::TooSlow { elapsed, validity: self.plan.validity }
            }
        }
    }

    fn lost(&self, loss: Loss) -> LossCause {
        match loss {
            Loss::Expired { votes } => LossCause::Expired { votes: self.core.votes(votes) },
            Loss::Stolen { owner } => LossCause::Stolen { owner },
            Loss::MaxHold => LossCause::MaxHold { limit: self.plan.max_hold },
        }
    }

    fn released(&self, verdict: ReleaseVerdict) -> Result<Released, ReleaseError> {
        match verdict {
            ReleaseVerdict::Released => Ok(Released::Released),
            ReleaseVerdict::AlreadyLost => Ok(Released::AlreadyLost),
            ReleaseVerdict::NoQuorum { votes } => {
                Err(ReleaseError::NoQuorum { votes: self.core.votes(votes) })
            }
        }
    }

    pub(crate) fn resource(&self) -> &Resource {
        self.id.resource()
    }

    pub(crate) fn token(&self) -> FencingToken {
        FencingToken::new(self.token.load(Ordering::Acquire))
    }

    /// The end of the lease, or [`Timestamp::ZERO`] when it is not held.
    pub(crate) fn valid_until(&self) -> Timestamp {
        Timestamp::from_nanos(self.valid_until.load(Ordering::Acquire))
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.valid_until().since(self.core.clock().now())
    }

    /// P2: the clock is read here, immediately before every poll of guarded work.
    pub(crate) fn is_valid(&self) -> bool {
        self.core.clock().now() < self.valid_until()
    }

    /// The error for a grant that was fetched when it was over: nothing ran under it.
    pub(crate) fn too_slow(&self) -> LockError {
        let elapsed = self.core.clock().now().since(self.started);
        LockError::TooSlow { elapsed, validity: self.plan.validity }
    }

    /// Why the lock is not held. Asked when [`is_valid`](Self::is_valid) said no; the algorithm is
    /// told first, if the timer has not come round to it.
    pub(crate) fn loss(self: &Arc<Self>) -> LossCause {
        self.handle(Event::Wake);
        self.state().loss.clone().unwrap_or(LossCause::Released)
    }

    /// How many nodes granted, of how many.
    pub(crate) fn tally(&self) -> (usize, usize) {
        (self.state().lease.granted(), self.core.nodes.len())
    }

    /// Gives back, behind everything else that was sent; the next in line follows behind that.
    pub(crate) fn release(self: &Arc<Self>, awaited: bool) {
        let mut state = self.state();
        state.holder_gone = true;
        let mut actions = std::mem::take(&mut state.spare);
        state.lease.handle(Event::Release { awaited }, self.core.clock().now(), &mut actions);
        self.valid_until.store(0, Ordering::Release);
        self.carry_out(state, actions);
    }

    pub(crate) fn extend(self: &Arc<Self>) {
        self.state().extension = None;
        self.handle(Event::Extend);
    }

    /// Registers a task to be woken at the next change of anything.
    pub(crate) fn watch(&self, watch: &mut Watch, cx: &Context<'_>) {
        self.state().watchers.watch(&mut watch.0, cx.waker());
    }

    pub(crate) fn unwatch(&self, watch: &mut Watch) {
        if let Some(key) = watch.0.take() {
            let waker = self.state().watchers.forget(key);
            drop(waker);
        }
    }

    /// The decision of the attempt, taken once; else the task is woken when it is there.
    pub(crate) fn decision(
        &self,
        watch: &mut Watch,
        cx: &Context<'_>,
    ) -> Option<Result<(), LockError>> {
        let mut state = self.state();
        let decision = state.decision.take();
        if decision.is_none() {
            state.watchers.watch(&mut watch.0, cx.waker());
        }
        decision
    }

    /// The turn of an attempt that failed, for the next attempt.
    pub(crate) fn take_ticket(&self) -> Option<Ticket> {
        self.state().ticket.take()
    }

    pub(crate) fn poll_extension(
        &self,
        watch: &mut Watch,
        cx: &Context<'_>,
    ) -> Option<Result<(), LockError>> {
        let mut state = self.state();
        if let Some(cause) = &state.loss {
            return Some(Err(LockError::lost(cause.clone())));
        }
        let result = state.extension.clone();
        if result.is_none() {
            state.watchers.watch(&mut watch.0, cx.waker());
        }
        result
    }

    pub(crate) fn poll_released(
        &self,
        watch: &mut Watch,
        cx: &Context<'_>,
    ) -> Option<Result<Released, ReleaseError>> {
        let mut state = self.state();
        let result = state.released.clone();
        if result.is_none() {
            state.watchers.watch(&mut watch.0, cx.waker());
        }
        result
    }

    /// The cause of the loss once the lock is not held any more.
    pub(crate) fn poll_lost(&self, watch: &mut Watch, cx: &Context<'_>) -> Option<LossCause> {
        let mut state = self.state();
        if let Some(cause) = &state.loss {
            return Some(cause.clone());
        }
        if state.over {
            return Some(LossCause::Released);
        }
        state.watchers.watch(&mut watch.0, cx.waker());
        None
    }
}

impl ActiveLease {
    fn take(self: &Arc<Self>, op: OpId, event: Event) {
        self.handle(event);
        // Counted until it is known whether it has to be repeated.
        if op == OpId::Release {
            self.core.releasing.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl ReplySink for ActiveLease {
    fn answer(self: Arc<Self>, node: usize, op: OpId, result: Result<Answer, Reason>) {
        if let Ok(answer) = &result {
            self.core.fences.see(self.resource(), answer.fence());
        }
        self.take(op, Event::Answer { node, op, result });
    }

    fn not_sent(self: Arc<Self>, node: usize, op: OpId, reason: Reason) {
        self.take(op, Event::NotSent { node, op, reason });
    }
}

impl Wake for ActiveLease {
    fn wake(self: Arc<Self>) {
        self.state().timer = None;
        self.handle(Event::Wake);
    }
}

impl fmt::Debug for ActiveLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActiveLease")
            .field("resource", self.resource())
            .field("token", &self.token())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
