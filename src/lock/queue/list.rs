/// A linked list in one piece of memory: joining at the end, and leaving from anywhere, take the
/// same time however many are in it.
#[derive(Debug)]
pub(in crate::lock) struct List<T> {
    slots: Vec<Slot<T>>,
    /// The first of the slots that are free.
    free: Option<usize>,
    first: Option<usize>,
    last: Option<usize>,
    len: usize,
}

/// Where an item is: its slot, and its number, as the slot may be another's by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lock) struct Key {
    slot: usize,
    id: u64,
}

#[derive(Debug)]
enum Slot<T> {
    Free { next: Option<usize> },
    Used(Item<T>),
}

#[derive(Debug)]
struct Item<T> {
    id: u64,
    before: Option<usize>,
    behind: Option<usize>,
    value: T,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: None, first: None, last: None, len: 0 }
    }
}

impl<T> List<T> {
    pub(in crate::lock) fn len(&self) -> usize {
        self.len
    }

    pub(in crate::lock) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an item at the end. No two items have the same number.
    pub(in crate::lock) fn push(&mut self, id: u64, value: T) -> Key {
        let item = Slot::Used(Item { id, before: self.last, behind: None, value });
        let slot = if let Some(slot) = self.free {
            let free = std::mem::replace(&mut self.slots[slot], item);
            self.free = if let Slot::Free { next } = free { next } else { None };
            slot
        } else {
            self.slots.push(item);
            self.slots.len() - 1
        };
        match self.last.and_then(|last| self.item(last)) {
            Some(last) => last.behind = Some(slot),
            None => self.first = Some(slot),
        }
        self.last = Some(slot);
        self.len += 1;
        Key { slot, id }
    }

    pub(in crate::lock) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.item(key.slot).filter(|item| item.id == key.id).map(|item| &mut item.value)
    }

    pub(in crate::lock) fn remove(&mut self, key: Key) -> Option<T> {
        self.get_mut(key)?;
        self.take(key.slot)
    }

    /// The first item, and its number.
    pub(in crate::lock) fn first(&self) -> Option<(u64, &T)> {
        match self.slots.get(self.first?)? {
            Slot::Used(item) => Some((item.id, &item.value)),
            Slot::Free { .. } => None,
        }
    }

    pub(in crate::lock) fn pop_first(&mut self) -> Option<T> {
        self.take(self.first?)
    }

    /// All items, in their order.
    pub(in crate::lock) fn take_all(&mut self) -> Vec<T> {
        let mut list = std::mem::take(self);
        std::iter::from_fn(|| list.pop_first()).collect()
    }

    fn item(&mut self, slot: usize) -> Option<&mut Item<T>> {
        match self.slots.get_mut(slot)? {
            Slot::Used(item) => Some(item),
            Slot::Free { .. } => None,
        }
    }

    fn take(&mut self, slot: usize) -> Option<T> {
        self.item(slot)?;
        let taken = std::mem::replace(&mut self.slots[slot], Slot::Free { next: self.free });
        let Slot::Used(item) = taken else { return None };
        self.free = Some(slot);
        self.len -= 1;
        match item.before.and_then(|before| self.item(before)) {
            Some(before) => before.behind = item.behind,
            None => self.first = item.behind,
        }
        match item.behind.and_then(|behind| self.item(behind)) {
            Some(behind) => behind.before = item.before,
            None => self.last = item.before,
        }
        Some(item.value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn it_is_as_a_map_by_number_whatever_joins_and_leaves() {
        let mut list = List::default();
        let mut map = BTreeMap::new();
        let mut keys = Vec::new();
        let mut random = 1_u64;
        for id in 0..10_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let lot = usize::try_from(random >> 33).unwrap();
            match lot % 8 {
                0..4 => {
                    keys.push((id, list.push(id, id)));
                    map.insert(id, id);
                }
                // Who has left stays away: its slot may be another's.
                4..7 if !keys.is_empty() => {
                    let (id, key) = keys[lot / 8 % keys.len()];
                    assert_eq!(list.get_mut(key).copied(), map.get(&id).copied());
                    assert_eq!(list.remove(key), map.remove(&id));
                    assert_eq!(list.remove(key), None);
                }
                _ => assert_eq!(list.pop_first(), map.pop_first().map(|(_, value)| value)),
            }
            assert_eq!(list.first().map(|(id, _)| id), map.keys().next().copied());
            assert_eq!((list.len(), list.is_empty()), (map.len(), map.is_empty()));
        }
        let most = list.slots.len();
        assert!(most < 10_000 / 2, "slots are used again: {most}");
        assert!(list.take_all().into_iter().eq(map.into_values()));
        assert!(list.is_empty());
    }
}
