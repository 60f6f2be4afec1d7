//! The way to the head of a line, and what its head reports to the line.

use std::{
    collections::hash_map::Entry,
    ops::ControlFlow,
    sync::{Arc, Weak},
    task::{Context, Poll, ready},
    time::Duration,
};

use super::line::{Given, HeadState, Line, LinePlace, Queue, Ticket, Waiter};
use crate::{
    error::{LockError, Votes},
    lock::{
        lease::{ActiveLease, LocalLease},
        settings::Plan,
        snapshot::WaitingName,
    },
    metrics,
    resource::Resource,
    time::Timestamp,
};

impl Queue {
    /// Enters the lines of all names of a resource.
    pub(crate) fn enter(self: &Arc<Self>, resource: &Resource, since: Timestamp) -> QueueWait {
        let ticket = Ticket { queue: Arc::clone(self), resource: resource.clone(), turns: 0 };
        QueueWait { ticket: Some(ticket), place: None, since }
    }

    /// Returns the error for a request that meets this head; `None` during its first attempt. Must
    /// not be called with the lines locked, because it may drop the last handle of a lease.
    fn explain(&self, head: &HeadState) -> Option<LockError> {
        match head {
            HeadState::Trying => None,
            HeadState::Refused(error) => Some(LockError::clone(error)),
            HeadState::Holding(lease) => {
                let lease = lease.upgrade();
                let grant = lease.as_ref().and_then(|lease| lease.present());
                let mut error = self.held_here(grant.map(|grant| grant.remaining));
                if let LockError::Held { readers, .. } = &mut error {
                    *readers = usize::from(lease.is_some_and(|lease| lease.is_shared()));
                }
                Some(error)
            }
        }
    }

    pub(super) fn held_here(&self, expires_in: Option<Duration>) -> LockError {
        let owner = Some(Arc::clone(&self.owner));
        let votes = Votes::default();
        LockError::Held {
            retry_after: None,
            expires_in,
            owner,
            lingers: false,
            readers: 0,
            waiter: None,
            slots: Box::default(),
            votes,
        }
    }

    /// Counts a request that waits at the head of a line. `None` if too many requests wait, unless
    /// it waited in the line before.
    pub(crate) fn wait_at_head(self: &Arc<Self>, was_in_line: bool) -> Option<CountedWaiter> {
        let mut lines = self.lines();
        if !was_in_line && lines.waiting + lines.heads >= self.bounds.total {
            return None;
        }
        lines.heads += 1;
        drop(lines);
        metrics::waits();
        Some(CountedWaiter { queue: Arc::clone(self) })
    }

    /// Counts a request that is refused and will come back. Returns the number of requests before
    /// it: those that wait here, and those that were refused earlier.
    pub(crate) fn turn_away(&self, resource: &Resource) -> usize {
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

    /// Returns the number of requests that wait at the head of a line.
    pub(crate) fn heads(&self) -> usize {
        self.lines().heads
    }

    /// Returns the lease at the head of a line.
    pub(crate) fn holder(&self, name: &str) -> Option<Arc<LocalLease>> {
        match &self.lines().names.get(name)?.head {
            HeadState::Holding(lease) => lease.upgrade(),
            HeadState::Trying | HeadState::Refused(_) => None,
        }
    }

    /// Returns the leases that are held or linger, once for each of their names, and the names that
    /// requests wait for.
    pub(crate) fn contents(&self, now: Timestamp) -> (Vec<Weak<LocalLease>>, Vec<WaitingName>) {
        let (mut leases, mut waiting) = (Vec::new(), Vec::new());
        for (name, line) in &self.lines().names {
            let head = match &line.head {
                HeadState::Holding(lease) => {
                    leases.push(Weak::clone(lease));
                    None
                }
                HeadState::Trying | HeadState::Refused(_) => Some(line.head_since),
            };
            let Some(oldest) = head.into_iter().chain(line.oldest()).min() else { continue };
            waiting.push(WaitingName {
                name: Arc::clone(name),
                requests: line.len() + usize::from(head.is_some()),
                oldest: now.saturating_duration_since(oldest),
            });
        }
        (leases, waiting)
    }

    /// Returns for each name of a resource whether requests of this process hold it or want it.
    pub(crate) fn have_lines(&self, resource: &Resource) -> Vec<bool> {
        let lines = self.lines();
        resource.shared_names().iter().map(|name| lines.names.contains_key(name)).collect()
    }

    /// Releases all leases that linger.
    pub(crate) fn end_lingers(&self) {
        let lingering = |line: &Line| line.lingering();
        let leases: Vec<_> = self.lines().names.values().filter_map(lingering).collect();
        leases.iter().for_each(LocalLease::end_linger);
    }

    /// Takes the turn on a name, takes part in the lease at its head, or joins its line, whose place must be
    /// polled. `has_turns`: the request has the turn on other names of its set.
    fn join(
        &self,
        name: &Arc<str>,
        resource: &Resource,
        plan: &Arc<Plan>,
        since: Timestamp,
        has_turns: bool,
    ) -> ControlFlow<Given, LinePlace> {
        // A shared lease that this request could not join.
        let mut declined = None;
        let place = loop {
            let mut guard = self.lines();
            let lines = &mut *guard;
            let line = match lines.names.entry(Arc::clone(name)) {
                Entry::Occupied(line) => line.into_mut(),
                Entry::Vacant(entry) => {
                    entry.insert(Line::new(since));
                    lines.begun(name);
                    return ControlFlow::Break(Given::Turn);
                }
            };
            if let Some(lease) = line.lingering() {
                drop(guard);
                if has_turns {
                    lease.end_linger();
                } else if let Some(grant) = lease.take_over(resource, plan) {
                    return ControlFlow::Break(Given::Granted(grant));
                }
                continue;
            }
            if declined.is_none()
                && let Some(lease) = line.open_to(resource, plan)
            {
                drop(guard);
                if let Some(grant) = lease.join(resource, plan) {
                    return ControlFlow::Break(Given::Granted(grant));
                }
                declined = Some(lease);
                continue;
            }
            let is_full = line.len() >= self.bounds.per_name
                || lines.waiting + lines.heads >= self.bounds.total;
            if is_full || (plan.wait.is_zero() && !matches!(line.head, HeadState::Trying)) {
                let head = line.head.clone();
                drop(guard);
                if is_full {
                    crate::log::debug!(%name, "request refused: too many wait");
                }
                let error = self.explain(&head).unwrap_or_else(|| self.held_here(None));
                return ControlFlow::Break(Given::Verdict(error));
            }
            lines.waiting += 1;
            break line.join(resource, plan, since);
        };
        metrics::waits();
        if let Some(lease) = declined {
            // It may have been renewed before this request was in line.
            self.admit_sharers(name, &lease, false);
        }
        ControlFlow::Continue(place)
    }

    /// Polls a place in the line of a name.
    fn poll_place(&self, name: &Arc<str>, place: &LinePlace, cx: &Context<'_>) -> Poll<Given> {
        // A waker is user code, which may leave a line, so it is cloned before the lock and dropped after it.
        let waker = crate::sync::clone_waker(cx.waker());
        let mut lines = self.lines();
        if let Some(given) = place.cell.take() {
            return Poll::Ready(given);
        }
        let waiter = lines.names.get_mut(name).and_then(|line| line.waiter(place));
        debug_assert!(waiter.is_some(), "a place that was given nothing is in its line");
        let replaced = waiter.map(|waiter| std::mem::replace(&mut waiter.waker, waker));
        drop(lines);
        drop(replaced);
        Poll::Pending
    }

    /// Passes the turn on a name to the first waiter, or removes an empty line.
    pub(super) fn pass_on(&self, name: &Arc<str>) {
        let next = {
            let mut guard = self.lines();
            let lines = &mut *guard;
            let Entry::Occupied(mut line) = lines.names.entry(Arc::clone(name)) else { return };
            line.get_mut().head = HeadState::Trying;
            line.get_mut().next_turn();
            if let Some(waiter) = line.get_mut().pop_first() {
                line.get_mut().head_since = waiter.since;
                waiter.give(Given::Turn);
                Some((waiter, lines.wait_no_more(1)))
            } else {
                drop(line.remove());
                lines.ended(name);
                None
            }
        };
        if let Some((waiter, left)) = next {
            left.update_gauge();
            crate::sync::wake(waiter.waker);
        }
    }

    /// Sets the state of a head. Returns whether requests for a single attempt wait for its verdict.
    pub(super) fn set_head(&self, name: &Arc<str>, head: &HeadState) -> bool {
        let mut lines = self.lines();
        let Some(line) = lines.names.get_mut(name) else { return false };
        line.head = head.clone();
        if matches!(head, HeadState::Holding(_)) {
            line.at_grant = line.len() + 1;
        }
        line.has_one_shots()
    }

    /// Lets the shared requests that wait for a name join its lease: all of them when it is granted,
    /// later only while none waits that can't join, as new ones do.
    pub(super) fn admit_sharers(&self, name: &Arc<str>, lease: &Arc<LocalLease>, at_grant: bool) {
        let (mut after, mut wakers) = (None, Vec::new());
        while lease.is_open() {
            let next = {
                let lines = self.lines();
                let line = lines.names.get(name);
                let line = line.filter(|line| at_grant || line.open_head().is_some());
                let next = line.and_then(|line| line.next_shared(after));
                next.map(|(id, waiter)| (id, waiter.resource.clone(), Arc::clone(&waiter.plan)))
            };
            let Some((id, resource, plan)) = next else { break };
            after = Some(id);
            let Some(grant) = lease.join(&resource, &plan) else { continue };
            let waiter = {
                let mut guard = self.lines();
                let lines = &mut *guard;
                let waiter = lines.names.get_mut(name).and_then(|line| line.take(id));
                waiter.map(|waiter| {
                    waiter.give(Given::Granted(Arc::clone(&grant)));
                    (waiter, lines.wait_no_more(1))
                })
            };
            match waiter {
                Some((waiter, left)) => {
                    left.update_gauge();
                    wakers.push(waiter.waker);
                }
                // It left meanwhile.
                None => grant.release(false),
            }
        }
        crate::sync::wake_all(wakers);
    }

    /// Lets the shared requests that wait join the lease at the head of a line, if new ones could. Must
    /// not be called with a mutex locked.
    pub(crate) fn readmit(&self, name: &Arc<str>) {
        if let Some(lease) = self.holder(name).filter(|lease| lease.is_shared()) {
            self.admit_sharers(name, &lease, false);
        }
    }

    /// Gives the verdict of a head to the requests for a single attempt.
    pub(super) fn give_verdict(&self, name: &Arc<str>, head: &HeadState) {
        let Some(verdict) = self.explain(head) else { return };
        let (left, leaving) = {
            let mut guard = self.lines();
            let lines = &mut *guard;
            let Some(line) = lines.names.get_mut(name) else { return };
            let leaving = line.take_one_shots();
            let left = lines.wait_no_more(leaving.len());
            let give = |waiter: Waiter| {
                waiter.give(Given::Verdict(verdict.clone()));
                waiter.waker
            };
            (left, leaving.into_iter().map(give).collect::<Vec<_>>())
        };
        left.update_gauge();
        crate::sync::wake_all(leaving);
    }
}

/// Counts a request that waits at the head of a line, until it is dropped.
#[derive(Debug)]
pub(crate) struct CountedWaiter {
    queue: Arc<Queue>,
}

impl Drop for CountedWaiter {
    fn drop(&mut self) {
        self.queue.lines().heads -= 1;
        metrics::wait_no_more(1);
    }
}

/// The wait for the head of all lines of a resource. Leaves them when it is dropped.
#[derive(Debug)]
pub(crate) struct QueueWait {
    ticket: Option<Ticket>,
    place: Option<LinePlace>,
    /// The time of the request.
    since: Timestamp,
}

/// The successful end of a [`QueueWait`].
#[derive(Debug)]
pub(crate) enum Admission {
    /// The turn at the head.
    Ask(Ticket),
    /// A lease that its holder in this process handed on.
    Granted(Arc<ActiveLease>),
}

impl QueueWait {
    /// Polls for an admission, or for the verdict of another request's attempt.
    pub(crate) fn poll(
        &mut self,
        plan: &Arc<Plan>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Admission, LockError>> {
        while let Some(ticket) = &mut self.ticket {
            let Some(name) = ticket.resource.shared_names().get(ticket.turns) else {
                return Poll::Ready(
                    self.ticket.take().map(Admission::Ask).ok_or(LockError::Closed),
                );
            };
            let given = if let Some(place) = &self.place {
                ready!(ticket.queue.poll_place(name, place, cx))
            } else {
                let has_turns = ticket.turns > 0;
                let Ticket { queue, resource, .. } = &*ticket;
                match queue.join(name, resource, plan, self.since, has_turns) {
                    ControlFlow::Break(given) => given,
                    ControlFlow::Continue(place) => {
                        self.place = Some(place);
                        if has_turns {
                            // Later requests for the first names of the set need a verdict now.
                            ticket.report(&ticket.queue.held_here(None));
                        }
                        continue;
                    }
                }
            };
            self.place = None;
            match given {
                Given::Turn => ticket.turns += 1,
                Given::Granted(lease) => {
                    // The lease keeps the turns, and the ticket has none.
                    debug_assert_eq!(ticket.turns, 0, "a granted lease is for all names");
                    return Poll::Ready(Ok(Admission::Granted(lease)));
                }
                Given::Verdict(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Pending
    }

    /// Returns the error for a wait that timed out, by the state of the head.
    pub(crate) fn known(&self) -> LockError {
        let Some(ticket) = &self.ticket else { return LockError::Closed };
        let name = ticket.resource.shared_names().get(ticket.turns);
        let head = name.and_then(|name| Some(ticket.queue.lines().names.get(name)?.head.clone()));
        head.and_then(|head| ticket.queue.explain(&head))
            .unwrap_or_else(|| ticket.queue.held_here(None))
    }
}

impl Drop for QueueWait {
    fn drop(&mut self) {
        let (Some(ticket), Some(place)) = (&self.ticket, self.place.take()) else { return };
        let Some(name) = ticket.resource.shared_names().get(ticket.turns) else { return };
        let (given, left) = {
            let mut guard = ticket.queue.lines();
            let lines = &mut *guard;
            let waiter = lines.names.get_mut(name).and_then(|line| line.leave(&place));
            let left = waiter.map(|waiter| (waiter, lines.wait_no_more(1)));
            (place.cell.take(), left)
        };
        if let Some((_waiter, left)) = left {
            left.update_gauge();
            ticket.queue.readmit(name);
        }
        match given {
            Some(Given::Turn) => ticket.queue.pass_on(name),
            Some(Given::Granted(grant)) => grant.release(false),
            Some(Given::Verdict(_)) | None => {}
        }
    }
}

#[cfg(test)]
#[path = "../tests/queue.rs"]
mod tests;
