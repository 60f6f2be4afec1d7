use std::{
    sync::Arc,
    task::{Context, Poll},
};

use super::{
    line::{Place, Slot},
    queue::Queue,
    ticket::Ticket,
};
use crate::{
    error::LockError,
    lock::{lease::ActiveLease, settings::Plan},
    resource::Resource,
};

/// The way to the head of all lines of a resource. Leaves them when it is dropped.
#[derive(Debug)]
pub(crate) struct Queueing {
    ticket: Option<Ticket>,
    place: Option<Place>,
}

/// What there is at the head of the lines.
#[derive(Debug)]
pub(crate) enum Turn {
    /// The nodes may be asked.
    Ask(Ticket),
    /// The lease is ours: the holder before, of this process, handed it on.
    Granted(Arc<ActiveLease>),
}

impl Queueing {
    pub(super) fn new(queue: Arc<Queue>, resource: Resource) -> Self {
        Self { ticket: Some(Ticket::new(queue, resource)), place: None }
    }

    /// Ready with the turn, or with the verdict that somebody else's attempt brought.
    pub(crate) fn poll(
        &mut self,
        plan: &Plan,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Turn, LockError>> {
        while let Some(ticket) = &mut self.ticket {
            let Some(name) = ticket.resource.shared_names().get(ticket.turns) else {
                return Poll::Ready(self.ticket.take().map(Turn::Ask).ok_or(LockError::Closed));
            };
            let Some(place) = &self.place else {
                self.place = ticket.queue.join(name, &ticket.resource, plan)?;
                if self.place.is_none() {
                    ticket.turns += 1;
                } else if ticket.turns > 0 {
                    // Who waits behind us for the names that we have learns why.
                    ticket.report(&ticket.queue.held_here(None));
                }
                continue;
            };
            // Foreign code, which may leave a line: cloned before the lock, dropped after it.
            let waker = crate::sync::clone_waker(cx.waker());
            let mut lines = ticket.queue.lines();
            let given = place.take();
            if matches!(given, Slot::Waiting) {
                let waiter = lines.names.get_mut(name).and_then(|line| line.waiter(place));
                let replaced = waiter.map(|waiter| std::mem::replace(&mut waiter.waker, waker));
                drop(lines);
                drop(replaced);
                return Poll::Pending;
            }
            drop(lines);
            self.place = None;
            match given {
                Slot::Waiting => {}
                Slot::Turn => ticket.turns += 1,
                // The turns came with it: our own ticket has none.
                Slot::Granted(lease) => return Poll::Ready(Ok(Turn::Granted(lease))),
                Slot::Verdict(error) => return Poll::Ready(Err(error)),
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
        let (given, gone) = {
            let mut guard = ticket.queue.lines();
            let lines = &mut *guard;
            let gone = lines.names.get_mut(name).and_then(|line| line.leave(&place));
            let gone = gone.map(|waiter| (waiter, lines.wait_no_more(1)));
            (place.take(), gone)
        };
        if let Some((_waiter, left)) = gone {
            left.tell();
        }
        match given {
            Slot::Turn => ticket.queue.pass_on(name),
            Slot::Granted(lease) => lease.release(false),
            Slot::Waiting | Slot::Verdict(_) => {}
        }
    }
}
