//! The slots of a name, as one process uses them.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::known_slots::KnownSlots;
use crate::{
    error::LockError,
    lock::{
        queue::Queue,
        wakeups::{RetryHistory, SHORTEST_PAUSE},
    },
    resource::{Resource, ResourceError},
    sync::{Guard, Mutex},
    time::Timestamp,
};

/// Maximum number of slots, of all names, that are remembered while none of them is requested. A
/// slot takes up to 2 KiB, and names may come from clients.
const MAX_IDLE_SLOTS: usize = 4_096;
/// Minimum interval between two reports of other numbers of slots for one name.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// The names with slots that this process uses or has used.
#[derive(Debug, Default)]
pub(crate) struct SlotSets(Mutex<RememberedSets>);

#[derive(Debug, Default)]
struct RememberedSets {
    sets: HashMap<NameAndCount, Arc<SlotSet>>,
    /// For each line, what its first request knew when it was handed a slot. Only while the next one has
    /// not begun.
    watches: HashMap<Resource, Watch>,
    /// Number of slots of all sets.
    slots: usize,
    /// Number of slots that were in use when idle sets were last removed.
    in_use: usize,
}

type NameAndCount = (Arc<str>, u32);

/// A number of slots of one name.
#[derive(Debug)]
pub(super) struct SlotSet {
    pub(super) name: Arc<str>,
    /// The lock of each slot.
    slots: Box<[Resource]>,
    /// All of these locks.
    pub(super) all: Resource,
    /// Their names, and the one of the slot after them.
    pub(super) inspected: Arc<[Arc<str>]>,
    /// The line of this process's requests that wait for one of this number of slots; no lock has its name.
    pub(super) line: Resource,
    state: Mutex<SlotSetState>,
}

#[derive(Debug)]
struct SlotSetState {
    /// The slot that is tried first: the one that this process held last.
    home: u32,
    /// The slots that requests of this process are trying.
    trying: Vec<bool>,
    /// When this process may try each slot: later while other processes have their turn.
    turns: Vec<Timestamp>,
    /// When another number of slots was last reported.
    reported: Option<Timestamp>,
    /// What the first request in line read last, and until when others use it.
    read: Option<(KnownSlots, Timestamp)>,
}

/// What the first request in line knows of releases, for the one that is first after it.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) retries: RetryHistory,
    pub(super) known: KnownSlots,
    /// When a slot that is left to other processes may be tried.
    pub(super) next_turn: Option<Timestamp>,
    /// Result of the last round.
    pub(super) error: LockError,
}

impl SlotSets {
    /// Returns the slots of a name. `owner` determines the first one that is tried.
    pub(super) fn get(
        &self,
        name: &Arc<str>,
        count: u32,
        owner: &str,
    ) -> Result<Arc<SlotSet>, ResourceError> {
        let key = (Arc::clone(name), count);
        if let Some(set) = crate::sync::lock(&self.0).sets.get(&key) {
            return Ok(Arc::clone(set));
        }
        let set = Arc::new(SlotSet::new(name, count, owner)?);
        let mut remembered = crate::sync::lock(&self.0);
        let idle = remembered.take_idle();
        let set = remembered.insert(key, set);
        drop(remembered);
        drop(idle);
        Ok(set)
    }

    /// Keeps what the first request in line knows, for the next one.
    pub(super) fn keep_watch(&self, line: &Resource, watch: Watch) {
        let former = crate::sync::lock(&self.0).watches.insert(line.clone(), watch);
        drop(former);
    }

    /// Returns what the first request in line knew before, and keeps it no longer.
    pub(super) fn take_watch(&self, line: &Resource) -> Option<Watch> {
        crate::sync::lock(&self.0).watches.remove(line)
    }
}

impl RememberedSets {
    /// Removes the sets that no request uses, if there may be too many.
    fn take_idle(&mut self) -> Vec<(NameAndCount, Arc<SlotSet>)> {
        // Slots in use count twice, because a removal at each call would take quadratic time.
        if self.slots < MAX_IDLE_SLOTS + 2 * self.in_use {
            return Vec::new();
        }
        let is_idle = |set: &Arc<SlotSet>| Arc::strong_count(set) == 1;
        let idle = self.sets.extract_if(|_, set| is_idle(set)).collect();
        self.slots = self.sets.values().map(|set| set.slots.len()).sum();
        self.in_use = self.slots;
        idle
    }

    fn insert(&mut self, key: NameAndCount, set: Arc<SlotSet>) -> Arc<SlotSet> {
        let slots = &mut self.slots;
        let insert = || {
            *slots += set.slots.len();
            set
        };
        Arc::clone(self.sets.entry(key).or_insert_with(insert))
    }
}

impl SlotSet {
    fn new(name: &Arc<str>, count: u32, owner: &str) -> Result<Self, ResourceError> {
        let slots: Box<[_]> =
            (0..count).map(|slot| Resource::of_slot(name, slot)).collect::<Result<_, _>>()?;
        let all = Resource::of_slots(name, count);
        let next = Resource::of_slots(name, count + 1);
        let home = u32::try_from(crate::hash::fnv(owner) % u64::from(count)).unwrap_or(0);
        let state = SlotSetState {
            home,
            trying: vec![false; slots.len()],
            turns: vec![Timestamp::ZERO; slots.len()],
            reported: None,
            read: None,
        };
        Ok(Self {
            name: Arc::clone(name),
            inspected: next.shared_names().into(),
            line: Resource::of_any_slot(name, count),
            state: Mutex::new(state),
            all,
            slots,
        })
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn slot(&self, number: u32) -> Option<&Resource> {
        self.slots.get(usize::try_from(number).ok()?)
    }

    /// Reserves a slot that may be free and that no other request of this process holds or tries.
    /// `turn` returns when this process may try a slot, for a request that waits; without a slot that
    /// it may try now, returns when there is one.
    pub(super) fn reserve(
        self: &Arc<Self>,
        queue: &Queue,
        known: &KnownSlots,
        now: Timestamp,
        turn: Option<&impl Fn(&Resource) -> Timestamp>,
    ) -> Result<ReservedSlot, Option<Timestamp>> {
        let used_here = queue.have_lines(&self.all);
        let mut state = self.state();
        let mut next = None;
        for number in known.candidates(state.home) {
            let Ok(slot) = usize::try_from(number) else { break };
            if state.trying[slot] {
                continue;
            }
            if used_here[slot] {
                // The request that released it may not have left its line yet.
                if turn.is_some() && known.is_free(slot) {
                    next = Some(next.unwrap_or(Timestamp::MAX).min(now + SHORTEST_PAUSE));
                }
                continue;
            }
            if let (Some(turn), Timestamp::ZERO) = (turn, state.turns[slot]) {
                state.turns[slot] = turn(&self.slots[slot]);
            }
            if turn.is_none() || state.turns[slot] <= now {
                (state.turns[slot], state.trying[slot]) = (Timestamp::ZERO, true);
                let has_spare = known.free().any(|slot| !used_here[slot] && !state.trying[slot]);
                drop(state);
                return Ok(ReservedSlot { set: Arc::clone(self), number, has_spare });
            }
            let earlier = next.is_none_or(|next| state.turns[slot] < next);
            next = if earlier { Some(state.turns[slot]) } else { next };
        }
        Err(next)
    }

    /// Records the slot that this process holds now.
    pub(super) fn prefer(&self, slot: u32) {
        self.state().home = slot;
    }

    /// Keeps what was read for other requests of this process.
    pub(super) fn remember(&self, known: &KnownSlots, until: Timestamp) {
        let former = self.state().read.replace((known.clone(), until));
        drop(former);
    }

    /// Returns what another request read.
    pub(super) fn recall(&self, now: Timestamp) -> Option<KnownSlots> {
        let state = self.state();
        state.read.as_ref().filter(|(_, until)| now < *until).map(|(known, _)| known.clone())
    }

    /// Forgets what was read, because it has changed.
    pub(super) fn forget(&self) {
        let former = self.state().read.take();
        drop(former);
    }

    /// Returns whether another number of slots is reported now.
    pub(super) fn may_report(&self, now: Timestamp) -> bool {
        let mut state = self.state();
        let is_due = state
            .reported
            .is_none_or(|last| now.saturating_duration_since(last) >= REPORT_INTERVAL);
        if is_due {
            state.reported = Some(now);
        }
        is_due
    }

    fn state(&self) -> Guard<'_, SlotSetState> {
        crate::sync::lock(&self.state)
    }
}

/// A slot that no other request of this process tries meanwhile.
#[derive(Debug)]
pub(super) struct ReservedSlot {
    set: Arc<SlotSet>,
    pub(super) number: u32,
    /// Whether another slot was found free.
    pub(super) has_spare: bool,
}

impl Drop for ReservedSlot {
    fn drop(&mut self) {
        if let Ok(slot) = usize::try_from(self.number) {
            self.set.state().trying[slot] = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_slots_are_bounded() {
        let sets = SlotSets::default();
        let get = |nth: usize| sets.get(&format!("name-{nth}").into(), 256, "owner").unwrap();
        let used = get(0);

        for nth in 1..100 {
            get(nth);
            let remembered = crate::sync::lock(&sets.0);
            let slots = remembered.sets.len() * 256;
            assert_eq!(slots, remembered.slots);
            assert!(slots <= MAX_IDLE_SLOTS + 3 * 256, "{slots}");
        }
        assert!(Arc::ptr_eq(&used, &get(0)), "a set in use stays");
    }
}
