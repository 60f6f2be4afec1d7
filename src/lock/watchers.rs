use std::task::Waker;

/// The tasks that watch one lease. There is nearly always one.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    slots: Vec<Option<Waker>>,
}

/// A watcher's place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchKey(usize);

impl Watchers {
    /// Remembers whom to wake; `key` is the watcher's place from its last call, if it has one.
    pub(crate) fn watch(&mut self, key: &mut Option<WatchKey>, waker: &Waker) {
        if let Some(WatchKey(i)) = *key {
            match &mut self.slots[i] {
                Some(known) => known.clone_from(waker),
                slot => *slot = Some(waker.clone()),
            }
            return;
        }
        self.slots.push(Some(waker.clone()));
        *key = Some(WatchKey(self.slots.len() - 1));
    }

    pub(crate) fn forget(&mut self, key: WatchKey) -> Option<Waker> {
        self.slots[key.0].take()
    }

    /// Takes the wakers out, to be woken when no lock is held; their places stay theirs.
    pub(crate) fn take(&mut self, into: &mut Vec<Waker>) {
        into.extend(self.slots.iter_mut().filter_map(Option::take));
    }
}
