use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
    task::Waker,
};

use super::list::{Key, List};
use crate::{
    error::LockError,
    lock::{lease::ActiveLease, settings::Plan},
    metrics,
    resource::Resource,
};

#[derive(Debug, Default)]
pub(super) struct Lines {
    /// A line exists while somebody has the turn on its name.
    pub(super) names: HashMap<Arc<str>, Line>,
    /// How many wait in all lines.
    pub(super) waiting: usize,
    /// How many wait at the head of a line: for another process, or to ask the nodes.
    pub(super) heads: usize,
}

#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) head: Head,
    /// By their order of arrival, numbered over both lists.
    patient: List<Waiter>,
    /// Those who want one attempt only, and so take over the head's verdict.
    one_shots: List<Waiter>,
    next_id: u64,
    /// How many stood in line when the nodes granted the lease that is held, its holder included.
    at_grant: usize,
    /// How many were turned away and have not had the time of a turn since: they come back.
    pub(super) turned_away: usize,
}

/// What the one at the head of a line is doing.
#[derive(Clone, Debug, Default)]
pub(super) enum Head {
    /// Its first attempt is under way.
    #[default]
    Trying,
    /// Its last attempt failed; it will try again.
    Refused(LockError),
    Holding(Weak<ActiveLease>),
}

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) waker: Waker,
    /// What it wants, all names of a set included.
    pub(super) resource: Resource,
    pub(super) plan: Plan,
    slot: Arc<Mutex<Slot>>,
}

/// What a waiter has been given; it has left the line then.
#[derive(Debug)]
pub(super) enum Slot {
    Waiting,
    Turn,
    /// The lease itself. To be released, where nobody comes to fetch it.
    Granted(Arc<ActiveLease>),
    Verdict(LockError),
}

/// A place in the line of one name.
#[derive(Debug)]
pub(super) struct Place {
    key: Key,
    is_one_shot: bool,
    /// Written only with the lines locked.
    slot: Arc<Mutex<Slot>>,
}

impl Lines {
    /// Waiters left their lines; the gauge is told once the lines are unlocked.
    pub(super) fn wait_no_more(&mut self, waiters: usize) -> Left {
        self.waiting -= waiters;
        Left(waiters)
    }
}

/// How many waiters left their lines, for the gauge.
#[derive(Debug)]
#[must_use = "the gauge is to be told once nothing is locked"]
pub(crate) struct Left(usize);

impl Left {
    pub(crate) fn tell(self) {
        metrics::wait_no_more(self.0);
    }
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.patient.len() + self.one_shots.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.patient.is_empty() && self.one_shots.is_empty()
    }

    /// Takes a place. Its waker is set when the place is polled: cloning one is foreign code, which
    /// is not called under the lock of the lines.
    pub(super) fn join(&mut self, resource: &Resource, plan: &Plan) -> Place {
        let id = self.next_id;
        self.next_id += 1;
        let slot = Arc::new(Mutex::new(Slot::Waiting));
        let waiter = Waiter {
            waker: Waker::noop().clone(),
            resource: resource.clone(),
            plan: *plan,
            slot: Arc::clone(&slot),
        };
        let is_one_shot = plan.wait.is_zero();
        let key = self.list(is_one_shot).push(id, waiter);
        Place { key, is_one_shot, slot }
    }

    pub(super) fn waiter(&mut self, place: &Place) -> Option<&mut Waiter> {
        self.list(place.is_one_shot).get_mut(place.key)
    }

    pub(super) fn leave(&mut self, place: &Place) -> Option<Waiter> {
        self.list(place.is_one_shot).remove(place.key)
    }

    fn list(&mut self, is_one_shot: bool) -> &mut List<Waiter> {
        if is_one_shot { &mut self.one_shots } else { &mut self.patient }
    }

    /// Who came first.
    pub(super) fn pop_first(&mut self) -> Option<Waiter> {
        let first = |list: &List<Waiter>| list.first().map(|(id, _)| id);
        let (patient, one_shot) = (first(&self.patient), first(&self.one_shots));
        let is_one_shot = one_shot.is_some_and(|id| patient.is_none_or(|other| id < other));
        self.list(is_one_shot).pop_first()
    }

    pub(super) fn has_one_shots(&self) -> bool {
        !self.one_shots.is_empty()
    }

    /// All who leave with the head's verdict.
    pub(super) fn take_one_shots(&mut self) -> Vec<Waiter> {
        self.one_shots.take_all()
    }

    /// Who came first, if nobody waits for a verdict.
    pub(super) fn first_patient(&self) -> Option<&Waiter> {
        let first = self.patient.first().map(|(_, waiter)| waiter);
        first.filter(|_| self.one_shots.is_empty())
    }

    /// The turn passes on: one of those that were turned away may have come back in its time.
    pub(super) fn next_turn(&mut self) {
        self.turned_away = self.turned_away.saturating_sub(1);
    }

    /// The nodes have granted the lease that is held.
    pub(super) fn granted(&mut self) {
        self.at_grant = self.len() + 1;
    }

    /// How many stood in line when they did, the holder included.
    pub(super) fn at_grant(&self) -> usize {
        self.at_grant
    }
}

impl Waiter {
    pub(super) fn give(&self, what: Slot) {
        *crate::sync::lock(&self.slot) = what;
    }
}

impl Place {
    pub(super) fn take(&self) -> Slot {
        let mut slot = crate::sync::lock(&self.slot);
        std::mem::replace(&mut slot, Slot::Waiting)
    }
}
