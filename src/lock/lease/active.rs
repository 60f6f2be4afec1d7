use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    error::{LockError, LossCause, ReleaseError},
    lock::{
        Jump, core::Core, queue::Ticket, release::Released, settings::Plan, watchers::Watchers,
    },
    metrics,
    node::{LeaseId, Nonce},
    quorum::{Action, Command, Event, Lease},
    resource::Resource,
    time::{Sleep, TimerKey, Timers, Timestamp},
    token::FencingToken,
};

/// One attempt and what follows from it, as the rest of the crate sees it.
///
/// Answers of nodes are taken wherever they arrive; no task belongs to a lease.
pub(crate) struct ActiveLease {
    pub(super) core: Arc<Core>,
    pub(super) id: Arc<LeaseId>,
    pub(super) plan: Plan,
    pub(super) started: Timestamp,
    pub(super) token: AtomicU64,
    /// How many tokens the lease reserves.
    pub(super) block: u64,
    /// The end of the lease in ns while it is held, else 0: what every poll of guarded work reads.
    pub(super) valid_until: AtomicU64,
    /// Under the strict clock guard: the end by the wall clock, in µs since the Unix epoch.
    pub(super) wall_until: AtomicU64,
    /// How often a poll of guarded work has begun or ended: odd while one is under way.
    polls: AtomicU64,
    /// A poll went on after the end of the lease.
    overran: AtomicBool,
    /// How often the work has given a sign of life.
    pub(super) beats: AtomicU64,
    /// Guarded work is to come to an end, though the lock is valid. Written with the state locked.
    pub(super) asked_to_stop: AtomicBool,
    pub(super) state: Mutex<State>,
}

pub(super) struct State {
    pub(super) lease: Lease,
    /// Commands that are decided and not yet sent.
    pub(super) outbox: VecDeque<(usize, Command)>,
    /// Somebody is sending from the outbox: commands to a node never overtake each other.
    pub(super) sending: bool,
    pub(super) timer: Option<TimerKey>,
    /// How many jumps of servers' clocks the lease knows of.
    pub(super) epoch: u64,
    /// Under the strict clock guard: what the wall clock showed at the start of the latest rounds.
    pub(super) rounds: VecDeque<(Timestamp, Duration)>,
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
    /// The turn in the local line; passed on at loss, or behind the holder's release.
    pub(super) ticket: Option<Ticket>,
    /// When it was granted, until the holder gives it back.
    pub(super) held_since: Option<Timestamp>,
    pub(super) holder_gone: bool,
    /// The release is decided.
    pub(super) over: bool,
    /// An empty list to be used again.
    pub(super) spare: Vec<Action>,
}

impl State {
    /// Lost, or given back.
    pub(super) fn is_over(&self) -> bool {
        self.over || self.loss.is_some()
    }
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
        let epoch = core.soundness.epoch();
        let mut actions = Vec::with_capacity(nodes);
        // t0: everything that is valid later counts from here.
        let now = core.clock().now();
        let lease = Lease::start(plan.terms(nodes, proposal), now, &mut actions);
        let strict = core.settings.clock_guard.is_some();
        let rounds = strict.then_some((now, wall)).into_iter().collect();
        let this = Arc::new(Self {
            core,
            id: Arc::new(id),
            plan,
            started: now,
            token: AtomicU64::new(token),
            block,
            valid_until: AtomicU64::new(0),
            wall_until: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            overran: AtomicBool::new(false),
            beats: AtomicU64::new(0),
            asked_to_stop: AtomicBool::new(false),
            state: Mutex::new(State {
                lease,
                outbox: VecDeque::with_capacity(nodes),
                sending: false,
                timer: None,
                epoch,
                rounds,
                decision: None,
                loss: None,
                extension: None,
                released: None,
                watchers: Watchers::default(),
                renewals: 0,
                renewal_watchers: Watchers::default(),
                stall_timer: None,
                ticket: Some(ticket),
                held_since: None,
                holder_gone: false,
                over: false,
                spare: Vec::new(),
            }),
        });
        let state = this.state();
        this.carry_out(state, actions);
        Ok(this)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        crate::sync::lock(&self.state)
    }

    pub(super) fn handle(self: &Arc<Self>, event: Event) {
        let mut state = self.state();
        let mut actions = std::mem::take(&mut state.spare);
        // Read behind the mutex, as late as can be: the algorithm's comparison with now is the last word.
        let now = self.core.clock().now();
        self.look_at_clocks(&mut state, now, &mut actions);
        state.lease.handle(event, now, &mut actions);
        self.carry_out(state, actions);
    }

    /// R10: a server's clock may have jumped, or, under the strict guard, our own.
    fn look_at_clocks(&self, state: &mut State, now: Timestamp, actions: &mut Vec<Action>) {
        let epoch = self.core.soundness.epoch();
        if state.epoch != epoch {
            state.epoch = epoch;
            let jumps = self.core.soundness.jumps(self.started, self.plan.slack);
            for (node, Jump { seen, by_micros, .. }) in jumps {
                let event = Event::Unsound { node, seen, by_micros };
                state.lease.handle(event, now, actions);
            }
        }
        if self.valid_until() > Timestamp::ZERO && !self.is_valid_by_wall() {
            state.lease.handle(Event::Expired, now, actions);
        }
    }

    fn is_valid_by_wall(&self) -> bool {
        if self.core.settings.clock_guard.is_none() {
            return true;
        }
        let wall = self.core.clock().wall().as_micros();
        wall < u128::from(self.wall_until.load(Ordering::Acquire))
    }

    pub(crate) fn resource(&self) -> &Resource {
        self.id.resource()
    }

    pub(crate) const fn id(&self) -> &Arc<LeaseId> {
        &self.id
    }

    pub(crate) const fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn token(&self) -> FencingToken {
        FencingToken::new(self.token.load(Ordering::Acquire))
    }

    /// The end of the lease, or [`Timestamp::ZERO`] when it is not held. Behind the mark of a poll, in
    /// one order for all threads: whoever sets the end to zero sees the mark, or the poll the zero.
    pub(crate) fn valid_until(&self) -> Timestamp {
        Timestamp::from_nanos(self.valid_until.load(Ordering::SeqCst))
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.valid_until().since(self.core.clock().now())
    }

    /// P2: the clock is read here, immediately before every poll of guarded work.
    pub(crate) fn is_valid(&self) -> bool {
        self.core.clock().now() < self.valid_until() && self.is_valid_by_wall()
    }

    /// When guarded work is asked to stop, unless a renewal comes before; `None` once it is lost.
    pub(crate) fn soft_deadline(&self) -> Option<Timestamp> {
        let end = self.valid_until();
        (end > Timestamp::ZERO).then(|| end.minus(self.plan.stop_margin))
    }

    pub(crate) fn sleep_until(&self, at: Timestamp) -> Sleep {
        self.core.timers.sleep_until(at)
    }

    pub(crate) fn timers(&self) -> &Arc<Timers> {
        &self.core.timers
    }

    /// Marks that guarded work is polled, until the mark is dropped. Set before the clock is
    /// looked at: so a poll that began in time is seen by whoever looks after the end.
    pub(crate) fn enter_poll(&self) -> InPoll<'_> {
        self.polls.fetch_add(1, Ordering::SeqCst);
        InPoll { lease: self, steps: 1 }
    }

    /// Which poll is under way, if one is, and whether its work is: else it has not looked at the
    /// clock yet.
    pub(crate) fn poll_under_way(&self) -> Option<(u64, bool)> {
        let steps = self.polls.load(Ordering::SeqCst);
        let (poll, step) = (steps / STEPS, steps % STEPS);
        (step > 0).then_some((poll, step > 1))
    }

    /// A poll went on after the end: found out when it has ended, or while it goes on.
    pub(crate) fn note_overrun(&self) {
        if !self.overran.swap(true, Ordering::Relaxed) {
            metrics::overrun();
        }
    }

    #[cfg(test)]
    pub(crate) fn has_overrun(&self) -> bool {
        self.overran.load(Ordering::Relaxed)
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
        let now = self.core.clock().now();
        if let Some(since) = state.held_since.take() {
            metrics::held(now.since(since));
        }
        state.lease.handle(Event::Release { awaited }, now, &mut actions);
        self.valid_until.store(0, Ordering::Release);
        self.carry_out(state, actions);
    }

    pub(crate) fn extend(self: &Arc<Self>) {
        self.state().extension = None;
        self.handle(Event::Extend);
    }
}

/// Guarded work is inside a poll, or was left by a panic.
pub(crate) struct InPoll<'a> {
    lease: &'a ActiveLease,
    steps: u64,
}

/// A poll is entered, begins if the clock allows it, and ends.
const STEPS: u64 = 3;

impl InPoll<'_> {
    /// The clock was looked at: the work is polled now.
    pub(crate) fn begin(&mut self) {
        self.steps += 1;
        self.lease.polls.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for InPoll<'_> {
    fn drop(&mut self) {
        self.lease.polls.fetch_add(STEPS - self.steps, Ordering::SeqCst);
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
