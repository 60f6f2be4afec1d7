//! One grant, or the attempt at one, as the rest of the crate has it.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use super::{
    grants::Grant,
    local::{LeaseState, LocalLease},
    signals::{GrantSignals, PollGuard, STEPS, WorkFlag},
};
use crate::{
    error::{LockError, LossCause, ReleaseError},
    events::LockEventKind,
    lock::{
        attempts::Permit,
        client::Client,
        inside::{self, InsideScope},
        queue::Ticket,
        quota::Charge,
        released::Released,
        settings::Plan,
        wait_mark::WaitMark,
        waker_set::WakerKey,
    },
    protocol::LeaseId,
    quorum::{Event, Halt},
    resource::Resource,
    sync::{Guard, OnceLock},
    time::{Timers, Timestamp},
    token::FencingToken,
};

/// One grant under a lease, or the attempt at one.
///
/// It may be the first under its lease, or handed on by another holder of this process; its own
/// holder sees no difference.
pub(crate) struct ActiveLease {
    pub(super) local: Arc<LocalLease>,
    signals: Arc<GrantSignals>,
    /// The quota of its record, if it has one. A lease with a record is never handed on.
    charge: OnceLock<Box<Charge>>,
}

impl ActiveLease {
    /// Starts an attempt: sends the first requests.
    pub(crate) fn start(
        client: Arc<Client>,
        resource: Resource,
        plan: Arc<Plan>,
        ticket: Ticket,
        permit: Permit,
        mark: Option<Arc<WaitMark>>,
    ) -> Result<Arc<Self>, LockError> {
        let nonce =
            client.nonce().map_err(|error| LockError::NoRandomness(error.to_string().into()))?;
        let (local, signals, actions) =
            LocalLease::new(client, resource, plan, ticket, permit, nonce, mark);
        local.carry_out(local.state(), actions, local.started);
        Ok(Self::of(&local, signals))
    }

    /// Returns a handle of a grant.
    pub(super) fn of(local: &Arc<LocalLease>, signals: Arc<GrantSignals>) -> Arc<Self> {
        Arc::new(Self { local: Arc::clone(local), signals, charge: OnceLock::new() })
    }

    pub(super) fn signals(&self) -> &Arc<GrantSignals> {
        &self.signals
    }

    /// Locks the state while this is the current grant; `None` after a hand-off.
    pub(super) fn state(&self) -> Option<Guard<'_, LeaseState>> {
        let mut state = self.local.state();
        state.grants.turn_to(self.signals.nth).then_some(state)
    }

    pub(super) fn handle(&self, event: Event) {
        if let Some(state) = self.state() {
            self.local.handle(state, event);
        }
    }

    /// Returns the settings of its request.
    pub(in crate::lock) fn plan(&self) -> &Plan {
        &self.signals.plan
    }

    /// Records that this thread polls work under it, until the scope is dropped.
    pub(crate) fn enter_work(&self) -> InsideScope {
        inside::enter(&self.local)
    }

    /// Records that its work has ended: a loss stops nothing.
    pub(crate) fn keep(&self) {
        self.signals.set_flag(WorkFlag::Kept, true);
    }

    /// Records that its work has ended, and that no task polls under it: no polls or heartbeats are expected.
    pub(crate) fn keep_unattended(&self) {
        self.keep();
        self.set_resting(true);
        self.set_blocks(true);
        // One that was never polled counts as one whose task hangs.
        drop(self.enter_poll());
    }

    /// Returns the start of the attempt or of the hand-off.
    pub(crate) fn started(&self) -> Timestamp {
        self.signals.started
    }

    /// Returns whether others may hold the resource beside it.
    pub(crate) fn is_shared(&self) -> bool {
        self.local.id.is_shared()
    }

    /// Returns the `wait` of its request.
    pub(crate) fn wait(&self) -> Duration {
        self.plan().wait
    }

    pub(crate) fn resource(&self) -> &Resource {
        self.local.resource()
    }

    pub(crate) fn id(&self) -> &Arc<LeaseId> {
        &self.local.id
    }

    /// Sends an event to the subscribers. Must not be called under a mutex of the crate.
    pub(crate) fn send_event(&self, kind: impl FnOnce() -> LockEventKind) {
        self.client().send_event(kind);
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.local.client
    }

    pub(crate) fn timers(&self) -> &Arc<Timers> {
        &self.local.client.timers
    }

    pub(super) fn now(&self) -> Timestamp {
        self.timers().clock().now()
    }

    /// Returns the time after sending for which an operation may still take effect on a node.
    pub(crate) fn max_delay(&self) -> Duration {
        self.local.max_delay()
    }

    pub(crate) fn token(&self) -> FencingToken {
        FencingToken::new(self.signals.token())
    }

    /// Returns the end of the validity, or [`Timestamp::ZERO`] while the lease is not held.
    pub(crate) fn valid_until(&self) -> Timestamp {
        self.signals.valid_until()
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
        self.now() >= self.signals.last_end()
    }

    /// Returns the time by which all of this grant has ended: `max_hold` is over, and the records
    /// of its work are answered.
    #[cfg(feature = "http")]
    pub(crate) fn over_at(&self) -> Timestamp {
        self.signals.hold_until + self.client().settings.max_ttl
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
        self.signals.last_end() >= self.signals.hold_until
    }

    /// Enters a poll of guarded work, before the clock is read, so that a thread that checks after
    /// the end sees a poll that began in time.
    pub(crate) fn enter_poll(&self) -> PollGuard<'_> {
        self.signals.enter_poll()
    }

    /// Returns the number of the poll under way, and whether its work has begun: before that, the
    /// poll has not read the clock.
    pub(crate) fn poll_under_way(&self) -> Option<(u64, bool)> {
        self.signals.poll_under_way()
    }

    /// Returns whether no guarded work was polled under it yet.
    pub(crate) fn is_unpolled(&self) -> bool {
        self.signals.poll_steps() == 0
    }

    /// Returns the number of polls of guarded work that have ended.
    pub(crate) fn polls(&self) -> u64 {
        self.signals.poll_steps() / STEPS
    }

    /// Counts an overrun, once: a poll that continued after the end of the validity.
    pub(crate) fn note_overrun(&self) {
        self.signals.note_overrun();
    }

    #[cfg(test)]
    pub(crate) fn has_overrun(&self) -> bool {
        self.signals.has_flag(WorkFlag::Overran)
    }

    /// Returns the error for a grant that its request received after its validity. No work ran
    /// under it.
    pub(crate) fn too_slow(&self) -> LockError {
        let elapsed = self.now().saturating_duration_since(self.started());
        // A hold that is limited to less than the validity ends earlier.
        let validity = self.plan().validity.min(self.plan().max_hold);
        LockError::TooSlow { elapsed, validity, votes: self.local.votes() }
    }

    /// Returns why the lock is not [valid](Self::is_valid) any more. Its timer may not have fired
    /// yet, so the algorithm is woken first.
    pub(crate) fn loss(&self) -> LossCause {
        self.handle(Event::Wake);
        let loss = self.state().and_then(|state| state.grants.current.loss().cloned());
        loss.unwrap_or(LossCause::Released)
    }

    /// Returns the number of nodes that granted, and of all nodes.
    pub(crate) fn tally(&self) -> (usize, usize) {
        (self.local.state().lease.granted(), self.local.client.nodes.len())
    }

    pub(crate) fn refused_by_lead(&self) -> bool {
        self.local.state().lease.refused_by_lead()
    }

    /// Returns the mark of the exclusive request, if it waits.
    pub(crate) fn wait_mark(&self) -> Option<&Arc<WaitMark>> {
        self.local.mark.as_ref()
    }

    /// Returns the turn of a failed attempt, for the next attempt.
    pub(crate) fn take_ticket(&self) -> Option<Ticket> {
        self.state()?.turn.take()
    }

    pub(crate) fn charge(&self) -> &Charge {
        self.charge.get_or_init(|| Box::new(Charge::new(&self.client().quota)))
    }

    pub(crate) fn extend(&self) {
        if let Some(mut state) = self.state() {
            state.grants.current.extension = None;
            self.local.handle(state, Event::Extend);
        }
    }

    /// Reserves quota for a stored answer of `bytes`. Returns false if the answer must not be
    /// stored.
    #[cfg(feature = "http")]
    pub(crate) fn admit_answer(&self, bytes: usize) -> bool {
        self.charge().admit(&self.client().nodes, bytes)
    }

    // --- what the holder and its tasks wait for ---

    /// Registers a task to be woken at the next change.
    pub(crate) fn watch(&self, key: &mut WakerKey, cx: &Context<'_>) {
        self.poll_grant(key, cx, |_| None, ());
    }

    /// Removes a registration. After a hand-off there is none: its task was woken.
    pub(crate) fn unwatch(&self, key: &mut WakerKey) {
        if key.is_registered() {
            let waker =
                self.state().and_then(|mut state| state.grants.current.watchers.remove(key));
            drop(waker);
        }
    }

    /// Polls the grant. While it has no answer, its next change wakes the task. After a hand-off,
    /// the answer is `handed_on`.
    fn poll_grant<T>(
        &self,
        key: &mut WakerKey,
        cx: &Context<'_>,
        poll: impl FnOnce(&mut Grant) -> Option<T>,
        handed_on: T,
    ) -> Option<T> {
        let waker = crate::sync::clone_waker(cx.waker());
        let Some(mut state) = self.state() else { return Some(handed_on) };
        let answer = poll(&mut state.grants.current);
        let unused: Option<Waker> = match answer {
            Some(_) => Some(waker),
            None => state.grants.current.watchers.register(key, waker),
        };
        drop(state);
        drop(unused);
        answer
    }

    /// Polls for the decision of the attempt, which is returned once.
    pub(crate) fn poll_decision(
        &self,
        key: &mut WakerKey,
        cx: &Context<'_>,
    ) -> Option<Result<(), LockError>> {
        let decision = |grant: &mut Grant| Some(grant.decision.take()?.map_err(|error| *error));
        self.poll_grant(key, cx, decision, Err(released()))
    }

    pub(crate) fn poll_extension(
        &self,
        key: &mut WakerKey,
        cx: &Context<'_>,
    ) -> Option<Result<(), LockError>> {
        let extension = |grant: &mut Grant| match grant.loss() {
            Some(cause) => Some(Err(LockError::lost(cause.clone()))),
            None => Some(grant.extension.clone()?.map_err(|error| *error)),
        };
        self.poll_grant(key, cx, extension, Err(released()))
    }

    pub(crate) fn poll_released(
        &self,
        key: &mut WakerKey,
        cx: &Context<'_>,
    ) -> Option<Result<Released, ReleaseError>> {
        let released = |grant: &mut Grant| Some(grant.released()?.clone().map_err(|error| *error));
        self.poll_grant(key, cx, released, Ok(Released::Released))
    }

    pub(crate) fn poll_lost(&self, key: &mut WakerKey, cx: &Context<'_>) -> Option<LossCause> {
        let lost = |grant: &mut Grant| {
            grant.loss().cloned().or_else(|| grant.has_ended().then_some(LossCause::Released))
        };
        self.poll_grant(key, cx, lost, LossCause::Released)
    }

    /// Polls for a reason to stop the work now, whatever the soft deadline is.
    pub(crate) fn poll_stopping(&self, key: &mut WakerKey, cx: &Context<'_>) -> Option<()> {
        let stopping = |grant: &mut Grant| {
            (grant.is_over() || self.signals.has_flag(WorkFlag::AskedToStop)).then_some(())
        };
        self.poll_grant(key, cx, stopping, ())
    }

    /// Returns the number of renewals once it is more than `seen`; `None` once the lease is over.
    /// Only these two wake the task.
    #[cfg(feature = "scheduler")]
    pub(crate) fn poll_renewed(
        &self,
        seen: u64,
        key: &mut WakerKey,
        cx: &Context<'_>,
    ) -> std::task::Poll<Option<u64>> {
        use std::task::Poll;

        // Declared before the guard, so that it is dropped after the guard.
        let waker = crate::sync::clone_waker(cx.waker());
        let Some(mut state) = self.state() else { return Poll::Ready(None) };
        let grant = &mut state.grants.current;
        if grant.renewals.count > seen {
            return Poll::Ready(Some(grant.renewals.count));
        }
        if grant.is_over() {
            return Poll::Ready(None);
        }
        let replaced = grant.renewals.watchers.get_or_insert_default().register(key, waker);
        drop(state);
        drop(replaced);
        Poll::Pending
    }

    #[cfg(feature = "scheduler")]
    pub(crate) fn unwatch_renewals(&self, key: &mut WakerKey) {
        let waker = self.state().and_then(|mut state| {
            state
                .grants
                .current
                .renewals
                .watchers
                .as_mut()
                .and_then(|watchers| watchers.remove(key))
        });
        drop(waker);
    }

    /// Wakes the tasks that await [`Stopping`](crate::lock::Stopping). The lock stays valid, and is
    /// renewed.
    #[cfg(feature = "scheduler")]
    pub(crate) fn ask_to_stop(&self) {
        let mut wakers = Vec::new();
        {
            let Some(mut state) = self.state() else { return };
            self.signals.set_flag(WorkFlag::AskedToStop, true);
            state.grants.current.watchers.take(&mut wakers);
        }
        crate::sync::wake_all(wakers);
    }

    pub(crate) fn is_asked_to_stop(&self) -> bool {
        self.signals.has_flag(WorkFlag::AskedToStop)
    }

    pub(crate) fn heartbeat(&self) {
        self.signals.heartbeat();
    }

    pub(crate) fn beats(&self) -> u64 {
        self.signals.beats()
    }

    /// Sets whether no heartbeats are expected: between attempts, and after the end of the work.
    pub(crate) fn set_resting(&self, is_resting: bool) {
        self.signals.set_flag(WorkFlag::Resting, is_resting);
    }

    pub(crate) fn is_resting(&self) -> bool {
        self.signals.has_flag(WorkFlag::Resting)
    }

    /// Sets whether no polls are expected, because the work blocks a thread.
    pub(crate) fn set_blocks(&self, blocks: bool) {
        self.signals.set_flag(WorkFlag::Blocks, blocks);
    }

    pub(crate) fn blocks(&self) -> bool {
        self.signals.has_flag(WorkFlag::Blocks)
    }

    /// Stops the renewal. Returns false if the lease is over already.
    pub(crate) fn halt(&self, why: Halt) -> bool {
        self.handle(Event::Halt(why));
        self.state().is_some_and(|state| !state.grants.current.is_over())
    }

    /// Schedules a stall check, unless the lease is over.
    pub(crate) fn watch_stall(&self, check: Waker, at: Timestamp) {
        let Some(mut state) = self.state() else { return };
        if state.grants.current.is_over() {
            return;
        }
        let (key, nudge) = self.timers().insert_locked(at, check);
        state.grants.current.stall_timer = Some(key);
        drop(state);
        self.timers().nudge(nudge);
    }
}

fn released() -> LockError {
    LockError::lost(LossCause::Released)
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
