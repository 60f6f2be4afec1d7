//! The holders of slots, which are counted whatever their numbers.

use std::sync::Arc;

use super::{HoldGuard, Oracle, Promise, holds::Hold};

/// A slot that a client holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldSlot {
    /// The name that has the slots.
    pub name: &'static str,
    /// The slot's number; a control that counts holders has none.
    pub number: Option<u32>,
    /// The number of slots that the client uses.
    pub slots: u32,
}

impl HeldSlot {
    /// The lock of the slot: two holders never have the same.
    fn lock(&self) -> Vec<String> {
        self.number.iter().map(|number| lock_of(self.name, *number)).collect()
    }
}

fn lock_of(name: &str, slot: u32) -> String {
    format!("slot:{slot}:{name}")
}

impl Oracle {
    /// Records that a client holds a slot from now on, while `belief` returns true. Token 0 means no
    /// fencing.
    pub fn slot_held(
        &self,
        client: usize,
        slot: HeldSlot,
        token: u64,
        belief: impl Fn() -> bool + Send + Sync + 'static,
    ) -> HoldGuard {
        let HeldSlot { name, number, slots } = slot;
        self.event(format!("c{client} holds slot {number:?} of {slots} of {name} token {token}"));
        self.count("slots");
        // Only the control, which has no tokens, has no numbers.
        if number.map_or(token > 0, |number| number >= slots) {
            let text = format!("c{client} holds slot {number:?} of {slots} of {name}");
            self.broken(Promise::Slots, text);
        }
        let names = slot.lock();
        let (slot, is_shared) = (Some(slot), false);
        self.add(Hold { client, names, slot, is_shared, token, belief: Arc::new(belief) })
    }

    /// Returns the number of holds of the first `slots` slots of a name.
    pub fn holds_of_slots(&self, name: &str, slots: u32) -> usize {
        (0..slots).map(|slot| self.holds_of(&lock_of(name, slot))).sum()
    }
}

impl HoldGuard {
    /// Checks that holders of slots of one name, this one included, are at most as many as the
    /// greatest number of slots that one of them uses.
    pub(super) fn check_slots(&self) {
        let Some(own) = self.hold().and_then(|hold| hold.slot) else { return };
        let is_of_name =
            |_, hold: &Hold| hold.slot.as_ref().is_some_and(|slot| slot.name == own.name);
        let holds = self.oracle.holds_where(is_of_name);
        let believing: Vec<_> = holds.into_iter().filter(|hold| (hold.belief)()).collect();
        let slots = believing.iter().filter_map(|hold| Some(hold.slot.as_ref()?.slots)).max();
        let most = usize::try_from(slots.unwrap_or(0)).unwrap_or(usize::MAX);
        if believing.len() > most {
            let show = |hold: &Hold| {
                let number = hold.slot.as_ref().and_then(|slot| slot.number);
                format!("c{} ({}, slot {number:?})", hold.client, hold.token)
            };
            let holders: Vec<_> = believing.iter().map(show).collect();
            let text = format!("{} hold {most} slots of {}", holders.join(", "), own.name);
            self.oracle.broken(Promise::Slots, text);
        }
    }
}
