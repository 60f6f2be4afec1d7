//! Sets of tasks that wait for the same event.

use std::task::Waker;

/// The tasks that wait for one event, such as the end of a lease. Usually there is one, which takes
/// no memory of its own.
///
/// Wakers are user code, even when they are cloned or dropped. So callers clone them before they
/// lock the set, and drop or wake the wakers that its methods return after they have unlocked it.
#[derive(Debug, Default)]
pub(crate) struct WakerSet {
    first: WakerSlot,
    more: Vec<WakerSlot>,
}

#[derive(Debug, Default)]
enum WakerSlot {
    #[default]
    Free,
    /// Reserved for a task, without a waker after a wake-up.
    Reserved(Option<Waker>),
}

/// Maximum number of slots that [`WakerSet::shrink`] keeps allocated.
const KEPT_SLOTS: usize = 4;

/// A task's slot in a [`WakerSet`]; the default has none yet.
#[derive(Debug, Default)]
pub(crate) struct WakerKey(Option<usize>);

impl WakerKey {
    pub(crate) fn is_registered(&self) -> bool {
        self.0.is_some()
    }
}

impl WakerSet {
    /// Registers the task to wake, in the slot of `key` or in a new one. Returns the waker that it
    /// replaces.
    #[must_use = "the replaced waker is dropped after unlocking"]
    pub(crate) fn register(&mut self, key: &mut WakerKey, waker: Waker) -> Option<Waker> {
        let slot = *key.0.get_or_insert_with(|| {
            let free = self.slots().position(|slot| matches!(slot, WakerSlot::Free));
            free.unwrap_or_else(|| {
                self.more.push(WakerSlot::Free);
                self.more.len()
            })
        });
        match std::mem::replace(self.slot(slot), WakerSlot::Reserved(Some(waker))) {
            WakerSlot::Reserved(replaced) => replaced,
            WakerSlot::Free => None,
        }
    }

    /// Frees the slot of `key`, if it has one. Returns the waker in it.
    #[must_use = "the waker is dropped after unlocking"]
    pub(crate) fn remove(&mut self, key: &mut WakerKey) -> Option<Waker> {
        match std::mem::take(self.slot(key.0.take()?)) {
            WakerSlot::Reserved(waker) => waker,
            WakerSlot::Free => None,
        }
    }

    /// Moves all wakers to `wakers`. The tasks keep their slots.
    pub(crate) fn take(&mut self, wakers: &mut Vec<Waker>) {
        wakers.extend(self.slots().filter_map(|slot| match slot {
            WakerSlot::Reserved(waker) => waker.take(),
            WakerSlot::Free => None,
        }));
    }

    /// Frees the memory of many slots. All slots have to be free.
    pub(crate) fn shrink(&mut self) {
        if self.more.len() > KEPT_SLOTS {
            *self = Self::default();
        }
    }

    fn slot(&mut self, i: usize) -> &mut WakerSlot {
        if i == 0 { &mut self.first } else { &mut self.more[i - 1] }
    }

    fn slots(&mut self) -> impl Iterator<Item = &mut WakerSlot> {
        std::iter::once(&mut self.first).chain(&mut self.more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_reused() {
        let mut set = WakerSet::default();
        let mut kept = WakerKey::default();
        let _ = set.register(&mut kept, Waker::noop().clone());

        for _ in 0..1_000 {
            let mut key = WakerKey::default();
            let _ = set.register(&mut key, Waker::noop().clone());
            let _ = set.register(&mut key, Waker::noop().clone());
            let _ = set.remove(&mut key);
        }
        assert_eq!(set.slots().count(), 2);
        let mut woken = Vec::new();
        set.take(&mut woken);
        assert_eq!(woken.len(), 1);
        let _ = set.register(&mut kept, Waker::noop().clone());
        set.take(&mut woken);

        assert_eq!(woken.len(), 2, "a task keeps its slot");
    }
}
