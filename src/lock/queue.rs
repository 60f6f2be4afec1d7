//! The line of those who want a name within this process, first come first served.
//!
//! Only who stands at the head asks the servers, so that a process contends for a name with one
//! voice. Who does not want to wait takes over what the head finds out.

use std::{
    collections::{BTreeMap, HashMap},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, Weak},
    task::{Context, Poll, Waker},
};

use super::lease::ActiveLease;
use crate::{error::LockError, resource::Resource, time::Timers};

#[derive(Debug)]
pub(crate) struct Queue {
    owner: Arc<str>,
    timers: Arc<Timers>,
    lines: Mutex<HashMap<Arc<str>, Line>>,
}

#[derive(Debug, Default)]
struct Line {
    head: Head,
    waiters: BTreeMap<u64, Waiter>,
    next_id: u64,
    /// The waiter that the turn was passed to and that has not taken it yet.
    passed_to: Option<u64>,
}

/// What the one at the head of a line is doing.
#[derive(Debug, Default)]
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
    verdict: Option<LockError>,
}

impl Queue {
    pub(crate) fn new(owner: Arc<str>, timers: Arc<Timers>) -> Self {
        Self { owner, timers, lines: Mutex::default() }
    }

    /// Lines up for all names of a resource.
    pub(crate) fn enter(self: &Arc<Self>, resource: &Resource, one_shot: bool) -> Queueing {
        Queueing {
            ticket: Some(Ticket { queue: Arc::clone(self), resource: resource.clone(), turns: 0 }),
            one_shot,
            place: None,
        }
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a name that is taken within this process.
    fn known(&self, line: &Line) -> Option<LockError> {
        match &line.head {
            Head::Trying => None,
            Head::Refused(error) => Some(error.clone()),
            Head::Holding(lease) => Some(self.held_here(lease)),
        }
    }

    fn held_here(&self, lease: &Weak<ActiveLease>) -> LockError {
        let now = self.timers.clock().now();
        let retry_after = lease.upgrade().map(|lease| lease.valid_until().since(now));
        LockError::Held { retry_after, owner: Some(Arc::clone(&self.owner)) }
    }

    /// Passes the turn of a name on to the next in line.
    fn pass_on(&self, name: &Arc<str>) {
        let waker = {
            let mut lines = self.lines();
            let Some(line) = lines.get_mut(name) else { return };
            line.head = Head::Trying;
            line.passed_to = line.waiters.keys().next().copied();
            match line.passed_to.and_then(|id| line.waiters.get(&id)) {
                Some(waiter) => waiter.waker.clone(),
                None => {
                    lines.remove(name);
                    return;
                }
            }
        };
        waker.wake();
    }

    /// Tells a line what its head is doing now; those who want no more than one attempt leave.
    fn set_head(&self, name: &Arc<str>, head: Head) {
        let mut woken = Vec::new();
        {
            let mut lines = self.lines();
            let Some(line) = lines.get_mut(name) else { return };
            line.head = head;
            let verdict = self.known(line);
            for waiter in line.waiters.values_mut().filter(|waiter| waiter.one_shot) {
                waiter.verdict.clone_from(&verdict);
                woken.push(waiter.waker.clone());
            }
        }
        woken.into_iter().for_each(Waker::wake);
    }
}

/// The way to the head of all lines of a resource. Leaves them when it is dropped.
#[derive(Debug)]
pub(crate) struct Queueing {
    ticket: Option<Ticket>,
    one_shot: bool,
    place: Option<u64>,
}

impl Queueing {
    /// Ready with the turn, or with the verdict that somebody else's attempt brought.
    pub(crate) fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Ticket, LockError>> {
        let this = &mut *self;
        while let Some(ticket) = &mut this.ticket {
            let Some(name) = ticket.resource.shared_names().get(ticket.turns) else {
                return Poll::Ready(this.ticket.take().ok_or(LockError::Closed));
            };
            match ticket.queue.step(name, &mut this.place, this.one_shot, cx.waker()) {
                Poll::Ready(Ok(())) => ticket.turns += 1,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    // Who waits behind us for the names that we have learns that it is held.
                    let held = LockError::Held {
                        retry_after: None,
                        owner: Some(Arc::clone(&ticket.queue.owner)),
                    };
                    ticket.report(&held);
                    return Poll::Pending;
                }
            }
        }
        Poll::Pending
    }

    /// What is known of the name that is waited for: for the error when the wait is over.
    pub(crate) fn known(&self) -> LockError {
        let unknown = |owner| LockError::Held { retry_after: None, owner };
        let Some(ticket) = &self.ticket else { return unknown(None) };
        let queue = &ticket.queue;
        let lines = queue.lines();
        ticket
            .resource
            .shared_names()
            .get(ticket.turns)
            .and_then(|name| lines.get(name))
            .and_then(|line| queue.known(line))
            .unwrap_or_else(|| unknown(Some(Arc::clone(&queue.owner))))
    }
}

impl Queue {
    /// One look at the line of one name.
    fn step(
        &self,
        name: &Arc<str>,
        place: &mut Option<u64>,
        one_shot: bool,
        waker: &Waker,
    ) -> Poll<Result<(), LockError>> {
        let mut lines = self.lines();
        let Some(id) = *place else {
            let Some(line) = lines.get_mut(name) else {
                lines.insert(Arc::clone(name), Line::default());
                return Poll::Ready(Ok(()));
            };
            if one_shot && let Some(error) = self.known(line) {
                return Poll::Ready(Err(error));
            }
            let id = line.next_id;
            line.next_id += 1;
            let waiter = Waiter { waker: waker.clone(), one_shot, verdict: None };
            line.waiters.insert(id, waiter);
            *place = Some(id);
            return Poll::Pending;
        };
        let Some(line) = lines.get_mut(name) else { return Poll::Pending };
        if line.passed_to == Some(id) {
            line.passed_to = None;
            line.waiters.remove(&id);
            *place = None;
            return Poll::Ready(Ok(()));
        }
        let Some(waiter) = line.waiters.get_mut(&id) else { return Poll::Pending };
        if let Some(error) = waiter.verdict.take() {
            line.waiters.remove(&id);
            *place = None;
            return Poll::Ready(Err(error));
        }
        waiter.waker.clone_from(waker);
        Poll::Pending
    }
}

impl Drop for Queueing {
    fn drop(&mut self) {
        let (Some(ticket), Some(id)) = (&self.ticket, self.place.take()) else { return };
        let Some(name) = ticket.resource.shared_names().get(ticket.turns) else { return };
        let was_passed = {
            let mut lines = ticket.queue.lines();
            let Some(line) = lines.get_mut(name) else { return };
            line.waiters.remove(&id);
            line.passed_to == Some(id)
        };
        if was_passed {
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
}

impl Ticket {
    /// Tells the lines that an attempt failed.
    pub(crate) fn report(&self, error: &LockError) {
        for name in self.names() {
            self.queue.set_head(name, Head::Refused(error.clone()));
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
        Arc::new(Queue::new("me".into(), timers))
    }

    fn names<const N: usize>(names: [&str; N]) -> Resource {
        Resource::try_from(names).unwrap()
    }

    fn poll(queueing: &mut Queueing) -> Poll<Result<Ticket, LockError>> {
        Pin::new(queueing).poll(&mut Context::from_waker(Waker::noop()))
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
        assert!(queue.lines().is_empty(), "an idle name keeps no memory");
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
        assert!(queue.lines().is_empty());
    }

    #[test]
    fn a_single_attempt_takes_over_the_verdict_of_the_head() {
        let queue = queue();
        let a = names(["a"]);
        let head = turn(&mut queue.enter(&a, false));
        let mut early = queue.enter(&a, true);
        assert!(poll(&mut early).is_pending(), "the head knows nothing yet");
        let held = LockError::Held { retry_after: None, owner: Some("other".into()) };
        head.report(&held);
        assert!(matches!(poll(&mut early), Poll::Ready(Err(error)) if error == held));
        let mut late = queue.enter(&a, true);
        assert!(matches!(poll(&mut late), Poll::Ready(Err(error)) if error == held));
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
        assert!(queue.lines().is_empty());
    }
}
