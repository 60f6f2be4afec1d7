//! The lines of all names, their waiters, and the turn at their heads.
//!
//! A line, a turn and a lease have each other: a line knows the lease at its head, which has the turn and
//! hands it on. So these types are in one file, and their methods in others.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    ops::Bound,
    sync::{Arc, Weak},
    task::Waker,
    time::Duration,
};

use crate::{
    error::LockError,
    lock::{
        lease::{ActiveLease, LocalLease},
        settings::{LineBounds, Plan},
    },
    metrics,
    resource::Resource,
    sync::{Guard, Mutex},
    time::Timestamp,
};

/// The lines of all names of a manager.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(super) owner: Arc<str>,
    lines: Mutex<Lines>,
    pub(super) bounds: LineBounds,
}

impl Queue {
    pub(crate) fn new(owner: Arc<str>, bounds: LineBounds) -> Self {
        Self { owner, lines: Mutex::default(), bounds }
    }

    pub(super) fn lines(&self) -> Guard<'_, Lines> {
        crate::sync::lock(&self.lines)
    }
}

/// The turn on a resource's names. Dropping it passes the turn on.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(super) queue: Arc<Queue>,
    pub(super) resource: Resource,
    /// Number of names, from the first, whose turn it has.
    pub(super) turns: usize,
}

#[derive(Debug, Default)]
pub(super) struct Lines {
    /// A line exists while a request has the turn on its name.
    pub(super) names: HashMap<Arc<str>, Line>,
    /// For each name, the lines of requests for any of its slots, one for each number of slots, in the order
    /// in which they began.
    for_slots: HashMap<Arc<str>, Vec<Arc<str>>>,
    /// Number of waiters in all lines.
    pub(super) waiting: usize,
    /// Number of requests that wait at the head of a line: for another process, or for a permit.
    pub(super) heads: usize,
}

impl Lines {
    /// Records that a line has begun.
    pub(super) fn begun(&mut self, line: &Arc<str>) {
        if let Some(name) = Resource::any_slot_of(line) {
            self.for_slots.entry(name.into()).or_default().push(Arc::clone(line));
        }
    }

    /// Records that a line has ended.
    pub(super) fn ended(&mut self, line: &Arc<str>) {
        let Some(name) = Resource::any_slot_of(line) else { return };
        let Some(lines) = self.for_slots.get_mut(name) else { return };
        lines.retain(|other| other != line);
        if lines.is_empty() {
            self.for_slots.remove(name);
        }
    }

    /// Returns the line whose next request may get this slot of a name; of several lines, the one whose
    /// next request came first, or which began first.
    pub(super) fn for_slot(&self, number: u32, name: &str) -> Option<Arc<str>> {
        let since = |line: &Arc<str>| {
            let next = self.names.get(line)?.next_for_slot()?;
            next.plan.takes_slot(number).then_some(next.since)
        };
        let lines = self.for_slots.get(name)?.iter();
        let lines = lines.filter_map(|line| Some((since(line)?, line)));
        lines.min_by_key(|(since, _)| *since).map(|(_, line)| Arc::clone(line))
    }

    /// Counts waiters that left their lines. The gauge is updated once the lines are unlocked.
    pub(super) fn wait_no_more(&mut self, waiters: usize) -> LeftWaiters {
        self.waiting -= waiters;
        LeftWaiters(waiters)
    }
}

/// A hand-off of a lease to a waiter.
#[derive(Debug)]
pub(crate) struct HandedOn {
    pub(crate) lease: Arc<ActiveLease>,
    /// Wakes the waiter once nothing is locked.
    pub(crate) waker: Waker,
    pub(crate) left: LeftWaiters,
}

/// Number of waiters that left their lines, for the gauge.
#[derive(Debug)]
#[must_use = "the gauge is updated once nothing is locked"]
pub(crate) struct LeftWaiters(usize);

impl LeftWaiters {
    pub(crate) fn update_gauge(self) {
        metrics::wait_no_more(self.0);
    }
}

#[derive(Debug)]
pub(super) struct Line {
    pub(super) head: HeadState,
    /// The time of the head's request.
    pub(super) head_since: Timestamp,
    /// Requests that wait, by order of arrival. Ids are unique over both maps.
    patient: BTreeMap<u64, Waiter>,
    /// Requests for a single attempt, which receive the head's verdict.
    one_shots: BTreeMap<u64, Waiter>,
    /// Number of the shared requests that wait, by their TTLs.
    sharers: HashMap<Duration, usize>,
    next_id: u64,
    /// The head, while it pauses in the line for any slot of a name.
    pub(super) stand_by: Option<Box<Waiter>>,
    /// Number of requests in line, holder included, when the nodes granted the current lease.
    pub(super) at_grant: usize,
    /// Number of requests that were refused and are expected to return. Each turn decrements it.
    pub(super) turned_away: usize,
}

/// The state of the request at the head of a line.
#[derive(Clone, Debug)]
pub(super) enum HeadState {
    /// Its first attempt is in flight.
    Trying,
    /// Its last attempt failed, and another one follows.
    Refused(Box<LockError>),
    /// It holds the lease, or the lease lingers.
    Holding(Weak<LocalLease>),
}

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) waker: Waker,
    /// The requested resource, with all names of a set.
    pub(super) resource: Resource,
    pub(super) plan: Arc<Plan>,
    /// The time of the request.
    pub(super) since: Timestamp,
    cell: GivenCell,
}

/// Receives what ends the wait of a request. It is filled when the waiter is removed from the line. Written
/// with the lines locked.
#[derive(Clone, Debug, Default)]
pub(super) struct GivenCell(Arc<Mutex<Option<Given>>>);

/// What ends the wait of a request in a line.
#[derive(Debug)]
pub(super) enum Given {
    Turn,
    /// A lease of this process. The request has to release it if it is dropped.
    Granted(Arc<ActiveLease>),
    Verdict(LockError),
}

impl GivenCell {
    pub(super) fn give(&self, given: Given) {
        let former = crate::sync::lock(&self.0).replace(given);
        debug_assert!(former.is_none(), "a wait ends once");
    }

    pub(super) fn take(&self) -> Option<Given> {
        crate::sync::lock(&self.0).take()
    }
}

/// A place in the line of one name.
#[derive(Debug)]
pub(super) struct LinePlace {
    id: u64,
    is_one_shot: bool,
    pub(super) cell: GivenCell,
}

impl Line {
    pub(super) fn new(head_since: Timestamp) -> Self {
        Self {
            head: HeadState::Trying,
            head_since,
            patient: BTreeMap::new(),
            one_shots: BTreeMap::new(),
            sharers: HashMap::new(),
            next_id: 0,
            stand_by: None,
            at_grant: 0,
            turned_away: 0,
        }
    }

    /// Returns the lease at the head if it lingers.
    pub(super) fn lingering(&self) -> Option<Arc<LocalLease>> {
        match &self.head {
            HeadState::Holding(lease) => lease.upgrade().filter(|lease| lease.is_lingering()),
            HeadState::Trying | HeadState::Refused(_) => None,
        }
    }

    /// Returns the lease at the head if this request may join it.
    pub(super) fn open_to(&self, resource: &Resource, plan: &Plan) -> Option<Arc<LocalLease>> {
        self.open_head().filter(|lease| lease.fits(resource, plan))
    }

    /// Returns the lease at the head if further shared requests may join it: none waits that can't,
    /// such as an exclusive one.
    pub(super) fn open_head(&self) -> Option<Arc<LocalLease>> {
        let HeadState::Holding(lease) = &self.head else { return None };
        let lease = lease.upgrade().filter(|lease| lease.is_open())?;
        // A shared request is for one name, which is the line's.
        let fitting = self.sharers.get(&lease.ttl()).copied().unwrap_or(0);
        (fitting == self.len()).then_some(lease)
    }

    /// Returns the first shared request after this id.
    pub(super) fn next_shared(&self, after: Option<u64>) -> Option<(u64, &Waiter)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let first = |waiters: &'_ BTreeMap<u64, Waiter>| {
            let mut later = waiters.range((from, Bound::Unbounded));
            later.find(|(_, waiter)| waiter.plan.is_shared()).map(|(id, _)| *id)
        };
        let found = [first(&self.patient), first(&self.one_shots)].into_iter().flatten();
        let id = found.min()?;
        Some((id, self.patient.get(&id).or_else(|| self.one_shots.get(&id))?))
    }

    pub(super) fn take(&mut self, id: u64) -> Option<Waiter> {
        let taken = self.patient.remove(&id).or_else(|| self.one_shots.remove(&id))?;
        Some(self.left(taken))
    }

    /// Counts a request that leaves the line.
    fn left(&mut self, waiter: Waiter) -> Waiter {
        if waiter.plan.is_shared()
            && let Entry::Occupied(mut count) = self.sharers.entry(waiter.plan.ttl)
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        waiter
    }

    /// Returns the time of the oldest request in line.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        // Requests of sets join the lines of their later names later.
        self.patient.values().chain(self.one_shots.values()).map(|waiter| waiter.since).min()
    }

    pub(super) fn len(&self) -> usize {
        self.patient.len() + self.one_shots.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Joins the line. The first poll sets the waker: cloning a waker is user code, which is not
    /// called with the lines locked.
    pub(super) fn join(
        &mut self,
        resource: &Resource,
        plan: &Arc<Plan>,
        since: Timestamp,
    ) -> LinePlace {
        let id = self.next_id;
        self.next_id += 1;
        let waiter = Waiter::new(resource, plan, since);
        let cell = waiter.cell.clone();
        let is_one_shot = plan.wait.is_zero();
        if plan.is_shared() {
            *self.sharers.entry(plan.ttl).or_default() += 1;
        }
        self.waiters(is_one_shot).insert(id, waiter);
        LinePlace { id, is_one_shot, cell }
    }

    pub(super) fn waiter(&mut self, place: &LinePlace) -> Option<&mut Waiter> {
        self.waiters(place.is_one_shot).get_mut(&place.id)
    }

    pub(super) fn leave(&mut self, place: &LinePlace) -> Option<Waiter> {
        let left = self.waiters(place.is_one_shot).remove(&place.id)?;
        Some(self.left(left))
    }

    fn waiters(&mut self, is_one_shot: bool) -> &mut BTreeMap<u64, Waiter> {
        if is_one_shot { &mut self.one_shots } else { &mut self.patient }
    }

    pub(super) fn pop_first(&mut self) -> Option<Waiter> {
        let first = |waiters: &BTreeMap<u64, Waiter>| waiters.keys().next().copied();
        let (patient, one_shot) = (first(&self.patient), first(&self.one_shots));
        let is_one_shot = one_shot.is_some_and(|id| patient.is_none_or(|other| id < other));
        let (_, first) = self.waiters(is_one_shot).pop_first()?;
        Some(self.left(first))
    }

    pub(super) fn has_one_shots(&self) -> bool {
        !self.one_shots.is_empty()
    }

    pub(super) fn take_one_shots(&mut self) -> Vec<Waiter> {
        let taken = std::mem::take(&mut self.one_shots);
        taken.into_values().map(|waiter| self.left(waiter)).collect()
    }

    /// Returns the first waiter, unless a single attempt waits for a verdict.
    pub(super) fn first_patient(&self) -> Option<&Waiter> {
        self.patient.values().next().filter(|_| self.one_shots.is_empty())
    }

    /// Returns the request that gets the next slot: the head while it pauses, or the first waiter.
    pub(super) fn next_for_slot(&self) -> Option<&Waiter> {
        self.stand_by.as_deref().or_else(|| self.first_patient())
    }

    /// Records that the turn passes to the next request.
    pub(super) fn next_turn(&mut self) {
        self.turned_away = self.turned_away.saturating_sub(1);
    }
}

impl Waiter {
    /// Creates a waiter, whose waker is set by its first poll.
    pub(super) fn new(resource: &Resource, plan: &Arc<Plan>, since: Timestamp) -> Self {
        Self {
            waker: Waker::noop().clone(),
            resource: resource.clone(),
            plan: Arc::clone(plan),
            since,
            cell: GivenCell::default(),
        }
    }

    pub(super) fn cell(&self) -> &GivenCell {
        &self.cell
    }

    /// Returns whether this is its cell.
    pub(super) fn has(&self, cell: &GivenCell) -> bool {
        Arc::ptr_eq(&self.cell.0, &cell.0)
    }

    pub(super) fn give(&self, given: Given) {
        self.cell.give(given);
    }
}
