//! The turn on the names of a resource.

use std::{sync::Arc, task::Waker, time::Duration};

use super::{
    held_lease::HeldLease,
    line::{HeadState, LeftWaiters, Line, Waiter, WaiterSlot},
    queue::Queue,
};
use crate::{error::LockError, lock::settings::Plan, resource::Resource};

/// The turn on a resource's names. Dropping it passes the turn on.
#[derive(Debug)]
pub(crate) struct Ticket<L: HeldLease> {
    pub(super) queue: Arc<Queue<L>>,
    pub(super) resource: Resource,
    /// Number of names, from the first, whose turn it has.
    pub(super) turns: usize,
}

impl<L: HeldLease> Ticket<L> {
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
    pub(crate) fn holding(&self, lease: &Arc<L>) -> bool {
        let head = HeadState::Holding(Arc::downgrade(lease));
        let set = |any, name| self.queue.set_head(name, &head) || any;
        self.names().iter().fold(lease.is_shared(), set)
    }

    /// Lets the shared requests that wait join a shared lease, then gives the verdict that the names
    /// are held to the requests for a single attempt.
    pub(crate) fn answer(&self, lease: &Arc<L>) {
        let head = HeadState::Holding(Arc::downgrade(lease));
        for name in self.names() {
            if lease.is_shared() {
                self.queue.admit_sharers(name, lease, true);
            }
            self.queue.give_verdict(name, &head);
        }
    }

    pub(crate) const fn queue(&self) -> &Arc<Queue<L>> {
        &self.queue
    }

    /// Gives the grant that `make` returns to the first waiter. Returns it with the waiter's waker;
    /// `None`, without a change, unless that waiter wants this resource with this TTL and keeps no
    /// records, and no request waits for another of the names.
    ///
    /// `may` gets the number of requests in line when the nodes granted the lease. Both closures
    /// run with the lines locked.
    pub(crate) fn hand_on(
        &self,
        ttl: Duration,
        may: impl FnOnce(usize) -> bool,
        make: impl FnOnce(&Arc<Plan>) -> Option<Arc<L::Grant>>,
    ) -> Option<(Arc<L::Grant>, Waker, LeftWaiters)> {
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
        next.give(WaiterSlot::Granted(Arc::clone(&lease)));
        for name in self.names() {
            if let Some(line) = lines.names.get_mut(name) {
                line.next_turn();
            }
        }
        Some((lease, next.waker, lines.wait_no_more(1)))
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
        // Usually there is one name, which is looked up once.
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

    fn names(&self) -> &[Arc<str>] {
        &self.resource.shared_names()[..self.turns]
    }
}

impl<L: HeldLease> Drop for Ticket<L> {
    fn drop(&mut self) {
        for name in self.names() {
            self.queue.pass_on(name);
        }
    }
}
