//! One grant, or the attempt at one, as the rest of the crate sees it.

use std::{fmt, sync::Arc, time::Duration};

use super::shared::{LeaseState, SharedLease};
use crate::{
    error::{LockError, LossCause},
    events::LockEventKind,
    lock::{
        attempts::Permit,
        client::Client,
        inside::{self, InsideScope},
        queue::Ticket,
        quota::Charge,
        settings::Plan,
        wait_mark::WaitMark,
    },
    metrics,
    protocol::{LeaseId, Nonce},
    quorum::{Event, HandOff},
    resource::Resource,
    sync::{
        Guard, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Timers, Timestamp},
    token::FencingToken,
};

/// One grant under a lease, or the attempt at one.
///
/// It may be the first under its lease, or handed on by another holder of this process; its own
/// holder sees no difference.
pub(crate) struct ActiveLease {
    pub(super) shared: Arc<SharedLease>,
    /// Number of grants before this one under the lease.
    pub(super) nth: u32,
    /// The settings of its request, unless they are those of the lease's first one.
    pub(super) own_plan: Option<Arc<Plan>>,
    started: Timestamp,
    pub(super) token: AtomicU64,
    /// End of the validity in ns while it is held, else 0. Every poll of guarded work reads it.
    pub(super) valid_until: AtomicU64,
    /// End of the validity in ns after a loss. It may lie ahead.
    pub(super) ended: AtomicU64,
    /// Steps of polls of guarded work so far; see [`PollGuard`].
    polls: AtomicU64,
    /// Whether a poll continued after the end of the validity.
    overran: AtomicBool,
    /// Number of heartbeats.
    pub(super) beats: AtomicU64,
    /// Whether no heartbeats are expected.
    pub(super) is_resting: AtomicBool,
    /// Whether no polls are expected, because the work blocks a thread.
    pub(super) blocks: AtomicBool,
    /// Whether its work has ended, and it is kept until the end is stored.
    is_kept: AtomicBool,
    /// Whether guarded work has to stop although the lock is valid. Written with the state locked.
    pub(super) asked_to_stop: AtomicBool,
    /// The quota of its record, if it has one. A lease with a record is never handed on.
    charge: OnceLock<Box<Charge>>,
}

impl ActiveLease {
    /// Starts an attempt: sends the first requests.
    pub(crate) fn start(
        client: Arc<Client>,
        resource: Resource,
        plan: Arc<Plan>,
        turn: (Ticket<SharedLease>, Permit),
        mark: Option<Arc<WaitMark>>,
    ) -> Result<Arc<Self>, LockError> {
        let nonce =
            client.nonce().map_err(|error| LockError::NoRandomness(error.to_string().into()))?;
        Ok(Self::start_as(client, resource, plan, turn, (nonce, mark)))
    }

    /// Starts an attempt with this nonce.
    pub(super) fn start_as(
        client: Arc<Client>,
        resource: Resource,
        plan: Arc<Plan>,
        turn: (Ticket<SharedLease>, Permit),
        id: (Nonce, Option<Arc<WaitMark>>),
    ) -> Arc<Self> {
        let (shared, actions) = SharedLease::new(client, resource, plan, turn, id);
        let this = Self::new(&shared, 0, &shared.plan, shared.started, None);
        let mut state = shared.state();
        state.grants.current.lease = Arc::downgrade(&this);
        shared.carry_out(state, actions, shared.started);
        this
    }

    pub(super) fn new(
        shared: &Arc<SharedLease>,
        nth: u32,
        plan: &Arc<Plan>,
        started: Timestamp,
        hand_off: Option<HandOff>,
    ) -> Arc<Self> {
        let until = hand_off.map_or(0, |hand_off| hand_off.until.as_nanos());
        Arc::new(Self {
            shared: Arc::clone(shared),
            nth,
            // Cloned only where it has to be: all requests without options of their own share one.
            own_plan: (!Arc::ptr_eq(plan, &shared.plan)).then(|| Arc::clone(plan)),
            started,
            token: AtomicU64::new(hand_off.map_or(0, |hand_off| hand_off.token)),
            valid_until: AtomicU64::new(until),
            ended: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            overran: AtomicBool::new(false),
            beats: AtomicU64::new(0),
            is_resting: AtomicBool::new(false),
            blocks: AtomicBool::new(false),
            is_kept: AtomicBool::new(false),
            asked_to_stop: AtomicBool::new(false),
            charge: OnceLock::new(),
        })
    }

    /// Locks the state while this is the current grant; `None` after a hand-off.
    pub(super) fn state(&self) -> Option<Guard<'_, LeaseState>> {
        let mut state = self.shared.state();
        state.grants.turn_to(self.nth).then_some(state)
    }

    pub(super) fn handle(&self, event: Event) {
        if let Some(state) = self.state() {
            self.shared.handle(state, event);
        }
    }

    /// Returns the settings of its request.
    pub(in crate::lock) fn plan(&self) -> &Plan {
        self.own_plan.as_ref().unwrap_or(&self.shared.plan)
    }

    /// Records that this thread polls work under it, until the scope is dropped.
    pub(crate) fn enter_work(&self) -> InsideScope {
        inside::enter(&self.shared)
    }

    /// Records that its work has ended: a loss stops nothing.
    pub(crate) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }

    /// Records that its work has ended, and that no task polls under it: no polls or heartbeats are expected.
    pub(crate) fn keep_unattended(&self) {
        self.keep();
        self.set_resting(true);
        self.set_blocks(true);
        // One that was never polled counts as one whose task hangs.
        drop(self.enter_poll());
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed)
    }

    /// Returns the start of the attempt or of the hand-off.
    pub(crate) fn started(&self) -> Timestamp {
        self.started
    }

    /// Returns the end of the maximum hold time.
    pub(super) fn own_end(&self) -> Timestamp {
        self.started + self.plan().max_hold
    }

    /// Returns whether others may hold the resource beside it.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.id.is_shared()
    }

    /// Returns the `wait` of its request.
    pub(crate) fn wait(&self) -> Duration {
        self.plan().wait
    }

    pub(crate) fn resource(&self) -> &Resource {
        self.shared.resource()
    }

    pub(crate) fn id(&self) -> &Arc<LeaseId> {
        &self.shared.id
    }

    /// Sends an event to the subscribers. Must not be called under a mutex of the crate.
    pub(crate) fn send_event(&self, kind: impl FnOnce() -> LockEventKind) {
        self.client().send_event(kind);
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.shared.client
    }

    pub(crate) fn timers(&self) -> &Arc<Timers> {
        &self.shared.client.timers
    }

    pub(super) fn now(&self) -> Timestamp {
        self.timers().clock().now()
    }

    /// Returns the time after sending for which an operation may still take effect on a node.
    pub(crate) fn patience(&self) -> Duration {
        self.shared.patience()
    }

    pub(crate) fn token(&self) -> FencingToken {
        FencingToken::new(self.token.load(Ordering::Acquire))
    }

    /// Returns the end of the validity, or [`Timestamp::ZERO`] while the lease is not held.
    ///
    /// Sequentially consistent with the counter of polls: either the thread that sets it to zero
    /// sees a poll under way, or that poll sees the zero.
    pub(crate) fn valid_until(&self) -> Timestamp {
        Timestamp::from_nanos(self.valid_until.load(Ordering::SeqCst))
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.valid_until().saturating_duration_since(self.now())
    }

    /// P2: returns whether the lock is held, by the clock. Called immediately before every poll of
    /// guarded work.
    pub(crate) fn is_valid(&self) -> bool {
        self.now() < self.valid_until()
    }

    /// Returns whether the validity is over. An earlier hard stop does not shorten it.
    pub(crate) fn is_past_end(&self) -> bool {
        let until = self.valid_until();
        let end = if until > Timestamp::ZERO {
            until
        } else {
            Timestamp::from_nanos(self.ended.load(Ordering::SeqCst))
        };
        self.now() >= end
    }

    /// Returns the time by which all of this grant has ended: `max_hold` is over, and the records
    /// of its work are answered.
    #[cfg(feature = "http")]
    pub(crate) fn over_at(&self) -> Timestamp {
        self.started + self.plan().max_hold + self.client().settings.max_ttl
    }

    /// Returns when guarded work has to stop, without another renewal; `None` after a loss.
    pub(crate) fn soft_deadline(&self) -> Option<Timestamp> {
        let end = self.valid_until();
        let lead = self.plan().cap_lead(self.timers().lead());
        (end > Timestamp::ZERO).then(|| end.saturating_sub(lead + self.plan().stop_margin))
    }

    /// Returns whether the validity ends at `max_hold`, so that no renewal extends it.
    #[cfg(feature = "scheduler")]
    pub(crate) fn is_in_last_validity(&self) -> bool {
        let until = self.valid_until().as_nanos().max(self.ended.load(Ordering::SeqCst));
        Timestamp::from_nanos(until) >= self.started + self.plan().max_hold
    }

    /// Enters a poll of guarded work, before the clock is read, so that a thread that checks after
    /// the end sees a poll that began in time.
    pub(crate) fn enter_poll(&self) -> PollGuard<'_> {
        self.polls.fetch_add(1, Ordering::SeqCst);
        PollGuard { lease: self, steps: 1 }
    }

    /// Returns the number of the poll under way, and whether its work has begun: before that, the
    /// poll has not read the clock.
    pub(crate) fn poll_under_way(&self) -> Option<(u64, bool)> {
        let steps = self.polls.load(Ordering::SeqCst);
        let (poll, step) = (steps / STEPS, steps % STEPS);
        (step > 0).then_some((poll, step > 1))
    }

    /// Returns whether no guarded work was polled under it yet.
    pub(crate) fn is_unpolled(&self) -> bool {
        self.polls.load(Ordering::SeqCst) == 0
    }

    /// Returns the number of polls of guarded work that have ended.
    pub(crate) fn polls(&self) -> u64 {
        self.polls.load(Ordering::SeqCst) / STEPS
    }

    /// Counts an overrun, once: a poll that continued after the end of the validity.
    pub(crate) fn note_overrun(&self) {
        if !self.overran.swap(true, Ordering::Relaxed) {
            metrics::overrun();
        }
    }

    #[cfg(test)]
    pub(crate) fn has_overrun(&self) -> bool {
        self.overran.load(Ordering::Relaxed)
    }

    /// Returns the error for a grant that its request received after its validity. No work ran
    /// under it.
    pub(crate) fn too_slow(&self) -> LockError {
        let elapsed = self.now().saturating_duration_since(self.started);
        // A hold that is limited to less than the validity ends earlier.
        let validity = self.plan().validity.min(self.plan().max_hold);
        LockError::TooSlow { elapsed, validity, votes: self.shared.votes() }
    }

    /// Returns why the lock is not [valid](Self::is_valid) any more. Its timer may not have fired
    /// yet, so the algorithm is woken first.
    pub(crate) fn loss(&self) -> LossCause {
        self.handle(Event::Wake);
        let loss = self.state().and_then(|state| state.grants.current.loss.as_deref().cloned());
        loss.unwrap_or(LossCause::Released)
    }

    /// Returns the number of nodes that granted, and of all nodes.
    pub(crate) fn tally(&self) -> (usize, usize) {
        (self.shared.state().lease.granted(), self.shared.client.nodes.len())
    }

    pub(crate) fn refused_by_lead(&self) -> bool {
        self.shared.state().lease.refused_by_lead()
    }

    /// Returns the mark of the exclusive request, if it waits.
    pub(crate) fn wait_mark(&self) -> Option<&Arc<WaitMark>> {
        self.shared.mark.as_ref()
    }

    /// Returns the turn of a failed attempt, for the next attempt.
    pub(crate) fn take_ticket(&self) -> Option<Ticket<SharedLease>> {
        self.state()?.ticket.take()
    }

    pub(crate) fn charge(&self) -> &Charge {
        self.charge.get_or_init(|| Box::new(Charge::new(&self.client().quota)))
    }

    pub(crate) fn extend(&self) {
        if let Some(mut state) = self.state() {
            state.grants.current.extension = None;
            self.shared.handle(state, Event::Extend);
        }
    }

    /// Reserves quota for a stored answer of `bytes`. Returns false if the answer must not be
    /// stored.
    #[cfg(feature = "http")]
    pub(crate) fn admit_answer(&self, bytes: usize) -> bool {
        self.charge().admit(&self.client().nodes, bytes)
    }
}

/// Marks a poll of guarded work; dropping it ends the poll, also in a panic.
pub(crate) struct PollGuard<'a> {
    lease: &'a ActiveLease,
    steps: u64,
}

/// Steps of a poll: entered, begun after the clock was read, ended.
const STEPS: u64 = 3;

impl PollGuard<'_> {
    /// Records that the clock was read, and the work is polled now.
    pub(crate) fn begin(&mut self) {
        self.steps += 1;
        self.lease.polls.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for PollGuard<'_> {
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
