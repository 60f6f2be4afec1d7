//! A request for any slot of a name.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use tracing::{Instrument, Span};

use super::{
    known_slots::{HeldSlot, KnownSlots},
    slot_set::{ReservedSlot, SlotSet, Watch},
};
use crate::{
    error::{LockError, Reason},
    events::LockEventKind,
    lock::{
        LockOptions,
        acquire::{Acquire, AttemptOf, LONGEST_ATTEMPT, waits_for_itself},
        core::Core,
        inside::{is_any_inside, is_inside},
        inspect::inspect_names,
        lease::ActiveLease,
        lock::Lock,
        queue::{Admission, Ticket},
        settings::{InternalOptions, Plan},
        trace::{acquire_span, record_end},
        wakeups::{LONGEST_YIELD, RetryHistory, slot_turn},
    },
    metrics,
    protocol::{Answer, formulas},
    quorum::LeadNode,
    resource::Resource,
    time::Timestamp,
};

/// Acquires one of `count` slots of a name.
///
/// Dropping the future gives back what an attempt in flight may have been granted. Unlike a request
/// for a lock, it makes attempts only while it is polled.
pub(in crate::lock) async fn acquire(
    core: Arc<Core>,
    resource: Resource,
    options: LockOptions,
    internal: InternalOptions,
    count: u32,
) -> Result<Lock, LockError> {
    let plan = core.client.plan(&options, &internal)?;
    let [name] = resource.shared_names() else {
        return Err(not_of_a_set());
    };
    let owner = &core.client.settings.owner;
    let set = core.slots.get(name, count, owner).map_err(LockError::InvalidResource)?;
    let started = core.client.clock().now();
    core.client.check_open()?;
    let known = KnownSlots::new(count);
    let span = acquire_span(name, Some(count));
    let mut request = SlotRequest {
        core,
        set,
        options,
        internal,
        plan,
        started,
        has_waited: false,
        known,
        next_turn: None,
        ticket: None,
        has_stepped_aside: false,
        span: span.clone(),
        begun: 0,
    };
    let acquire = async move {
        let result = request.acquire().await;
        request.end(result)
    };
    acquire.instrument(span).await
}

/// Returns the error for slots of a set of names.
pub(in crate::lock) fn not_of_a_set() -> LockError {
    LockError::InvalidRequest("slots are those of one name, not of a set of names".into())
}

/// Whether a quorum of nodes has answered.
pub(in crate::lock) fn is_quorum(answers: &[Result<Answer, Reason>]) -> bool {
    answers.iter().filter(|answer| answer.is_ok()).count() >= formulas::quorum(answers.len())
}

struct SlotRequest {
    core: Arc<Core>,
    set: Arc<SlotSet>,
    options: LockOptions,
    internal: InternalOptions,
    plan: Arc<Plan>,
    started: Timestamp,
    has_waited: bool,
    known: KnownSlots,
    /// When a slot that is left to other processes may be tried.
    next_turn: Option<Timestamp>,
    /// The first place in the line of this process.
    ticket: Option<Ticket>,
    /// Whether it has passed the first place on before it was granted a slot.
    has_stepped_aside: bool,
    span: Span,
    /// Number of attempts that have begun.
    begun: u32,
}

impl SlotRequest {
    async fn acquire(&mut self) -> Result<Lock, LockError> {
        // Requests of this process that wait come first.
        let is_first = self.core.queue.have_lines(&self.set.line) == [false];
        let tried = self.core.client.clock().now();
        let mut failed = None;
        if is_first {
            match self.round(&[], None).await {
                Err(error) if self.may_wait(&error) && self.plan.max_attempts != Some(1) => {
                    failed = Some(error);
                }
                result => return result,
            }
        }
        self.check_outer_work()?;
        match self.turn().await? {
            Admission::Ask(ticket) => self.ticket = Some(ticket),
            Admission::Granted(lease) => return self.handed(lease),
        }
        // What a round before the wait in line has read of the slots is stale.
        let failed = failed.filter(|_| !self.has_waited).map(|error| (error, tried));
        self.wait(u32::from(is_first), failed).await
    }

    /// Refuses a request of work that holds all of the slots: it would wait for the end of that work.
    fn check_outer_work(&self) -> Result<(), LockError> {
        let is_of_outer_work = |number: u32| {
            let slot = self.set.slot(number)?;
            let lease = self.core.queue.holder(&slot.shared_names()[0])?;
            Some(is_inside(&lease))
        };
        if is_any_inside() && (0..self.set.count()).all(|slot| is_of_outer_work(slot) == Some(true))
        {
            return Err(waits_for_itself(&self.set.line, false));
        }
        Ok(())
    }

    /// Returns the slot that another request of this process has handed on.
    fn handed(&self, lease: Arc<ActiveLease>) -> Result<Lock, LockError> {
        let lock = Lock::new(lease);
        if let Some(slot) = lock.slot() {
            self.set.prefer(slot);
        }
        // Its validity may have ended before the task polled.
        if lock.lease().is_valid() { Ok(lock) } else { Err(lock.lease().too_slow()) }
    }

    /// Returns whether a request that waits continues after this error.
    fn may_wait(&self, error: &LockError) -> bool {
        let is_temporary = matches!(
            error,
            LockError::Held { .. } | LockError::NoQuorum { .. } | LockError::TooSlow { .. }
        );
        let until = self.started + self.plan.wait;
        is_temporary
            && !self.plan.wait.is_zero()
            && !self.core.client.waits_in_vain(&self.plan, error, until)
    }

    /// Tries slots that may be free, until one is granted or none is left: those that were released
    /// since they were tried last, which the nodes do not report again, or any.
    async fn round(
        &mut self,
        released: &[u32],
        lead_node: Option<LeadNode>,
    ) -> Result<Lock, LockError> {
        let mut is_read = self.recall(released).await?;
        loop {
            match self.reserve() {
                Some(reserved) => {
                    self.step_aside(reserved.has_spare);
                    let result = self.attempt(reserved.number, lead_node).await;
                    drop(reserved);
                    if !matches!(result, Err(LockError::Held { .. })) {
                        return result;
                    }
                    self.set.forget();
                }
                None if is_read => return Err(self.full()),
                None => {}
            }
            if !is_read {
                self.read().await?;
                is_read = true;
            }
        }
    }

    /// Prepares what is known of the slots for a round. Returns whether it was read. The first
    /// request in line reads before it tries any, and the next ones use what it read, because the
    /// line would otherwise pass one slot in a round trip.
    async fn recall(&mut self, released: &[u32]) -> Result<bool, LockError> {
        if !released.is_empty() {
            // Other slots are as they were known.
            for slot in released {
                self.known.set_free(*slot);
            }
            return Ok(true);
        }
        self.known = KnownSlots::new(self.set.count());
        if self.ticket.is_none() {
            return Ok(false);
        }
        if let Some(known) = self.set.recall(self.core.client.clock().now()) {
            self.known = known;
            return Ok(false);
        }
        self.read().await?;
        Ok(true)
    }

    /// Passes the first place on while this request tries a slot, if another one is free as well.
    /// Once, because a request that is refused then goes to the end of the line.
    fn step_aside(&mut self, has_spare: bool) {
        if has_spare && !self.has_stepped_aside && self.ticket.take().is_some() {
            self.has_stepped_aside = true;
        }
    }

    /// Reserves a slot whose turn it is. A single attempt is never delayed.
    fn reserve(&mut self) -> Option<ReservedSlot> {
        let Self { core, set, plan, started, known, .. } = self;
        let client = &core.client;
        let now = client.clock().now();
        let unknown_until = *started + LONGEST_YIELD;
        let turn = |slot: &Resource| slot_turn(client, slot, plan.node_timeout, unknown_until);
        let turn = (!plan.wait.is_zero()).then_some(&turn);
        let reserved = set.reserve(&core.queue, known, now, turn);
        self.next_turn = reserved.as_ref().err().copied().flatten();
        reserved.ok()
    }

    /// Makes one attempt at a slot.
    async fn attempt(&mut self, slot: u32, lead_node: Option<LeadNode>) -> Result<Lock, LockError> {
        let Some(resource) = self.set.slot(slot) else { return Err(self.full()) };
        let options = LockOptions {
            slots: None,
            linger: Some(Duration::ZERO),
            wait: Some(Duration::ZERO),
            max_attempts: Some(1),
            ..self.options
        };
        let internal = InternalOptions { lead_node, ..self.internal };
        let core = Arc::clone(&self.core);
        let of = AttemptOf { span: self.span.clone(), begun: self.begun };
        self.begun += 1;
        let result = Acquire::attempt(core, resource.clone(), &options, &internal, of).await;
        match &result {
            Ok(_) => self.set.prefer(slot),
            Err(LockError::Held { owner, expires_in, votes, .. }) => {
                self.note_owner(slot, owner.as_ref());
                let (owner, votes) = (owner.clone(), votes.clone());
                self.known.set_held(slot, HeldSlot { owner, expires_in: *expires_in, votes });
            }
            Err(_) => {}
        }
        result
    }

    /// Reads the holders of all slots.
    async fn read(&mut self) -> Result<(), LockError> {
        // A node that hangs delays no choice: an attempt is what decides.
        let holders = inspect_names(&self.core.client, &self.set.inspected, is_quorum).await;
        let holders = holders.map_err(|votes| LockError::NoQuorum { votes })?;
        for (slot, holder) in (0..).zip(holders) {
            match holder {
                Some(holder) if slot < self.set.count() => {
                    self.note_owner(slot, holder.owner.as_ref());
                    let (owner, expires_in) = (holder.owner, holder.remaining);
                    let held = HeldSlot { owner, expires_in, votes: holder.votes };
                    self.known.set_held(slot, held);
                }
                Some(holder) => self.report_more_slots(holder.owner.as_deref()),
                None => self.known.set_free(slot),
            }
        }
        if self.ticket.is_some() {
            let until = self.core.client.clock().now() + self.plan.node_timeout;
            self.set.remember(&self.known, until);
        }
        Ok(())
    }

    /// Records that a slot is held, which ends the turns of this process there if another one holds it.
    fn note_owner(&self, slot: u32, owner: Option<&Arc<str>>) {
        let client = &self.core.client;
        if owner != Some(&client.settings.owner)
            && let Some(slot) = self.set.slot(slot)
        {
            client.wakeups.held_elsewhere(slot);
        }
    }

    /// Reports that a client with more slots is alive.
    fn report_more_slots(&self, owner: Option<&str>) {
        if self.set.may_report(self.core.client.clock().now()) {
            crate::log::warn!(
                name = %self.set.name,
                slots = self.set.count(),
                owner = %self.core.client.settings.owner,
                other = owner.unwrap_or("another client"),
                "another client uses more slots of this name: there may be as many holders as it allows"
            );
        }
    }

    fn full(&self) -> LockError {
        self.known.full(&self.core.client.settings.owner)
    }

    /// Waits for the first place in the line of this process, or for a slot that is handed on.
    async fn turn(&mut self) -> Result<Admission, LockError> {
        let Self { core, set, plan, started, .. } = self;
        let mut place = core.queue.enter(&set.line, *started);
        // A single attempt gets the verdict of the request that is first.
        let wait =
            if plan.wait.is_zero() { plan.node_timeout * LONGEST_ATTEMPT } else { plan.wait };
        let mut timeout = core.client.timers.sleep_until(*started + wait);
        let mut has_waited = false;
        let admission = poll_fn(|cx| match place.poll(plan, cx) {
            Poll::Pending => {
                has_waited = true;
                Pin::new(&mut timeout).poll(cx).map(|()| None)
            }
            Poll::Ready(result) => Poll::Ready(Some(result)),
        })
        .await;
        self.has_waited |= has_waited;
        match admission {
            Some(Ok(admission)) => Ok(admission),
            Some(Err(error)) => Err(self.of_slots(error)),
            None if self.plan.wait.is_zero() => Err(self.of_slots(place.known())),
            None => Err(self.timed_out(self.of_slots(place.known()))),
        }
    }

    /// Returns the error of the line as one of the slots: without a verdict of the first request, the
    /// line says that this process holds its name.
    fn of_slots(&self, error: LockError) -> LockError {
        match error {
            LockError::Held { slots, .. } if slots.is_empty() => self.full(),
            other => other,
        }
    }

    /// Makes attempts as slots are released, until one is granted or the wait is over. `failed` is the
    /// error of a round that has just failed, and its start.
    async fn wait(
        &mut self,
        mut rounds: u32,
        failed: Option<(LockError, Timestamp)>,
    ) -> Result<Lock, LockError> {
        let (mut retries, mut failed) = self.begin_wait(failed);
        let deadline = self.started + self.plan.wait;
        // Whether the next round tries all slots that may be free.
        let mut tries_all = true;
        loop {
            let error = if let Some(error) = failed.take() {
                error
            } else {
                let now = self.core.client.clock().now();
                // Before the slots are read or tried, so that no release in between is missed.
                let (released, lead_node) = if tries_all {
                    (Vec::new(), retries.begin_at(now))
                } else {
                    retries.begin_released(&self.core.client, now)
                };
                let numbers = released.into_iter().map(u32::try_from);
                let released: Vec<_> = numbers.filter_map(Result::ok).collect();
                rounds += 1;
                match self.round(&released, lead_node.or(self.plan.lead_node)).await {
                    Err(error) if self.may_wait(&error) => error,
                    result => return result,
                }
            };
            let error = retries.failed(error, 0, false);
            if let Some(ticket) = &self.ticket {
                ticket.report(&error);
            }
            if self.plan.wait.is_zero() || self.plan.max_attempts == Some(rounds) {
                return Err(error);
            }
            if deadline <= self.core.client.clock().now() {
                return Err(self.timed_out(error));
            }
            let Some(ticket) = &self.ticket else {
                match self.turn().await? {
                    Admission::Ask(ticket) => self.ticket = Some(ticket),
                    Admission::Granted(lease) => return self.handed(lease),
                }
                tries_all = true;
                continue;
            };
            if !retries.count(&self.core.queue, self.has_waited) {
                return Err(error);
            }
            self.has_waited = true;
            let mut stand_by = ticket.stand_by(&self.plan, self.started);
            // Once: a round whose read fails sets no other time, and must not be repeated at once.
            let next_turn = self.next_turn.take();
            let Self { core, set, plan, .. } = self;
            let (client, heads) = (&core.client, core.queue.heads());
            let mut pause = retries.pause(client, heads, &set.all, plan, deadline);
            let mut turn = next_turn.map(|at| client.timers.sleep_until(at));
            let handed = poll_fn(|cx| {
                if let Poll::Ready(lease) = stand_by.poll(cx) {
                    return Poll::Ready(Some(lease));
                }
                let is_turn = turn.as_mut().is_some_and(|turn| Pin::new(turn).poll(cx).is_ready());
                if is_turn {
                    return Poll::Ready(None);
                }
                pause.poll(&mut retries, client, plan, cx).map(|()| None)
            })
            .await;
            if let Some(lease) = handed.or_else(|| stand_by.leave()) {
                if matches!(error, LockError::Held { .. }) {
                    retries.counted = None;
                    let watch = Watch { retries, known: self.known.clone(), next_turn, error };
                    self.core.slots.keep_watch(&self.set.line, watch);
                }
                return self.handed(lease);
            }
            tries_all = false;
        }
    }

    /// Returns the state at the start of the wait: after a round that has just failed, or what the request
    /// knew that was first in line before.
    fn begin_wait(
        &mut self,
        failed: Option<(LockError, Timestamp)>,
    ) -> (RetryHistory, Option<LockError>) {
        let former = self.core.slots.take_watch(&self.set.line);
        let Some((error, tried)) = failed else {
            // A last attempt has to ask the nodes.
            let may_wait = !self.plan.wait.is_zero() && self.plan.max_attempts != Some(1);
            let former = former.filter(|_| may_wait);
            let Some(Watch { retries, known, next_turn, error }) = former else {
                return Default::default();
            };
            (self.known, self.next_turn) = (known, next_turn);
            return (retries, Some(error));
        };
        let mut retries = RetryHistory::default();
        retries.begin_at(tried);
        (retries, Some(error))
    }

    fn timed_out(&self, last: LockError) -> LockError {
        LockError::WaitTimedOut { waited: self.elapsed(), last: Box::new(last) }
    }

    fn elapsed(&self) -> Duration {
        self.core.client.clock().now().saturating_duration_since(self.started)
    }

    /// Reports the result.
    fn end(mut self, mut result: Result<Lock, LockError>) -> Result<Lock, LockError> {
        // The next one in line need not wait for what follows.
        self.ticket = None;
        let Self { core, set, plan, .. } = &self;
        if let Err(error) = &mut result {
            error.set_retry_after(|expires_in| {
                let ahead = core.queue.turn_away(&set.line) / set.all.names().len();
                let slot = set.slot(0).unwrap_or(&set.line);
                core.client.hold_times.retry_after(slot, ahead, expires_in, plan.max_retry_after)
            });
        }
        let (outcome, waited) = (result.as_ref().map(|_| ()), self.elapsed());
        let is_reported = self.internal.reports.include(outcome);
        if is_reported {
            core.client.counts.ended(outcome, waited);
            metrics::acquire(false, outcome, waited);
        }
        match &result {
            Ok(lock) if self.has_waited => core.client.send_event(|| LockEventKind::Granted {
                resource: lock.resource().clone(),
                shared: false,
                token: lock.fencing_token(),
                waited,
            }),
            Err(error) if is_reported => core.client.send_event(|| LockEventKind::Refused {
                resource: set.line.clone(),
                shared: false,
                waited,
                error: error.clone(),
            }),
            Ok(_) | Err(_) => {}
        }
        record_end(&self.span, &result, waited);
        result
    }
}

impl Drop for SlotRequest {
    fn drop(&mut self) {
        // Passes the place on, and keeps nothing for a line that is empty.
        self.ticket = None;
        if self.core.queue.have_lines(&self.set.line) == [false] {
            drop(self.core.slots.take_watch(&self.set.line));
        }
    }
}
