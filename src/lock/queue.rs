//! The line of those who want a name within this process, first come first served.
//!
//! Only who stands at the head asks the servers, so that a process contends for a name with one
//! voice. Who does not want to wait takes over what the head finds out.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, Weak},
    task::{Context, Poll, Waker},
    time::Duration,
};

use super::{lease::ActiveLease, settings::LineBounds};
use crate::{
    error::LockError,
    metrics,
    resource::Resource,
    time::{Timers, Timestamp},
};

#[derive(Debug)]
pub(crate) struct Queue {
    owner: Arc<str>,
    timers: Arc<Timers>,
    /// A line exists while somebody has the turn on its name.
    lines: Mutex<Lines>,
    bounds: LineBounds,
}

#[derive(Debug, Default)]
struct Lines {
    names: HashMap<Arc<str>, Line>,
    /// How many wait in all lines.
    waiting: usize,
}

#[derive(Debug, Default)]
struct Line {
    head: Head,
    waiters: BTreeMap<u64, Waiter>,
    next_id: u64,
    /// Since when this process has held the name, one task after the other.
    row: Option<Timestamp>,
}

/// What the one at the head of a line is doing.
#[derive(Clone, Debug, Default)]
enum Head {
    /// Its first attempt is under way.
    #[default]
    Trying,
    /// Its last attempt failed; it will try again.
    Refused(LockError),
    Holding(Weak<ActiveLease>),
}

#[derive(Debug)]
struct Waiter {
    waker: Waker,
    /// Wants one attempt only, and so takes over the head's verdict.
    one_shot: bool,
    slot: Arc<Mutex<Slot>>,
}

/// What a waiter has been given; it has left the line then.
#[derive(Debug)]
enum Slot {
    Waiting,
    Turn {
        /// The row is long: other processes are to have a chance first.
        yields: bool,
    },
    Verdict(LockError),
}

/// After a row of this length the next one in line makes a pause before it tries: the others, who
/// find out by trying now and then, would hardly ever meet a free name otherwise.
const LONGEST_ROW: Duration = Duration::from_millis(100);

impl Queue {
    pub(crate) fn new(owner: Arc<str>, timers: Arc<Timers>, bounds: LineBounds) -> Self {
        Self { owner, timers, lines: Mutex::default(), bounds }
    }

    /// Lines up for all names of a resource.
    pub(crate) fn enter(self: &Arc<Self>, resource: &Resource, one_shot: bool) -> Queueing {
        let ticket =
            Ticket { queue: Arc::clone(self), resource: resource.clone(), turns: 0, yields: false };
        Queueing { ticket: Some(ticket), one_shot, place: None }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        crate::sync::lock(&self.lines)
    }

    /// What the head's state says to one who wants the name; nothing during its first attempt.
    /// Not to be called with the lines locked: it may drop the last handle of a lease.
    fn explain(&self, head: &Head) -> Option<LockError> {
        match head {
            Head::Trying => None,
            Head::Refused(error) => Some(error.clone()),
            Head::Holding(lease) => {
                let now = self.timers.clock().now();
                let retry_after = lease.upgrade().map(|lease| lease.valid_until().since(now));
                Some(self.held_here(retry_after))
            }
        }
    }

    fn held_here(&self, retry_after: Option<Duration>) -> LockError {
        LockError::Held { retry_after, owner: Some(Arc::clone(&self.owner)) }
    }

    /// Takes the turn on a name, or a place in its line.
    fn join(
        &self,
        name: &Arc<str>,
        one_shot: bool,
        waker: &Waker,
    ) -> Result<Option<Place>, LockError> {
        let mut guard = self.lines();
        let lines = &mut *guard;
        let Some(line) = lines.names.get_mut(name) else {
            lines.names.insert(Arc::clone(name), Line::default());
            return Ok(None);
        };
        let is_full = line.waiters.len() >= self.bounds.per_name;
        let are_full = lines.waiting >= self.bounds.total;
        if is_full || are_full || (one_shot && !matches!(line.head, Head::Trying)) {
            let head = line.head.clone();
            drop(guard);
            if is_full || are_full {
                tracing::debug!(%name, "too many requests wait: one is told at once");
            }
            return Err(self.explain(&head).unwrap_or_else(|| self.held_here(None)));
        }
        lines.waiting += 1;
        metrics::waits();
        let id = line.next_id;
        line.next_id += 1;
        let slot = Arc::new(Mutex::new(Slot::Waiting));
        let waiter = Waiter { waker: waker.clone(), one_shot, slot: Arc::clone(&slot) };
        line.waiters.insert(id, waiter);
        Ok(Some(Place { id, slot }))
    }

    /// Passes the turn on a name on to the first in line; without one the line is gone.
    fn pass_on(&self, name: &Arc<str>) {
        let next = {
            let mut guard = self.lines();
            let lines = &mut *guard;
            let Some(line) = lines.names.get_mut(name) else { return };
            line.head = Head::Trying;
            let now = self.timers.clock().now();
            let yields = line.row.is_some_and(|since| now.since(since) >= LONGEST_ROW);
            if yields {
                line.row = None;
            }
            let next = line.waiters.pop_first();
            match &next {
                Some((_, waiter)) => {
                    lines.wait_no_more(1);
                    waiter.give(Slot::Turn { yields });
                }
                None => drop(lines.names.remove(name)),
            }
            next
        };
        if let Some((_, waiter)) = next {
            waiter.waker.wake();
        }
    }

    /// Tells a line what its head is doing now; those who want one attempt leave with that.
    fn set_head(&self, name: &Arc<str>, head: Head) {
        let verdict = self.explain(&head);
        let mut leaving = Vec::new();
        {
            let mut guard = self.lines();
            let lines = &mut *guard;
            let Some(line) = lines.names.get_mut(name) else { return };
            line.row = match &head {
                Head::Holding(_) => line.row.or_else(|| Some(self.timers.clock().now())),
                Head::Trying | Head::Refused(_) => None,
            };
            line.head = head;
            if let Some(verdict) = verdict {
                line.waiters.retain(|_, waiter| {
                    if waiter.one_shot {
                        waiter.give(Slot::Verdict(verdict.clone()));
                        leaving.push(waiter.waker.clone());
                    }
                    !waiter.one_shot
                });
                lines.wait_no_more(leaving.len());
            }
        }
        leaving.into_iter().for_each(Waker::wake);
    }
}

impl Lines {
    fn wait_no_more(&mut self, waiters: usize) {
        self.waiting -= waiters;
        metrics::wait_no_more(waiters);
    }
}

impl Waiter {
    fn give(&self, what: Slot) {
        *crate::sync::lock(&self.slot) = what;
    }
}

/// A place in the line of one name.
#[derive(Debug)]
struct Place {
    id: u64,
    /// Written only with the lines locked.
    slot: Arc<Mutex<Slot>>,
}

impl Place {
    fn take(&self) -> Slot {
        let mut slot = crate::sync::lock(&self.slot);
        std::mem::replace(&mut slot, Slot::Waiting)
    }
}

/// The way to the head of all lines of a resource. Leaves them when it is dropped.
#[derive(Debug)]
pub(crate) struct Queueing {
    ticket: Option<Ticket>,
    one_shot: bool,
    place: Option<Place>,
}

impl Queueing {
    /// Ready with the turn, or with the verdict that somebody else's attempt brought.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Ticket, LockError>> {
        while let Some(ticket) = &mut self.ticket {
            let Some(name) = ticket.resource.shared_names().get(ticket.turns) else {
                return Poll::Ready(self.ticket.take().ok_or(LockError::Closed));
            };
            let Some(place) = &self.place else {
                self.place = ticket.queue.join(name, self.one_shot, cx.waker())?;
                if self.place.is_none() {
                    ticket.turns += 1;
                } else if ticket.turns > 0 {
                    // Who waits behind us for the names that we have learns why.
                    ticket.report(&ticket.queue.held_here(None));
                }
                continue;
            };
            let mut lines = ticket.queue.lines();
            match place.take() {
                Slot::Waiting => {
                    let waiter =
                        lines.names.get_mut(name).and_then(|l| l.waiters.get_mut(&place.id));
                    if let Some(waiter) = waiter {
                        waiter.waker.clone_from(cx.waker());
                    }
                    return Poll::Pending;
                }
                Slot::Turn { yields } => {
                    drop(lines);
                    ticket.yields |= yields;
                    self.place = None;
                    ticket.turns += 1;
                }
                Slot::Verdict(error) => {
                    drop(lines);
                    self.place = None;
                    return Poll::Ready(Err(error));
                }
            }
        }
        Poll::Pending
    }

    /// What is known of the name that is waited for: for the error when the wait is over.
    pub(crate) fn known(&self) -> LockError {
        let Some(ticket) = &self.ticket else { return LockError::Closed };
        let name = ticket.resource.shared_names().get(ticket.turns);
        let head = name.and_then(|name| Some(ticket.queue.lines().names.get(name)?.head.clone()));
        head.and_then(|head| ticket.queue.explain(&head))
            .unwrap_or_else(|| ticket.queue.held_here(None))
    }
}

impl Drop for Queueing {
    fn drop(&mut self) {
        let (Some(ticket), Some(place)) = (&self.ticket, self.place.take()) else { return };
        let Some(name) = ticket.resource.shared_names().get(ticket.turns) else { return };
        let has_turn = {
            let mut guard = ticket.queue.lines();
            let lines = &mut *guard;
            let line = lines.names.get_mut(name);
            if line.is_some_and(|line| line.waiters.remove(&place.id).is_some()) {
                lines.wait_no_more(1);
            }
            matches!(place.take(), Slot::Turn { .. })
        };
        if has_turn {
            ticket.queue.pass_on(name);
        }
    }
}

/// The turn on a resource's names. Dropping it passes the turn on.
#[derive(Debug)]
pub(crate) struct Ticket {
    queue: Arc<Queue>,
    resource: Resource,
    /// For how many of the names, from the first, the turn is ours.
    turns: usize,
    yields: bool,
}

impl Ticket {
    /// Whether other processes are to have a chance before the turn is used.
    pub(crate) fn is_to_yield(&self) -> bool {
        self.yields
    }

    /// Tells the lines that an attempt failed.
    pub(crate) fn report(&self, error: &LockError) {
        // Of a set it is not known which of its names somebody else holds.
        let known = match self.names() {
            [_] => error.clone(),
            _ => self.queue.held_here(None),
        };
        for name in self.names() {
            self.queue.set_head(name, Head::Refused(known.clone()));
        }
    }

    /// Tells the lines who holds the names now.
    pub(crate) fn holding(&self, lease: &Arc<ActiveLease>) {
        for name in self.names() {
            self.queue.set_head(name, Head::Holding(Arc::downgrade(lease)));
        }
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

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::time::SystemClock;

    fn queue() -> Arc<Queue> {
        let timers = Arc::new(Timers::new(Arc::new(SystemClock::new())));
        Arc::new(Queue::new("me".into(), timers, LineBounds { per_name: 10, total: 12 }))
    }

    fn names<const N: usize>(names: [&str; N]) -> Resource {
        Resource::try_from(names).unwrap()
    }

    fn poll(queueing: &mut Queueing) -> Poll<Result<Ticket, LockError>> {
        queueing.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[track_caller]
    fn turn(queueing: &mut Queueing) -> Ticket {
        match poll(queueing) {
            Poll::Ready(Ok(ticket)) => ticket,
            other => panic!("no turn: {other:?}"),
        }
    }

    #[test]
    fn turns_go_in_the_order_of_arrival_and_skip_who_has_left() {
        let queue = queue();
        let a = names(["a"]);
        let first = turn(&mut queue.enter(&a, false));
        let mut waiting: Vec<_> = (0..4).map(|_| queue.enter(&a, false)).collect();
        assert!(waiting.iter_mut().all(|w| poll(w).is_pending()));
        drop(waiting.remove(1));
        drop(first);
        for mut next in waiting {
            let ticket = turn(&mut next);
            drop(ticket);
        }
        assert!(queue.lines().names.is_empty(), "an idle name keeps no memory");
    }

    #[test]
    fn who_leaves_with_the_turn_in_hand_passes_it_on() {
        let queue = queue();
        let a = names(["a"]);
        let first = turn(&mut queue.enter(&a, false));
        let mut second = queue.enter(&a, false);
        let mut third = queue.enter(&a, false);
        assert!(poll(&mut second).is_pending() && poll(&mut third).is_pending());
        drop(first);
        drop(second);
        drop(turn(&mut third));
        assert!(queue.lines().names.is_empty());
    }

    #[test]
    fn a_single_attempt_takes_over_the_verdict_of_the_head() {
        let queue = queue();
        let a = names(["a"]);
        let head = turn(&mut queue.enter(&a, false));
        let mut early = queue.enter(&a, true);
        assert!(poll(&mut early).is_pending(), "the head knows nothing yet");
        let error = LockError::Held { retry_after: None, owner: Some("other".into()) };
        head.report(&error);
        assert!(matches!(poll(&mut early), Poll::Ready(Err(found)) if found == error));
        let mut late = queue.enter(&a, true);
        assert!(matches!(poll(&mut late), Poll::Ready(Err(found)) if found == error));
    }

    #[test]
    fn overlapping_sets_neither_deadlock_nor_keep_single_attempts_waiting() {
        let queue = queue();
        let b = turn(&mut queue.enter(&names(["b"]), false));
        let mut both = queue.enter(&names(["b", "a"]), false);
        assert!(poll(&mut both).is_pending(), "has a, waits for b");
        let mut one_shot = queue.enter(&names(["a"]), true);
        assert!(matches!(poll(&mut one_shot), Poll::Ready(Err(LockError::Held { .. }))));
        let mut other_order = queue.enter(&names(["a", "b"]), false);
        assert!(poll(&mut other_order).is_pending());
        drop(b);
        drop(turn(&mut both));
        drop(turn(&mut other_order));
        assert!(queue.lines().names.is_empty());
    }
}
