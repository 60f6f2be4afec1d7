//! A lease of this process: its state, and the events that reach it.

use std::{sync::Arc, task::Wake, time::Duration};

use super::{
    grants::{Grant, Grants},
    other_requests::OtherRequests,
    signals::GrantSignals,
};
use crate::{
    FencingToken,
    error::{LockError, LossCause, Reason, Votes, WaitingRequest},
    lock::{
        attempts::Permit, client::Client, fences::block_for, queue::Ticket, settings::Plan,
        wait_mark::WaitMark,
    },
    node::{ClockJump, ReplySink},
    protocol::{
        Answer, GrantedAnswer, LeaseId, Nonce, OpId, RaisedAnswer, ReleasedAnswer, views::View,
    },
    quorum::{Action, Event, Halt, Lease, LeaseCommand, Loss, Refusal},
    resource::Resource,
    sync::{
        Guard, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{TimerKey, Timestamp},
    token::block_end,
};

/// A lease of this process, as the nodes know it. Its holders follow one another by hand-offs; a shared
/// lease has several at a time.
///
/// Answers of nodes are handled wherever they arrive; no task belongs to a lease.
pub(crate) struct LocalLease {
    pub(super) client: Arc<Client>,
    pub(super) id: Arc<LeaseId>,
    /// The mark of the exclusive request, which waits if it is refused.
    pub(super) mark: Option<Arc<WaitMark>>,
    /// The settings of the first request.
    pub(super) plan: Arc<Plan>,
    /// Start of the attempt. The first validity counts from it.
    pub(super) started: Timestamp,
    /// Number of jumps of servers' clocks before it.
    pub(super) first_epoch: u64,
    /// The first proposed token.
    pub(super) proposal: u64,
    /// Number of tokens that the lease reserves.
    pub(super) block: u64,
    /// The newest grant's token, which is sent to the nodes.
    pub(super) token: AtomicU64,
    /// What other processes want of it, and whether it lingers.
    pub(super) others: OtherRequests,
    state: Mutex<LeaseState>,
}

pub(super) struct LeaseState {
    /// The algorithm.
    pub(super) lease: Lease,
    pub(super) outbox: Outbox,
    pub(super) timer: Option<TimerKey>,
    /// Time of the first grant.
    pub(super) granted: Option<Timestamp>,
    /// Number of jumps of servers' clocks that the lease knows of.
    pub(super) epoch: u64,
    pub(super) turn: LeaseTurn,
    /// The permit of the attempt, while it is in flight.
    pub(super) permit: Option<Permit>,
    pub(super) grants: Grants,
}

/// The commands that are not sent yet.
#[derive(Default)]
pub(super) struct Outbox {
    commands: Vec<(usize, LeaseCommand)>,
    /// Whether a thread is sending: only one does, so that commands to a node stay in order.
    is_sending: bool,
}

/// The turn of a lease in the local line.
///
/// ```text
/// Attempting ──► Announcing ──► Announced ──► Ended
///     └───────────────┴──────────────────────►
/// ```
pub(super) enum LeaseTurn {
    /// The attempt is not decided.
    Attempting(Ticket),
    /// A thread reports the decision to the line. It has the ticket.
    Announcing,
    /// The line knows the decision.
    Announced(Ticket),
    /// It ended at a loss or after the last holder's release, or the request of a failed attempt has it.
    Ended,
}

/// The grant of a lease at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PresentGrant {
    pub(crate) token: FencingToken,
    /// Remaining validity; zero if it is lost.
    pub(crate) remaining: Duration,
}

impl Outbox {
    pub(super) fn push(&mut self, node: usize, command: LeaseCommand) {
        self.commands.push((node, command));
    }

    pub(super) fn is_sending(&self) -> bool {
        self.is_sending
    }

    /// Records that this thread is sending from now on.
    pub(super) fn begin_sending(&mut self) {
        assert!(!self.is_sending, "one thread sends");
        self.is_sending = true;
    }

    /// Returns the commands to send next. Without any, records that no thread is sending.
    pub(super) fn take(&mut self) -> Option<Vec<(usize, LeaseCommand)>> {
        assert!(self.is_sending, "the thread that is sending takes them");
        self.is_sending = !self.commands.is_empty();
        self.is_sending.then(|| std::mem::take(&mut self.commands))
    }
}

impl LeaseTurn {
    /// Returns the ticket, and ends the turn. While the decision is reported there is none: the thread that
    /// reports it ends the turn.
    pub(super) fn take(&mut self) -> Option<Ticket> {
        match std::mem::replace(self, Self::Ended) {
            Self::Attempting(ticket) | Self::Announced(ticket) => Some(ticket),
            Self::Announcing => {
                *self = Self::Announcing;
                None
            }
            Self::Ended => None,
        }
    }

    /// Returns the ticket, to report the decision to the line; `None` if the turn has ended.
    pub(super) fn begin_announcement(&mut self) -> Option<Ticket> {
        debug_assert!(!matches!(self, Self::Announcing | Self::Announced(_)), "reported once");
        match std::mem::replace(self, Self::Announcing) {
            Self::Attempting(ticket) => Some(ticket),
            Self::Announcing | Self::Announced(_) | Self::Ended => None,
        }
    }

    /// Records that the line knows the decision. Without a ticket the turn has ended.
    pub(super) fn end_announcement(&mut self, ticket: Option<Ticket>) {
        debug_assert!(matches!(self, Self::Announcing), "it was begun");
        *self = ticket.map_or(Self::Ended, Self::Announced);
    }

    /// Returns the ticket, unless the turn has ended or the decision is being reported.
    pub(super) fn ticket(&self) -> Option<&Ticket> {
        match self {
            Self::Attempting(ticket) | Self::Announced(ticket) => Some(ticket),
            Self::Announcing | Self::Ended => None,
        }
    }

    /// Returns the ticket once the line knows the decision, until the turn ends.
    pub(super) fn announced(&self) -> Option<&Ticket> {
        match self {
            Self::Announced(ticket) => Some(ticket),
            Self::Attempting(_) | Self::Announcing | Self::Ended => None,
        }
    }
}

impl LeaseState {
    /// Returns whether the holder has gone and the lease does not linger. Of a shared lease, any grant may
    /// be the current one: all have ended once its release is sent.
    pub(super) fn is_given_back(&self) -> bool {
        let current = &self.grants.current;
        let is_released = self.granted.is_some() && current.has_ended();
        (!current.has_holder() || is_released) && !self.lease.is_lingering()
    }
}

impl LocalLease {
    /// Creates a lease and its first grant. Its first requests are among the actions, not sent yet.
    pub(super) fn new(
        client: Arc<Client>,
        resource: Resource,
        plan: Arc<Plan>,
        ticket: Ticket,
        permit: Permit,
        nonce: Nonce,
        mark: Option<Arc<WaitMark>>,
    ) -> (Arc<Self>, Arc<GrantSignals>, Vec<Action>) {
        if !plan.linger.is_zero() || plan.is_shared() {
            client.remote_requests.subscribe(&client.nodes, &client.settings.owner);
        }
        let epoch = client.clock_jumps.epoch();
        // t0: all later validity counts from here.
        let now = client.clock().now();
        let wall = client.clock().wall();
        let nodes_wall = client.nodes_wall(now, wall);
        let lingers = !plan.linger.is_zero() && !client.remote_requests.is_paused(&resource, now);
        // Only servers have a cheaper form for it.
        let is_free = client.set.is_some()
            && plan.takes_one_token()
            && resource.shared_names().len() == 1
            && resource.slot().is_none()
            && client.busy_names.are_free(&resource, now);
        let propose = || {
            if plan.is_shared() {
                client.fences.propose_shared(&resource, nodes_wall)
            } else {
                let most = if is_free { 1 } else { block_for(lingers.then_some(plan.linger)) };
                client.fences.propose(&resource, nodes_wall, most)
            }
        };
        let proposal = client.settings.fencing.then(propose);
        let (token, block) = proposal.map_or((0, 1), |proposal| (proposal.token, proposal.block));
        let owner = Arc::clone(&client.settings.owner);
        let id =
            LeaseId::new(resource, nonce, owner, wall).lingering(lingers).shared(plan.is_shared());
        let id = if is_free && block == 1 { id.with_single_token(token) } else { id };
        let nodes = client.nodes.len();
        let mut actions = Vec::new();
        let lease = Lease::start(plan.terms(nodes, proposal, nodes_wall), now, &mut actions);
        let id = Arc::new(id);
        let is_marked = !plan.is_shared() && plan.awaits_release();
        let mark = mark.or_else(|| is_marked.then(|| WaitMark::new(&id)));
        let signals = GrantSignals::new(0, &plan, now, None);
        let this = Arc::new(Self {
            client,
            id,
            mark,
            plan,
            started: now,
            first_epoch: epoch,
            proposal: token,
            block,
            token: AtomicU64::new(token),
            others: OtherRequests::new(now),
            state: Mutex::new(LeaseState {
                lease,
                outbox: Outbox::default(),
                timer: None,
                granted: None,
                epoch,
                turn: LeaseTurn::Attempting(ticket),
                permit: Some(permit),
                grants: Grants::new(Grant::undecided(Arc::clone(&signals))),
            }),
        });
        (this, signals, actions)
    }

    /// Creates the shared lease that this exclusive one becomes at `now`, with its first grant.
    pub(super) fn continued(
        &self,
        lease: Lease,
        plan: &Arc<Plan>,
        epoch: u64,
        ticket: Ticket,
        signals: &Arc<GrantSignals>,
        now: Timestamp,
    ) -> Arc<Self> {
        let (resource, owner) = (self.resource().clone(), Arc::clone(self.id.owner()));
        let id = LeaseId::new(resource, self.id.nonce(), owner, self.id.since()).shared(true);
        let mut grants = Grants::new(Grant::held(Arc::clone(signals), now));
        grants.begin_hold(signals);
        let token = signals.token();
        Arc::new(Self {
            client: Arc::clone(&self.client),
            id: Arc::new(id),
            mark: None,
            plan: Arc::clone(plan),
            started: self.started,
            first_epoch: self.first_epoch,
            proposal: token,
            block: 1,
            token: AtomicU64::new(token),
            others: OtherRequests::new(now),
            state: Mutex::new(LeaseState {
                lease,
                outbox: Outbox::default(),
                timer: None,
                granted: Some(now),
                epoch,
                turn: LeaseTurn::Attempting(ticket),
                permit: None,
                grants,
            }),
        })
    }

    /// Returns the present grant, if it has a holder.
    pub(crate) fn present(&self) -> Option<PresentGrant> {
        let state = self.state();
        let grant = Some(&state.grants.current).filter(|grant| grant.has_holder())?;
        let remaining = grant.signals.remaining(self.client.now());
        Some(PresentGrant { token: FencingToken::new(grant.signals.token()), remaining })
    }

    /// Returns whether other processes may hold the resource as well.
    pub(crate) fn is_shared(&self) -> bool {
        self.id.is_shared()
    }

    pub(crate) fn id(&self) -> &LeaseId {
        &self.id
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.plan.ttl
    }

    pub(super) fn state(&self) -> Guard<'_, LeaseState> {
        crate::sync::lock(&self.state)
    }

    pub(crate) fn resource(&self) -> &Resource {
        self.id.resource()
    }

    /// Returns the time after sending for which a node may still store the key: two node timeouts.
    pub(super) fn max_delay(&self) -> Duration {
        self.plan.node_timeout * 2
    }

    /// Returns the latest vote of each node.
    pub(super) fn votes(&self) -> Votes {
        let votes = self.state().lease.votes();
        self.client.named(votes)
    }

    pub(super) fn refused(&self, refusal: Refusal) -> LockError {
        match refusal {
            Refusal::Held { expires_in, owner, lingers, readers, waiter } => LockError::Held {
                retry_after: None,
                expires_in,
                owner,
                lingers,
                readers,
                waiter: waiter.map(|owner| Box::new(WaitingRequest { owner })),
                slots: Box::default(),
                votes: self.votes(),
            },
            Refusal::NoQuorum { votes } => LockError::NoQuorum { votes: self.client.votes(votes) },
            Refusal::TooSlow { elapsed } => {
                let validity = self.plan.validity;
                LockError::TooSlow { elapsed, validity, votes: self.votes() }
            }
        }
    }

    pub(super) fn lost(&self, loss: Loss, plan: &Plan) -> LossCause {
        match loss {
            Loss::Expired { votes } => LossCause::Expired { votes: self.client.named(votes) },
            Loss::ClockJumped { votes } => {
                LossCause::ClockJumped { votes: self.client.named(votes) }
            }
            Loss::Stolen { owner } => LossCause::Stolen { owner },
            Loss::MaxHold => LossCause::MaxHold { limit: plan.max_hold },
            Loss::Halted(Halt::Stalled) => {
                let limit = plan.stall_limit.or(plan.polled_within).unwrap_or_default();
                LossCause::Stalled { limit }
            }
            Loss::Halted(Halt::NoHeartbeat) => {
                LossCause::NoHeartbeat { limit: plan.heartbeat_within.unwrap_or_default() }
            }
        }
    }

    pub(super) fn handle<'a>(self: &'a Arc<Self>, mut state: Guard<'a, LeaseState>, event: Event) {
        let mut actions = Vec::new();
        let is_answer = matches!(event, Event::Answer { .. });
        let now = if let Event::Answer { op: OpId::Release, .. } = event {
            // The result of this event does not depend on the time.
            self.started
        } else {
            // Read under the mutex, so that the comparison with the deadline is the last step.
            let now = self.client.clock().now();
            self.check_clocks(&mut state, now, &mut actions);
            now
        };
        state.lease.handle(event, now, &mut actions);
        // The thread that is sending sets the timer afterwards.
        if is_answer && actions.is_empty() && state.outbox.is_sending() {
            return;
        }
        self.carry_out(state, actions, now);
    }

    /// P2: returns when a grant ends: earlier than the validity by the lead of timers, so that its
    /// work is dropped before the end of the validity.
    pub(super) fn stop_at(state: &LeaseState, lead: Duration) -> Timestamp {
        let plan = &state.grants.current.signals.plan;
        state.lease.end().saturating_sub(plan.cap_lead(lead))
    }

    /// R10: handles jumps of servers' clocks.
    fn check_clocks(&self, state: &mut LeaseState, now: Timestamp, actions: &mut Vec<Action>) {
        if state.epoch != self.client.clock_jumps.epoch() {
            let (jumps, epoch) = self.client.clock_jumps.jumps_since(state.epoch);
            state.epoch = epoch;
            for (node, ClockJump { seen, by_micros, at_most }) in jumps {
                let event = Event::Unsound { node, seen, by_micros, at_most };
                state.lease.handle(event, now, actions);
            }
        }
    }

    /// Records the fences that an answer reports.
    fn learn(&self, op: OpId, answer: &Answer) {
        let (clock, fences) = (self.client.clock(), &self.client.fences);
        let wall = || self.client.nodes_wall(clock.now(), clock.wall());
        fences.see(self.resource(), answer.fence(), wall);
        let token = match (op, answer) {
            (OpId::Acquire, Answer::Granted(GrantedAnswer { accepted: true, .. })) => self.proposal,
            (OpId::Raise(round), Answer::Raised(RaisedAnswer { accepted: true, .. })) => {
                self.state().lease.number(round)
            }
            _ => return,
        };
        fences.accepted(self.resource(), block_end(token, self.block));
    }

    fn answered(self: &Arc<Self>, op: OpId, event: Event) {
        self.handle(self.state(), event);
        // Counted until the decision whether the release must be repeated.
        if op == OpId::Release {
            self.client.releasing.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

opaque_debug!(LocalLease);

impl ReplySink for LocalLease {
    fn answer(
        self: Arc<Self>,
        node: usize,
        op: OpId,
        result: Result<Answer, Reason>,
        view: Option<Arc<View>>,
    ) {
        if let (OpId::Acquire, Some(mark)) = (op, &self.mark) {
            mark.attempted(&self.client, node, &result);
        }
        if let Ok(answer) = &result {
            if matches!(answer, Answer::Held(_)) {
                self.client.busy_names.note(self.resource(), self.client.clock().now());
            }
            self.learn(op, answer);
            if let (true, OpId::Extend(started), Answer::Extended(extended)) =
                (self.id.is_shared(), op, answer)
            {
                self.renewed_beside_waiter(started, extended.awaited);
            }
            // Releases of failed attempts do not count for the turns of processes.
            if let Answer::Released(ReleasedAnswer { awaited, .. }) = answer
                && self.client.wakeups.tracks_release(*awaited)
                && self.state().granted.is_some()
            {
                let wakeups = &self.client.wakeups;
                // The one who listens for a slot may be this process.
                let awaited = *awaited
                    && (!self.id.is_always_awaited() || wakeups.others_listen(self.resource()));
                wakeups.returned(self.resource(), awaited, self.started);
            }
        }
        self.answered(op, Event::Answer { node, op, result, view });
    }

    fn not_sent(self: Arc<Self>, node: usize, op: OpId, reason: Reason) {
        self.answered(op, Event::NotSent { node, op, reason });
    }
}

impl Wake for LocalLease {
    fn wake(self: Arc<Self>) {
        let mut state = self.state();
        state.timer = None;
        let mut is_over = false;
        if self.id.is_shared() {
            (state, is_over) = self.end_own_holds(state);
        }
        let stop_at = Self::stop_at(&state, self.client.timers.lead());
        is_over |= state.grants.is_held() && self.client.clock().now() >= stop_at;
        self.handle(state, if is_over { Event::Stop } else { Event::Wake });
        self.readmit();
    }
}

#[cfg(all(test, feature = "testing"))]
#[path = "../tests/lease.rs"]
mod tests;
