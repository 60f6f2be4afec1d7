//! What a request knows of the slots of a name.

use std::{sync::Arc, time::Duration};

use crate::error::{LockError, SlotHolder, Votes};

/// The known state of each slot, by its number.
#[derive(Clone, Debug)]
pub(super) struct KnownSlots(Box<[SlotState]>);

#[derive(Clone, Debug)]
enum SlotState {
    /// Not read yet; it may be free.
    Unknown,
    Free,
    Held(HeldSlot),
}

/// A slot that is held.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldSlot {
    pub(super) owner: Option<Arc<str>>,
    pub(super) expires_in: Option<Duration>,
    pub(super) votes: Votes,
}

impl KnownSlots {
    pub(super) fn new(count: u32) -> Self {
        Self((0..count).map(|_| SlotState::Unknown).collect())
    }

    pub(super) fn set_held(&mut self, slot: u32, held: HeldSlot) {
        self.set(slot, SlotState::Held(held));
    }

    pub(super) fn set_free(&mut self, slot: u32) {
        self.set(slot, SlotState::Free);
    }

    fn set(&mut self, slot: u32, state: SlotState) {
        if let Some(known) = usize::try_from(slot).ok().and_then(|slot| self.0.get_mut(slot)) {
            *known = state;
        }
    }

    /// Returns the slots that may be free, from `home` on, and from the first one after the last.
    pub(super) fn candidates(&self, home: u32) -> impl Iterator<Item = u32> {
        let count = self.count();
        let may_be_free = |slot: &u32| {
            let state = usize::try_from(*slot).ok().and_then(|slot| self.0.get(slot));
            matches!(state, Some(SlotState::Unknown | SlotState::Free))
        };
        (home..count).chain(0..home.min(count)).filter(may_be_free)
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn is_free(&self, slot: usize) -> bool {
        matches!(self.0.get(slot), Some(SlotState::Free))
    }

    /// Returns the slots that were found free.
    pub(super) fn free(&self) -> impl Iterator<Item = usize> {
        let is_free = |(_, state): &(usize, &SlotState)| matches!(state, SlotState::Free);
        self.0.iter().enumerate().filter(is_free).map(|(slot, _)| slot)
    }

    /// Returns the error for a request that found no free slot. A slot that was found free is being
    /// acquired by another request of this process, `owner`.
    pub(super) fn full(&self, owner: &Arc<str>) -> LockError {
        let held = |(slot, state): (u32, &SlotState)| match state {
            SlotState::Held(held) => {
                SlotHolder { slot, owner: held.owner.clone(), expires_in: held.expires_in }
            }
            SlotState::Unknown => SlotHolder { slot, owner: None, expires_in: None },
            SlotState::Free => {
                SlotHolder { slot, owner: Some(Arc::clone(owner)), expires_in: None }
            }
        };
        let slots: Box<[_]> = (0..).zip(&self.0).map(held).collect();
        let first =
            slots.iter().min_by_key(|holder| holder.expires_in.unwrap_or(Duration::MAX)).cloned();
        let votes = |slot: &SlotHolder| match self.0.get(usize::try_from(slot.slot).ok()?) {
            Some(SlotState::Held(held)) => Some(held.votes.clone()),
            _ => None,
        };
        LockError::Held {
            retry_after: None,
            expires_in: first.as_ref().and_then(|first| first.expires_in),
            owner: first.as_ref().and_then(|first| first.owner.clone()),
            lingers: false,
            readers: 0,
            waiter: None,
            votes: first.as_ref().and_then(votes).unwrap_or_default(),
            slots,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(owner: &str, seconds: u64) -> HeldSlot {
        let expires_in = Some(Duration::from_secs(seconds));
        HeldSlot { owner: Some(owner.into()), expires_in, votes: Votes::default() }
    }

    #[test]
    fn candidates_begin_at_home_and_go_round() {
        let mut known = KnownSlots::new(4);
        let order = |known: &KnownSlots, home| known.candidates(home).collect::<Vec<_>>();

        assert_eq!(order(&known, 0), [0, 1, 2, 3]);
        assert_eq!(order(&known, 2), [2, 3, 0, 1]);
        assert_eq!(order(&known, 9), [0, 1, 2, 3], "of a time with more slots");

        known.set_held(2, held("a", 1));
        known.set_free(3);
        known.set_held(4, held("a", 1));

        assert_eq!(order(&known, 2), [3, 0, 1]);
    }

    #[test]
    fn full_set_names_every_holder_and_the_first_end() {
        let mut known = KnownSlots::new(3);
        known.set_held(0, held("a", 5));
        known.set_held(1, held("b", 2));
        known.set_free(2);

        let LockError::Held { expires_in, owner, slots, .. } = known.full(&"me".into()) else {
            panic!("not held");
        };

        assert_eq!((expires_in, owner.as_deref()), (Some(Duration::from_secs(2)), Some("b")));
        let owners: Vec<_> = slots.iter().map(|slot| slot.owner.as_deref().unwrap()).collect();
        assert_eq!(owners, ["a", "b", "me"], "the last one is being acquired here");
    }
}
