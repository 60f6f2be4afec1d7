//! The turn on the names of a resource: reports to the lines, and hand-offs to their waiters.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use super::line::{Given, GivenCell, HandedOn, HeadState, Line, Queue, Ticket, Waiter};
use crate::{
    error::LockError,
    lock::{
        lease::{ActiveLease, LocalLease},
        settings::Plan,
    },
    time::Timestamp,
};

impl Ticket {
    /// Reports to the lines that an attempt failed.
    pub(crate) fn report(&self, error: &LockError) {
        // For a set it is unknown which of its names is held.
        let known = match self.names() {
            [_] => error.clone(),
            _ => self.queue.held_here(None),
        };
        let head = HeadState::Refused(Box::new(known));
        for name in self.names() {
            if self.queue.set_head(name, &head) {
                self.queue.give_verdict(name, &head);
            }
        }
    }

    /// Reports to the lines that the names are held. Returns whether [`answer`](Self::answer) has to
    /// follow.
    pub(crate) fn holding(&self, lease: &Arc<LocalLease>) -> bool {
        let head = HeadState::Holding(Arc::downgrade(lease));
        let set = |any, name| self.queue.set_head(name, &head) || any;
        self.names().iter().fold(lease.is_shared(), set)
    }

    /// Lets the shared requests that wait join a shared lease, then gives the verdict that the names
    /// are held to the requests for a single attempt.
    pub(crate) fn answer(&self, lease: &Arc<LocalLease>) {
        let head = HeadState::Holding(Arc::downgrade(lease));
        for name in self.names() {
            if lease.is_shared() {
                self.queue.admit_sharers(name, lease, true);
            }
            self.queue.give_verdict(name, &head);
        }
    }

    pub(crate) const fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Gives the grant that `make` returns to the first waiter. Returns `None`, without a change, unless that waiter wants this resource with this TTL and keeps no
    /// records, and no request waits for another of the names.
    ///
    /// `may` gets the number of requests in line when the nodes granted the lease. Both closures
    /// run with the lines locked.
    pub(crate) fn hand_on(
        &self,
        ttl: Duration,
        may: impl FnOnce(usize) -> bool,
        make: impl FnOnce(&Arc<Plan>) -> Option<Arc<ActiveLease>>,
    ) -> Option<HandedOn> {
        let (first, others) = self.names().split_first()?;
        let mut guard = self.queue.lines();
        let lines = &mut *guard;
        if lines.waiting == 0 {
            return None;
        }
        let is_empty = |name| lines.names.get(name).is_some_and(Line::is_empty);
        if !others.iter().all(is_empty) {
            return None;
        }
        let line = lines.names.get_mut(first)?;
        let Waiter { resource, plan, .. } = line.first_patient()?;
        let fits = *resource == self.resource
            && plan.ttl == ttl
            && !plan.keeps_records
            && !plan.is_shared();
        if !fits || !may(line.at_grant) {
            return None;
        }
        let lease = make(plan)?;
        let next = line.pop_first()?;
        next.give(Given::Granted(Arc::clone(&lease)));
        for name in self.names() {
            if let Some(line) = lines.names.get_mut(name) {
                line.next_turn();
            }
        }
        Some(HandedOn { lease, waker: next.waker, left: lines.wait_no_more(1) })
    }

    /// Reports to the lines that a lease stops lingering: the next request gets the turn soon.
    /// `stop` is called with the lines locked.
    pub(crate) fn report_linger_end(&self, stop: impl FnOnce()) {
        let mut lines = self.queue.lines();
        stop();
        for name in self.names() {
            if let Some(line) = lines.names.get_mut(name) {
                line.head = HeadState::Trying;
            }
        }
    }

    /// Ends the turn of a holder whose lease stays with the process, if no request waits and `keep`
    /// returns true. `keep` is called with the lines locked.
    pub(crate) fn keep_if(&self, keep: impl FnOnce() -> bool) -> bool {
        let [first, others @ ..] = self.names() else { return false };
        let mut guard = self.queue.lines();
        let lines = &mut *guard;
        let is_empty = |name| lines.names.get(name).is_some_and(Line::is_empty);
        if !others.iter().all(is_empty) {
            return false;
        }
        // Usually there is one name, so it takes one lookup.
        let Some(line) = lines.names.get_mut(first).filter(|line| line.is_empty()) else {
            return false;
        };
        if !keep() {
            return false;
        }
        line.next_turn();
        for name in others {
            if let Some(line) = lines.names.get_mut(name) {
                line.next_turn();
            }
        }
        true
    }

    /// Makes the head of this line ready to get a slot.
    pub(crate) fn stand_by(&self, plan: &Arc<Plan>, since: Timestamp) -> StandBy {
        let waiter = Waiter::new(&self.resource, plan, since);
        let cell = waiter.cell().clone();
        let name = Arc::clone(&self.resource.shared_names()[0]);
        let former = {
            let mut lines = self.queue.lines();
            let line = lines.names.get_mut(&name);
            line.and_then(|line| line.stand_by.replace(Box::new(waiter)))
        };
        drop(former);
        StandBy { queue: Arc::clone(&self.queue), name, cell }
    }

    /// Gives the grant that `make` returns to the first request for any slot of a name that may have this
    /// one. Returns `None`, without a change, unless that request has this TTL.
    ///
    /// Both closures run with the lines locked.
    pub(crate) fn hand_on_slot(
        &self,
        number: u32,
        name: &str,
        ttl: Duration,
        may: impl FnOnce() -> bool,
        make: impl FnOnce(&Arc<Plan>) -> Option<Arc<ActiveLease>>,
    ) -> Option<HandedOn> {
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
        next.give(Given::Granted(Arc::clone(&lease)));
        Some(HandedOn { lease, waker: next.waker, left: lines.wait_no_more(left) })
    }

    fn names(&self) -> &[Arc<str>] {
        &self.resource.shared_names()[..self.turns]
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        for name in self.names() {
            self.queue.pass_on(name);
        }
    }
}

/// The head of the line for any slot of a name while it pauses: a slot that this process releases may go
/// to it. Leaves when it is dropped.
#[derive(Debug)]
pub(crate) struct StandBy {
    queue: Arc<Queue>,
    name: Arc<str>,
    cell: GivenCell,
}

impl StandBy {
    /// Polls for a slot.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Arc<ActiveLease>> {
        // A waker is user code: it is cloned before the lock and dropped after it.
        let waker = crate::sync::clone_waker(cx.waker());
        let mut lines = self.queue.lines();
        if let Some(Given::Granted(grant)) = self.cell.take() {
            return Poll::Ready(grant);
        }
        let own = lines.names.get_mut(&self.name).and_then(|line| line.stand_by.as_mut());
        let own = own.filter(|waiter| waiter.has(&self.cell));
        let replaced = own.map(|waiter| std::mem::replace(&mut waiter.waker, waker));
        drop(lines);
        drop(replaced);
        Poll::Pending
    }

    /// Leaves. Returns the slot that it was given, if any.
    pub(crate) fn leave(&mut self) -> Option<Arc<ActiveLease>> {
        let (given, waiter) = {
            let mut lines = self.queue.lines();
            let is_own = |line: &&mut Line| {
                line.stand_by.as_ref().is_some_and(|waiter| waiter.has(&self.cell))
            };
            let line = lines.names.get_mut(&self.name).filter(is_own);
            (self.cell.take(), line.and_then(|line| line.stand_by.take()))
        };
        drop(waiter);
        match given {
            Some(Given::Granted(grant)) => Some(grant),
            given => {
                debug_assert!(given.is_none(), "a head on stand-by is given a slot only");
                None
            }
        }
    }
}

impl Drop for StandBy {
    fn drop(&mut self) {
        if let Some(grant) = self.leave() {
            grant.release(false);
        }
    }
}
