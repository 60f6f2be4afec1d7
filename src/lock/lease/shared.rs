use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::active::ActiveLease;
use crate::{
    error::{LockError, LossCause, ReleaseError},
    lock::{
        attempts::Permit, core::Core, queue::Ticket, release::Released, settings::Plan,
        watchers::Watchers,
    },
    node::ClockJump,
    protocol::{Answer, GrantedAnswer, LeaseId, Nonce, OpId, RaisedAnswer},
    quorum::{Action, Command, Event, Lease},
    resource::Resource,
    sync::Guard,
    time::{TimerKey, Timestamp},
    token::block_end,
};

/// A lease as the nodes know it: what all grants have in common that follow each other under it.
///
/// Answers of nodes are taken wherever they arrive; no task belongs to a lease.
pub(super) struct SharedLease {
    pub(super) core: Arc<Core>,
    pub(super) id: Arc<LeaseId>,
    pub(super) ttl: Duration,
    pub(super) validity: Duration,
    pub(super) node_timeout: Duration,
    /// What all validity counts from at first.
    pub(super) started: Timestamp,
    /// How many jumps of servers' clocks there had been then.
    pub(super) first_epoch: u64,
    /// The token that was proposed.
    proposal: u64,
    /// How many tokens the lease reserves.
    pub(super) block: u64,
    /// Whether there is a next try where this one is refused.
    pub(super) waits: bool,
    /// The newest grant's: what goes to the nodes.
    pub(super) token: AtomicU64,
    /// Under the strict clock guard: the end by the wall clock, in µs since the Unix epoch.
    pub(super) wall_until: AtomicU64,
    pub(super) state: Mutex<State>,
}

pub(super) struct State {
    pub(super) lease: Lease,
    /// Commands that are decided and not yet sent.
    pub(super) outbox: Vec<(usize, Command)>,
    /// Somebody is sending from the outbox: commands to a node never overtake each other.
    pub(super) sending: bool,
    pub(super) timer: Option<TimerKey>,
    /// The first decision is known to the local line.
    pub(super) announced: bool,
    /// When the first grant was made.
    pub(super) granted: Option<Timestamp>,
    /// How many jumps of servers' clocks the lease knows of.
    epoch: u64,
    /// Under the strict clock guard: what the wall clock showed at the start of the latest rounds.
    pub(super) rounds: VecDeque<(Timestamp, Duration)>,
    /// The turn in the local line; passed on at loss, or behind the last holder's release.
    pub(super) ticket: Option<Ticket>,
    /// As long as the attempt is under way.
    pub(super) permit: Option<Permit>,
    pub(super) grant: Grant,
    /// An empty list to be used again.
    pub(super) spare: Vec<Action>,
}

/// The present grant, or the attempt at one.
pub(super) struct Grant {
    /// How many there were before it: earlier ones are over, and were given back.
    pub(super) nth: u32,
    pub(super) plan: Plan,
    /// What its holder has of it.
    pub(super) lease: Weak<ActiveLease>,
    pub(super) decision: Option<Result<(), LockError>>,
    pub(super) loss: Option<LossCause>,
    /// The result of the last extension that was asked for.
    pub(super) extension: Option<Result<(), LockError>>,
    pub(super) released: Option<Result<Released, ReleaseError>>,
    pub(super) watchers: Watchers,
    /// How often the lease was renewed, and who wants to know: never the work itself.
    pub(super) renewals: u64,
    pub(super) renewal_watchers: Watchers,
    /// The next look at the work's health.
    pub(super) stall_timer: Option<TimerKey>,
    /// When it was granted, until the holder gives it back.
    pub(super) held_since: Option<Timestamp>,
    pub(super) holder_gone: bool,
    /// The release is decided.
    pub(super) over: bool,
}

impl Grant {
    pub(super) fn new(nth: u32, plan: Plan) -> Self {
        Self {
            nth,
            plan,
            lease: Weak::new(),
            decision: None,
            loss: None,
            extension: None,
            released: None,
            watchers: Watchers::default(),
            renewals: 0,
            renewal_watchers: Watchers::default(),
            stall_timer: None,
            held_since: None,
            holder_gone: false,
            over: false,
        }
    }

    /// Granted, and not over.
    pub(super) fn is_held(&self) -> bool {
        self.held_since.is_some() && !self.is_over()
    }

    /// Lost, or given back.
    pub(super) fn is_over(&self) -> bool {
        self.over || self.loss.is_some()
    }
}

impl SharedLease {
    /// A lease whose first requests are among the actions, and not sent yet.
    pub(super) fn new(
        core: Arc<Core>,
        resource: Resource,
        plan: Plan,
        (ticket, permit): (Ticket, Permit),
    ) -> Result<(Arc<Self>, Vec<Action>), LockError> {
        let nonce =
            Nonce::random().map_err(|error| LockError::NoRandomness(error.to_string().into()))?;
        let epoch = core.clock_jumps.epoch();
        // t0: everything that is valid later counts from here.
        let now = core.clock().now();
        let wall = core.clock().wall();
        let propose = || core.fences.propose(&resource, core.nodes_wall(now, wall));
        let proposal = core.settings.fencing.then(propose);
        let (token, block) = proposal.map_or((0, 1), |proposal| (proposal.token, proposal.block));
        let id = LeaseId::new(resource, nonce, Arc::clone(&core.settings.owner), wall);
        let nodes = core.nodes.len();
        let mut actions = Vec::with_capacity(nodes);
        let lease = Lease::start(plan.terms(nodes, proposal), now, &mut actions);
        let strict = core.settings.clock_guard.is_some();
        let rounds = strict.then_some((now, wall)).into_iter().collect();
        let this = Arc::new(Self {
            core,
            id: Arc::new(id),
            ttl: plan.ttl,
            validity: plan.validity,
            node_timeout: plan.node_timeout,
            started: now,
            first_epoch: epoch,
            proposal: token,
            block,
            waits: plan.awaits_release(),
            token: AtomicU64::new(token),
            wall_until: AtomicU64::new(0),
            state: Mutex::new(State {
                lease,
                outbox: Vec::with_capacity(nodes),
                sending: false,
                timer: None,
                announced: false,
                granted: None,
                epoch,
                rounds,
                ticket: Some(ticket),
                permit: Some(permit),
                grant: Grant::new(0, plan),
                spare: Vec::new(),
            }),
        });
        Ok((this, actions))
    }

    pub(super) fn state(&self) -> Guard<'_, State> {
        crate::sync::lock(&self.state)
    }

    pub(super) fn resource(&self) -> &Resource {
        self.id.resource()
    }

    /// Takes what an answer says of the fences of the stripes.
    pub(super) fn learn(&self, op: OpId, answer: &Answer) {
        let (clock, fences) = (self.core.clock(), &self.core.fences);
        let wall = || self.core.nodes_wall(clock.now(), clock.wall());
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

    pub(super) fn handle<'a>(self: &'a Arc<Self>, mut state: Guard<'a, State>, event: Event) {
        let mut actions = std::mem::take(&mut state.spare);
        let now = if let Event::Answer { op: OpId::Release, .. } = event {
            // Nothing about it depends on the time.
            self.started
        } else {
            // Read behind the mutex, as late as can be: the comparison with now is the last word.
            let now = self.core.clock().now();
            self.look_at_clocks(&mut state, now, &mut actions);
            now
        };
        state.lease.handle(event, now, &mut actions);
        self.carry_out(state, actions, now);
    }

    /// P2: when a grant is to be over, for its work to be dropped before the end of its validity:
    /// earlier by the lead that timers need.
    pub(super) fn stop_at(state: &State, lead: Duration) -> Timestamp {
        state.lease.end().saturating_sub(state.grant.plan.cap_lead(lead))
    }

    /// R10: a server's clock may have jumped, or, under the strict guard, our own.
    fn look_at_clocks(&self, state: &mut State, now: Timestamp, actions: &mut Vec<Action>) {
        if state.epoch != self.core.clock_jumps.epoch() {
            let (jumps, epoch) = self.core.clock_jumps.jumps_since(state.epoch);
            state.epoch = epoch;
            for (node, ClockJump { seen, by_micros, at_most }) in jumps {
                let event = Event::Unsound { node, seen, by_micros, at_most };
                state.lease.handle(event, now, actions);
            }
        }
        if state.grant.is_held() && !self.is_valid_by_wall() {
            state.lease.handle(Event::Expired, now, actions);
        }
    }

    pub(super) fn is_valid_by_wall(&self) -> bool {
        self.is_valid_by_wall_for(Duration::ZERO)
    }

    /// Whether the validity by the wall clock lasts for so long.
    pub(super) fn is_valid_by_wall_for(&self, time: Duration) -> bool {
        if self.core.settings.clock_guard.is_none() {
            return true;
        }
        let wall = (self.core.clock().wall() + time).as_micros();
        wall < u128::from(self.wall_until.load(Ordering::Acquire))
    }
}
