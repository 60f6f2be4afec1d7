use std::{
    collections::hash_map::Entry,
    sync::{Arc, Mutex},
    task::Waker,
    time::Duration,
};

use super::{
    line::{Head, Left, Line, Lines, Place, Slot, Waiter},
    queueing::Queueing,
};
use crate::{
    error::{LockError, Votes},
    lock::{
        lease::ActiveLease,
        settings::{LineBounds, Plan},
    },
    metrics,
    resource::Resource,
    sync::Guard,
    time::{Timers, Timestamp},
};

#[derive(Debug)]
pub(crate) struct Queue {
    owner: Arc<str>,
    timers: Arc<Timers>,
    lines: Mutex<Lines>,
    bounds: LineBounds,
}

impl Queue {
    pub(crate) fn new(owner: Arc<str>, timers: Arc<Timers>, bounds: LineBounds) -> Self {
        Self { owner, timers, lines: Mutex::default(), bounds }
    }

    /// Lines up for all names of a resource.
    pub(crate) fn enter(self: &Arc<Self>, resource: &Resource) -> Queueing {
        Queueing::new(Arc::clone(self), resource.clone())
    }

    pub(super) fn lines(&self) -> Guard<'_, Lines> {
        crate::sync::lock(&self.lines)
    }

    fn now(&self) -> Timestamp {
        self.timers.clock().now()
    }

    /// What the head's state says to one who wants the name; nothing during its first attempt.
    /// Not to be called with the lines locked: it may drop the last handle of a lease.
    pub(super) fn explain(&self, head: &Head) -> Option<LockError> {
        match head {
            Head::Trying => None,
            Head::Refused(error) => Some(error.clone()),
            Head::Holding(lease) => {
                let expires_in = lease
                    .upgrade()
                    .map(|lease| lease.valid_until().saturating_duration_since(self.now()));
                Some(self.held_here(expires_in))
            }
        }
    }

    pub(super) fn held_here(&self, expires_in: Option<Duration>) -> LockError {
        let owner = Some(Arc::clone(&self.owner));
        LockError::Held { retry_after: None, expires_in, owner, votes: Votes::default() }
    }

    /// Counts a request that waits at the head of a line. `None` where too many requests wait, unless
    /// it was counted in the line before.
    pub(in crate::lock) fn wait_at_head(self: &Arc<Self>, was_in_line: bool) -> Option<Waiting> {
        let mut lines = self.lines();
        if !was_in_line && lines.waiting + lines.heads >= self.bounds.total {
            return None;
        }
        lines.heads += 1;
        drop(lines);
        metrics::waits();
        Some(Waiting { queue: Arc::clone(self) })
    }

    /// Counts a request that is turned away and will come back, and returns how many others want
    /// the resource before it: those that wait here, and those that were turned away since their
    /// turns.
    pub(in crate::lock) fn turn_away(&self, resource: &Resource) -> usize {
        let mut lines = self.lines();
        let mut ahead = 0;
        for name in resource.shared_names() {
            if let Some(line) = lines.names.get_mut(name) {
                ahead = ahead.max(line.len() + line.turned_away);
                line.turned_away += 1;
            }
        }
        ahead
    }

    /// How many requests wait at the head of a line.
    pub(in crate::lock) fn heads(&self) -> usize {
        self.lines().heads
    }

    /// Takes the turn on a name, or a place in its line, which has to be polled.
    pub(super) fn join(
        &self,
        name: &Arc<str>,
        resource: &Resource,
        plan: &Plan,
    ) -> Result<Option<Place>, LockError> {
        let mut guard = self.lines();
        let lines = &mut *guard;
        let line = match lines.names.entry(Arc::clone(name)) {
            Entry::Occupied(line) => line.into_mut(),
            Entry::Vacant(place) => {
                place.insert(Line::default());
                return Ok(None);
            }
        };
        let is_full =
            line.len() >= self.bounds.per_name || lines.waiting + lines.heads >= self.bounds.total;
        if is_full || (plan.wait.is_zero() && !matches!(line.head, Head::Trying)) {
            let head = line.head.clone();
            drop(guard);
            if is_full {
                crate::log::debug!(%name, "too many requests wait: one is told at once");
            }
            return Err(self.explain(&head).unwrap_or_else(|| self.held_here(None)));
        }
        lines.waiting += 1;
        let place = line.join(resource, plan);
        drop(guard);
        metrics::waits();
        Ok(Some(place))
    }

    /// Passes the turn on a name on to the first in line; without one the line is gone.
    pub(super) fn pass_on(&self, name: &Arc<str>) {
        let next = {
            let mut guard = self.lines();
            let lines = &mut *guard;
            let Entry::Occupied(mut line) = lines.names.entry(Arc::clone(name)) else { return };
            line.get_mut().head = Head::Trying;
            line.get_mut().next_turn();
            if let Some(waiter) = line.get_mut().pop_first() {
                waiter.give(Slot::Turn);
                Some((waiter, lines.wait_no_more(1)))
            } else {
                drop(line.remove());
                None
            }
        };
        if let Some((waiter, left)) = next {
            left.tell();
            crate::sync::wake(waiter.waker);
        }
    }

    /// Gives what `make` makes to the first in line, if it wants just these names, for as long at a
    /// time: `is_wanted` is told so, and how many stood in line when the lease was granted. Nobody
    /// else waits for one of them then, and nothing is done before that is known. `make` must not
    /// call back.
    pub(super) fn hand_on(
        &self,
        names: &[Arc<str>],
        is_wanted: impl FnOnce(&Resource, &Plan, usize) -> bool,
        make: impl FnOnce(&Plan) -> Option<Arc<ActiveLease>>,
    ) -> Option<(Arc<ActiveLease>, Waker, Left)> {
        let (first, others) = names.split_first()?;
        let mut guard = self.lines();
        let lines = &mut *guard;
        if lines.waiting == 0 {
            return None;
        }
        let lets_go = |name| {
            let line: Option<&Line> = lines.names.get(name);
            line.is_some_and(Line::is_empty)
        };
        if !others.iter().all(lets_go) {
            return None;
        }
        let line = lines.names.get_mut(first)?;
        let next = line.first_patient()?;
        if !is_wanted(&next.resource, &next.plan, line.at_grant()) {
            return None;
        }
        let lease = make(&next.plan)?;
        let next = line.pop_first()?;
        next.give(Slot::Granted(Arc::clone(&lease)));
        for name in names {
            if let Some(line) = lines.names.get_mut(name) {
                line.head = Head::Holding(Arc::downgrade(&lease));
                line.next_turn();
            }
        }
        Some((lease, next.waker, lines.wait_no_more(1)))
    }

    /// Tells a line what its head is doing now; those who want one attempt leave with that.
    pub(super) fn set_head(&self, name: &Arc<str>, head: &Head) {
        {
            let mut lines = self.lines();
            let Some(line) = lines.names.get_mut(name) else { return };
            line.head = head.clone();
            if matches!(head, Head::Holding(_)) {
                line.granted();
            }
            if !line.has_one_shots() {
                return;
            }
        }
        let Some(verdict) = self.explain(head) else { return };
        let (left, leaving) = {
            let mut guard = self.lines();
            let lines = &mut *guard;
            let Some(line) = lines.names.get_mut(name) else { return };
            let leaving = line.take_one_shots();
            let left = lines.wait_no_more(leaving.len());
            let give = |waiter: Waiter| {
                waiter.give(Slot::Verdict(verdict.clone()));
                waiter.waker
            };
            (left, leaving.into_iter().map(give).collect::<Vec<_>>())
        };
        left.tell();
        crate::sync::wake_all(leaving);
    }
}

/// A request that waits at the head of a line, as long as it counts.
#[derive(Debug)]
pub(crate) struct Waiting {
    queue: Arc<Queue>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.queue.lines().heads -= 1;
        metrics::wait_no_more(1);
    }
}
