use std::{sync::Arc, task::Waker, time::Duration};

use super::{
    line::{Head, Left},
    queue::Queue,
};
use crate::{
    error::LockError,
    lock::{lease::ActiveLease, settings::Plan},
    resource::Resource,
};

/// The turn on a resource's names. Dropping it passes the turn on.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(super) queue: Arc<Queue>,
    pub(super) resource: Resource,
    /// For how many of the names, from the first, the turn is ours.
    pub(super) turns: usize,
}

impl Ticket {
    pub(super) fn new(queue: Arc<Queue>, resource: Resource) -> Self {
        Self { queue, resource, turns: 0 }
    }

    /// Tells the lines that an attempt failed.
    pub(crate) fn report(&self, error: &LockError) {
        // Of a set it is not known which of its names somebody else holds.
        let known = match self.names() {
            [_] => error.clone(),
            _ => self.queue.held_here(None),
        };
        let refused = Head::Refused(known);
        for name in self.names() {
            self.queue.set_head(name, &refused);
        }
    }

    /// Tells the lines who holds the names now.
    pub(crate) fn holding(&self, lease: &Arc<ActiveLease>) {
        let head = Head::Holding(Arc::downgrade(lease));
        for name in self.names() {
            self.queue.set_head(name, &head);
        }
    }

    /// Gives the grant that `make` makes to the first in line, and tells whom to wake. `None`, and
    /// nothing is changed, unless that one wants just this resource, and with this TTL, and keeps no
    /// record, and nobody else waits for another of its names. `may` is told how many stood in line
    /// when the nodes granted the lease.
    pub(crate) fn hand_on(
        &self,
        ttl: Duration,
        may: impl FnOnce(usize) -> bool,
        make: impl FnOnce(&Plan) -> Option<Arc<ActiveLease>>,
    ) -> Option<(Arc<ActiveLease>, Waker, Left)> {
        let is_wanted = |wanted: &_, plan: &Plan, at_grant| {
            let fits = *wanted == self.resource && plan.ttl == ttl && !plan.keeps_records;
            fits && may(at_grant)
        };
        self.queue.hand_on(self.names(), is_wanted, make)
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
