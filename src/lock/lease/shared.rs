//! The lease that consecutive grants share: its state, and the events that reach it.

use std::{sync::Arc, task::Wake, time::Duration};

use super::{
    grants::{Grant, Grants},
    scratch::{self, Commands},
};
use crate::{
    FencingToken,
    error::{LockError, LossCause, Reason, VoteOutcome, Votes, WaitingRequest},
    events::LockEventKind,
    lock::{
        attempts::Permit, client::Client, fences::block_for, queue::Ticket, settings::Plan,
        wait_mark::WaitMark,
    },
    metrics,
    node::{ClockJump, ReplySink},
    protocol::{
        Answer, GrantedAnswer, LeaseId, Nonce, OpId, RaisedAnswer, ReleasedAnswer, views::View,
    },
    quorum::{Action, Event, Halt, Lease, Loss, Refusal},
    resource::Resource,
    sync::{
        Guard, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{TimerKey, Timestamp},
    token::block_end,
};

/// A lease as the nodes know it, shared by consecutive grants.
///
/// Answers of nodes are handled wherever they arrive; no task belongs to a lease.
pub(crate) struct SharedLease {
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
    /// When another process was last refused the lease, in ns; 0 if none was.
    pub(super) asked_at: AtomicU64,
    /// Until when an exclusive request elsewhere keeps further shared requests out, in ns; 0 if none does.
    pub(super) closed_until: AtomicU64,
    /// Start of the round of renewal that reported such a request, in ns; 0 if none did.
    pub(super) closed_in: AtomicU64,
    /// When the last such request withdrew, in ns.
    pub(super) reopened_at: AtomicU64,
    /// Start of the time in which other processes may have asked for it.
    pub(super) asked_from: Timestamp,
    /// Whether it lingers. Set with the local lines locked.
    pub(super) is_lingering: AtomicBool,
    /// Whether it counts among the leases that linger: from its first linger to its release.
    pub(super) is_counted: AtomicBool,
    state: Mutex<LeaseState>,
}

pub(super) struct LeaseState {
    pub(super) lease: Lease,
    /// Commands that are not sent yet.
    pub(super) outbox: Commands,
    /// Whether a thread is sending the outbox: only one does, so that commands to a node stay in
    /// order.
    pub(super) sending: bool,
    pub(super) timer: Option<TimerKey>,
    /// Whether the first decision was reported to the local line.
    pub(super) announced: bool,
    /// Time of the first grant.
    pub(super) granted: Option<Timestamp>,
    /// Number of jumps of servers' clocks that the lease knows of.
    pub(super) epoch: u64,
    /// The turn in the local line. It ends at a loss, or after the last holder's release.
    pub(super) ticket: Option<Ticket<SharedLease>>,
    /// The permit of the attempt, while it is in flight.
    pub(super) permit: Option<Permit>,
    pub(super) grants: Grants,
}

impl LeaseState {
    /// Creates the state of a lease that has sent nothing, without a turn, before its first grant.
    fn new(lease: Lease, epoch: u64) -> Self {
        Self {
            lease,
            outbox: Commands::new(),
            sending: false,
            timer: None,
            announced: false,
            granted: None,
            epoch,
            ticket: None,
            permit: None,
            grants: Grants::new(Grant::new(0, None)),
        }
    }

    /// Returns whether the holder has gone and the lease does not linger. Of a shared lease, any grant may
    /// be the current one: all are over once its release is sent.
    pub(super) fn is_given_back(&self) -> bool {
        let current = &self.grants.current;
        let is_released = self.granted.is_some() && current.over;
        (current.holder_gone || is_released) && !self.lease.is_lingering()
    }

    /// Returns whether the work of all grants has ended.
    pub(super) fn is_kept(&self) -> bool {
        let mut grants = self.grants.iter();
        grants.all(|grant| grant.lease.upgrade().is_some_and(|lease| lease.is_kept()))
    }
}

/// Minimum lateness that the log mentions.
const LATE: Duration = Duration::from_millis(200);

/// What a loss means for the work under the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossKind {
    /// It is stopped.
    Unexpected,
    /// It is stopped as its settings say.
    Planned,
    /// It had ended before, and the lease was kept until its end is stored.
    AfterWork,
}

/// Changes of a lease that are logged and counted once its state is unlocked.
#[derive(Default)]
pub(super) struct LeaseReport {
    pub(super) renewed: bool,
    pub(super) renewing: bool,
    /// The token, if it is not the one that was proposed at first.
    pub(super) raised: Option<u64>,
    pub(super) lost: Option<(LossCause, LossKind)>,
    /// Time from the end of the validity to the event that showed it.
    pub(super) late: Duration,
    /// Votes of a failed extension and of a failed release. Explaining them asks the nodes.
    pub(super) not_extended: Option<Vec<VoteOutcome>>,
    pub(super) not_released: Option<Vec<VoteOutcome>>,
}

impl LeaseReport {
    pub(super) fn is_empty(&self) -> bool {
        !self.renewed && !self.renewing && self.raised.is_none() && !self.concerns_watchers()
    }

    pub(super) fn concerns_watchers(&self) -> bool {
        self.lost.is_some() || self.not_extended.is_some() || self.not_released.is_some()
    }

    pub(super) fn send(&mut self, client: &Client, id: &LeaseId) {
        let (resource, shared) = (id.resource(), id.is_shared());
        if let Some((LossCause::Expired { votes } | LossCause::ClockJumped { votes }, _)) =
            &mut self.lost
        {
            *votes = client.explained(votes);
        }
        if self.renewed {
            metrics::renewed();
            crate::log::debug!(%resource, "renewed");
        }
        if self.renewing {
            crate::log::debug!(%resource, "renewing");
        }
        if let Some(token) = self.raised {
            client.send_event(|| LockEventKind::FenceRaised {
                resource: resource.clone(),
                shared,
                token: FencingToken::new(token),
            });
        }
        let Some((cause, kind)) = &self.lost else { return };
        if *kind == LossKind::AfterWork {
            // What the lease was kept for reports whether something is lost.
            crate::log::debug!(%resource, %cause, "kept lock ended");
            return;
        }
        metrics::lost(cause);
        client.send_event(|| LockEventKind::Lost {
            resource: resource.clone(),
            shared,
            cause: cause.clone(),
        });
        if *kind == LossKind::Planned {
            crate::log::debug!(%resource, %cause, "lock ended");
            return;
        }
        client.counts.lost();
        if self.late > LATE {
            let late = self.late;
            crate::log::warn!(
                %resource, %cause, ?late,
                "lock lost, and noticed late: this process, or the thread of the manager, did not run"
            );
        } else {
            crate::log::warn!(%resource, %cause, "lock lost");
        }
    }
}

impl SharedLease {
    /// Creates a lease. Its first requests are among the actions, not sent yet.
    pub(super) fn new(
        client: Arc<Client>,
        resource: Resource,
        plan: Arc<Plan>,
        (ticket, permit): (Ticket<Self>, Permit),
        (nonce, mark): (Nonce, Option<Arc<WaitMark>>),
    ) -> (Arc<Self>, Vec<Action>) {
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
        let mut actions = scratch::actions();
        let lease = Lease::start(plan.terms(nodes, proposal, nodes_wall), now, &mut actions);
        let id = Arc::new(id);
        let is_marked = !plan.is_shared() && plan.awaits_release();
        let mark = mark.or_else(|| is_marked.then(|| WaitMark::new(&id)));
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
            asked_at: AtomicU64::new(0),
            closed_until: AtomicU64::new(0),
            closed_in: AtomicU64::new(0),
            reopened_at: AtomicU64::new(0),
            asked_from: now,
            is_lingering: AtomicBool::new(false),
            is_counted: AtomicBool::new(false),
            state: Mutex::new(LeaseState {
                ticket: Some(ticket),
                permit: Some(permit),
                ..LeaseState::new(lease, epoch)
            }),
        });
        (this, actions)
    }

    /// Creates the shared lease that this exclusive one becomes, without a grant.
    pub(super) fn continued(
        &self,
        lease: Lease,
        plan: &Arc<Plan>,
        (token, epoch): (u64, u64),
        now: Timestamp,
    ) -> Arc<Self> {
        let (resource, owner) = (self.resource().clone(), Arc::clone(self.id.owner()));
        let id = LeaseId::new(resource, self.id.nonce(), owner, self.id.since()).shared(true);
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
            asked_at: AtomicU64::new(0),
            closed_until: AtomicU64::new(0),
            closed_in: AtomicU64::new(0),
            reopened_at: AtomicU64::new(0),
            asked_from: now,
            is_lingering: AtomicBool::new(false),
            is_counted: AtomicBool::new(false),
            state: Mutex::new(LeaseState::new(lease, epoch)),
        })
    }

    pub(super) fn state(&self) -> Guard<'_, LeaseState> {
        crate::sync::lock(&self.state)
    }

    pub(crate) fn resource(&self) -> &Resource {
        self.id.resource()
    }

    /// Returns the time after sending for which a node may still store the key: two node timeouts.
    pub(super) fn patience(&self) -> Duration {
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
        let mut actions = scratch::actions();
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
        if is_answer && actions.is_empty() && state.sending {
            return scratch::keep_actions(actions);
        }
        self.carry_out(state, actions, now);
    }

    /// P2: returns when a grant ends: earlier than the validity by the lead of timers, so that its
    /// work is dropped before the end of the validity.
    pub(super) fn stop_at(&self, state: &LeaseState, lead: Duration) -> Timestamp {
        state.lease.end().saturating_sub(state.grants.current.plan(&self.plan).cap_lead(lead))
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

opaque_debug!(SharedLease);

impl ReplySink for SharedLease {
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

impl Wake for SharedLease {
    fn wake(self: Arc<Self>) {
        let mut state = self.state();
        state.timer = None;
        let mut is_over = false;
        if self.id.is_shared() {
            (state, is_over) = self.end_own_holds(state);
        }
        let stop_at = self.stop_at(&state, self.client.timers.lead());
        is_over |= state.grants.is_held() && self.client.clock().now() >= stop_at;
        self.handle(state, if is_over { Event::Stop } else { Event::Wake });
        self.readmit();
    }
}

#[cfg(all(test, feature = "testing"))]
#[path = "../tests/lease.rs"]
mod tests;
