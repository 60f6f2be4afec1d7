//! Hand-offs of slots: to a line of requests for any slot of a name, and first to its head, which
//! pauses between its attempts.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use super::{
    held_lease::HeldLease,
    line::{LeftWaiters, Line, Waiter, WaiterSlot},
    queue::Queue,
    ticket::Ticket,
};
use crate::{lock::settings::Plan, sync::Mutex, time::Timestamp};

/// The head of the line for any slot of a name while it pauses: a slot that this process releases may go
/// to it. Leaves when it is dropped.
#[derive(Debug)]
pub(crate) struct StandBy<L: HeldLease> {
    queue: Arc<Queue<L>>,
    name: Arc<str>,
    /// Written with the lines locked.
    slot: Arc<Mutex<WaiterSlot<L>>>,
}

impl<L: HeldLease> Ticket<L> {
    /// Makes the head of this line ready to get a slot.
    pub(crate) fn stand_by(&self, plan: &Arc<Plan>, since: Timestamp) -> StandBy<L> {
        let (waiter, slot) = Waiter::new(&self.resource, plan, since);
        let name = Arc::clone(&self.resource.shared_names()[0]);
        let former = {
            let mut lines = self.queue.lines();
            let line = lines.names.get_mut(&name);
            line.and_then(|line| line.stand_by.replace(Box::new(waiter)))
        };
        drop(former);
        StandBy { queue: Arc::clone(&self.queue), name, slot }
    }

    /// Gives the grant that `make` returns to the first request for any slot of a name that may have this
    /// one. Returns it with the waker; `None`, without a change, unless that request has this TTL.
    ///
    /// Both closures run with the lines locked.
    pub(crate) fn hand_on_slot(
        &self,
        (number, name): (u32, &str),
        ttl: Duration,
        may: impl FnOnce() -> bool,
        make: impl FnOnce(&Arc<Plan>) -> Option<Arc<L::Grant>>,
    ) -> Option<(Arc<L::Grant>, Waker, LeftWaiters)> {
        let mut guard = self.queue.lines();
        let lines = &mut *guard;
        let line = lines.for_slot(number, name)?;
        let line = lines.names.get_mut(&line)?;
        let first = line.next_for_slot()?;
        if first.plan.ttl != ttl || !may() {
            return None;
        }
        let lease = make(&first.plan)?;
        let (next, left) = if let Some(head) = line.stand_by.take() {
            // It passes its turn on.
            (*head, 0)
        } else {
            line.next_turn();
            (line.pop_first()?, 1)
        };
        next.give(WaiterSlot::Granted(Arc::clone(&lease)));
        Some((lease, next.waker, lines.wait_no_more(left)))
    }
}

impl<L: HeldLease> StandBy<L> {
    /// Polls for a slot.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Arc<L::Grant>> {
        // A waker is user code: it is cloned before the lock and dropped after it.
        let waker = crate::sync::clone_waker(cx.waker());
        let mut lines = self.queue.lines();
        if let WaiterSlot::Granted(grant) = self.take() {
            return Poll::Ready(grant);
        }
        let own = lines.names.get_mut(&self.name).and_then(|line| line.stand_by.as_mut());
        let own = own.filter(|waiter| waiter.has(&self.slot));
        let replaced = own.map(|waiter| std::mem::replace(&mut waiter.waker, waker));
        drop(lines);
        drop(replaced);
        Poll::Pending
    }

    /// Leaves. Returns the slot that it was given, if any.
    pub(crate) fn leave(&mut self) -> Option<Arc<L::Grant>> {
        let (given, waiter) = {
            let mut lines = self.queue.lines();
            let is_own = |line: &&mut Line<L>| {
                line.stand_by.as_ref().is_some_and(|waiter| waiter.has(&self.slot))
            };
            let line = lines.names.get_mut(&self.name).filter(is_own);
            (self.take(), line.and_then(|line| line.stand_by.take()))
        };
        drop(waiter);
        match given {
            WaiterSlot::Granted(grant) => Some(grant),
            _ => None,
        }
    }

    fn take(&self) -> WaiterSlot<L> {
        std::mem::replace(&mut crate::sync::lock(&self.slot), WaiterSlot::Waiting)
    }
}

impl<L: HeldLease> Drop for StandBy<L> {
    fn drop(&mut self) {
        if let Some(grant) = self.leave() {
            L::release(&grant);
        }
    }
}
