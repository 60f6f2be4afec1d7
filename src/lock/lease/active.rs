use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use super::shared::{SharedLease, State};
use crate::{
    error::{LockError, LossCause},
    lock::{attempts::Permit, core::Core, queue::Ticket, quota::Charge, settings::Plan},
    metrics,
    protocol::LeaseId,
    quorum::{Event, HandOff},
    resource::Resource,
    sync::Guard,
    time::{Sleep, Timers, Timestamp},
    token::FencingToken,
};

/// One grant, or the attempt at one, as the rest of the crate sees it.
///
/// It may be the first under its lease, or have been handed on by another holder of this process;
/// to its own holder there is no difference.
pub(crate) struct ActiveLease {
    pub(super) shared: Arc<SharedLease>,
    /// How many grants there were under the lease before this one.
    pub(super) nth: u32,
    pub(super) plan: Plan,
    started: Timestamp,
    pub(super) token: AtomicU64,
    /// The end of the lease in ns while it is held, else 0: what every poll of guarded work reads.
    pub(super) valid_until: AtomicU64,
    /// Once the lease is lost: the end of its validity in ns, which may be still to come.
    pub(super) ended: AtomicU64,
    /// How often a poll of guarded work has begun or ended: odd while one is under way.
    polls: AtomicU64,
    /// A poll went on after the end of the lease.
    overran: AtomicBool,
    /// How often the work has given a sign of life.
    pub(super) beats: AtomicU64,
    /// The work is not expected to give signs of life at present.
    pub(super) is_resting: AtomicBool,
    /// The work is not expected to be polled at present: it blocks a thread.
    pub(super) blocks: AtomicBool,
    /// Guarded work is to come to an end, though the lock is valid. Written with the state locked.
    pub(super) asked_to_stop: AtomicBool,
    /// What its record takes of the manager's quota, if it has one: such a lease is never handed on.
    charge: OnceLock<Box<Charge>>,
}

impl ActiveLease {
    /// Sends the first requests.
    pub(crate) fn start(
        core: Arc<Core>,
        resource: Resource,
        plan: Plan,
        (ticket, permit): (Ticket, Permit),
    ) -> Result<Arc<Self>, LockError> {
        let (shared, actions) = SharedLease::new(core, resource, plan, (ticket, permit))?;
        let this = Self::new(&shared, 0, plan, shared.started, None);
        let mut state = shared.state();
        state.grant.lease = Arc::downgrade(&this);
        shared.carry_out(state, actions, shared.started);
        Ok(this)
    }

    pub(super) fn new(
        shared: &Arc<SharedLease>,
        nth: u32,
        plan: Plan,
        started: Timestamp,
        hand_off: Option<HandOff>,
    ) -> Arc<Self> {
        let until = hand_off.map_or(0, |hand_off| hand_off.until.as_nanos());
        Arc::new(Self {
            shared: Arc::clone(shared),
            nth,
            plan,
            started,
            token: AtomicU64::new(hand_off.map_or(0, |hand_off| hand_off.token)),
            valid_until: AtomicU64::new(until),
            ended: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            overran: AtomicBool::new(false),
            beats: AtomicU64::new(0),
            is_resting: AtomicBool::new(false),
            blocks: AtomicBool::new(false),
            asked_to_stop: AtomicBool::new(false),
            charge: OnceLock::new(),
        })
    }

    /// The state, as long as this is the present grant. After that it was given back, and is over.
    pub(super) fn state(&self) -> Option<Guard<'_, State>> {
        let state = self.shared.state();
        (state.grant.nth == self.nth).then_some(state)
    }

    pub(super) fn handle(&self, event: Event) {
        if let Some(state) = self.state() {
            self.shared.handle(state, event);
        }
    }

    /// When it was asked for, or handed on.
    pub(crate) fn started(&self) -> Timestamp {
        self.started
    }

    /// How long its request was to wait for it.
    pub(crate) const fn wait(&self) -> Duration {
        self.plan.wait
    }

    pub(crate) fn resource(&self) -> &Resource {
        self.shared.resource()
    }

    pub(crate) fn id(&self) -> &Arc<LeaseId> {
        &self.shared.id
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.shared.core
    }

    /// Whether it belongs to the process that this one is a fork of.
    pub(crate) fn is_forked(&self) -> bool {
        let core = self.core();
        core.is_forked_at(core.clock().now())
    }

    /// How long after sending a node may still do what it was sent.
    pub(crate) fn patience(&self) -> Duration {
        self.shared.patience()
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
        self.valid_until().saturating_duration_since(self.timers().clock().now())
    }

    /// P2: the clock is read here, immediately before every poll of guarded work.
    pub(crate) fn is_valid(&self) -> bool {
        self.timers().clock().now() < self.valid_until() && self.shared.is_valid_by_wall()
    }

    /// Whether the validity is over. A hard stop that came earlier leaves it as it was.
    pub(crate) fn is_past_end(&self) -> bool {
        let until = self.valid_until();
        let end = if until > Timestamp::ZERO {
            until
        } else {
            Timestamp::from_nanos(self.ended.load(Ordering::SeqCst))
        };
        self.timers().clock().now() >= end || !self.shared.is_valid_by_wall()
    }

    /// When nothing of this grant goes on any more: it is not renewed beyond `max_hold`, and what it
    /// had recorded is answered.
    #[cfg(feature = "http")]
    pub(crate) fn over_at(&self) -> Timestamp {
        self.started + self.plan.max_hold + self.core().settings.max_ttl
    }

    /// When guarded work is asked to stop, unless a renewal comes before; `None` once it is lost.
    pub(crate) fn soft_deadline(&self) -> Option<Timestamp> {
        let end = self.valid_until();
        let lead = self.plan.cap_lead(self.timers().lead());
        (end > Timestamp::ZERO).then(|| end.saturating_sub(lead + self.plan.stop_margin))
    }

    pub(crate) fn sleep_until(&self, at: Timestamp) -> Sleep {
        self.timers().sleep_until(at)
    }

    pub(crate) fn timers(&self) -> &Arc<Timers> {
        &self.shared.core.timers
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

    /// Whether no guarded work was polled under it, nor made.
    pub(crate) fn is_untaken(&self) -> bool {
        self.polls.load(Ordering::SeqCst) == 0
    }

    /// Changes with every poll of guarded work.
    pub(crate) fn polls(&self) -> u64 {
        self.polls.load(Ordering::SeqCst) / STEPS
    }

    /// Whether the end of the validity is that of `max_hold`, which no renewal moves.
    #[cfg(feature = "scheduler")]
    pub(crate) fn is_in_last_validity(&self) -> bool {
        let until = self.valid_until().as_nanos().max(self.ended.load(Ordering::SeqCst));
        Timestamp::from_nanos(until) >= self.started + self.plan.max_hold
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
        let elapsed = self.timers().clock().now().saturating_duration_since(self.started);
        LockError::TooSlow { elapsed, validity: self.plan.validity, votes: self.shared.votes() }
    }

    /// Why the lock is not held. Asked when [`is_valid`](Self::is_valid) said no; the algorithm is
    /// told first, if the timer has not come round to it.
    pub(crate) fn loss(&self) -> LossCause {
        self.handle(Event::Wake);
        let loss = self.state().and_then(|state| state.grant.loss.clone());
        loss.unwrap_or(LossCause::Released)
    }

    /// How many nodes granted, of how many.
    pub(crate) fn tally(&self) -> (usize, usize) {
        (self.shared.state().lease.granted(), self.shared.core.nodes.len())
    }

    /// Whether the attempt was refused by the one node that it asked first.
    pub(crate) fn refused_by_lead(&self) -> bool {
        self.shared.state().lease.refused_by_lead()
    }

    /// What its record takes of the manager's quota.
    pub(crate) fn charge(&self) -> &Charge {
        self.charge.get_or_init(|| Box::new(Charge::new(&self.core().quota)))
    }

    pub(crate) fn extend(&self) {
        if let Some(mut state) = self.state() {
            state.grant.extension = None;
            self.shared.handle(state, Event::Extend);
        }
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
