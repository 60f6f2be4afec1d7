use std::{
    sync::Arc,
    task::{Context, Waker},
};

use super::lease::ActiveLease;

/// The tasks that watch one thing, a lease say. There is nearly always one.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    /// The one that there nearly always is needs no memory of its own.
    first: Slot,
    more: Vec<Slot>,
}

#[derive(Debug, Default)]
enum Slot {
    #[default]
    Free,
    /// Taken by a watcher, which is to be woken if it has been polled since the last time.
    Taken(Option<Waker>),
}

/// So many places are kept for the next watchers.
const FEW: usize = 4;

/// A watcher's place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchKey(usize);

impl Watchers {
    /// Registers the task to wake; `key` is the watcher's place from its last call, if it has one.
    /// `waker` was cloned before the lock was taken; the waker that is returned is to be dropped
    /// after the lock was released.
    #[must_use = "a waker is foreign code, also when it is dropped"]
    pub(crate) fn watch(&mut self, key: &mut Option<WatchKey>, waker: Waker) -> Option<Waker> {
        if let Some(key) = *key {
            return match std::mem::replace(self.slot(key), Slot::Taken(Some(waker))) {
                Slot::Taken(replaced) => replaced,
                Slot::Free => None,
            };
        }
        let free = self.slots().position(|slot| matches!(slot, Slot::Free));
        let place = WatchKey(free.unwrap_or_else(|| {
            self.more.push(Slot::Free);
            self.more.len()
        }));
        *self.slot(place) = Slot::Taken(Some(waker));
        *key = Some(place);
        None
    }

    fn slot(&mut self, WatchKey(i): WatchKey) -> &mut Slot {
        if i == 0 { &mut self.first } else { &mut self.more[i - 1] }
    }

    fn slots(&mut self) -> impl Iterator<Item = &mut Slot> {
        std::iter::once(&mut self.first).chain(&mut self.more)
    }

    /// Gives a place back; the waker is to be dropped when no lock is held.
    pub(crate) fn forget(&mut self, key: WatchKey) -> Option<Waker> {
        match std::mem::take(self.slot(key)) {
            Slot::Taken(waker) => waker,
            Slot::Free => None,
        }
    }

    /// Frees the memory of more than a few places; called when none is taken.
    pub(crate) fn shrink(&mut self) {
        if self.more.len() > FEW {
            *self = Self::default();
        }
    }

    /// Takes the wakers out, to be woken when no lock is held; their places stay theirs.
    pub(crate) fn take(&mut self, into: &mut Vec<Waker>) {
        into.extend(self.slots().filter_map(|slot| match slot {
            Slot::Taken(waker) => waker.take(),
            Slot::Free => None,
        }));
    }
}

/// A task's registration with one lease.
#[derive(Debug, Default)]
pub(crate) struct Watch(pub(crate) Option<WatchKey>);

/// A future's hold on a lease that it watches; gives its place back when it is dropped.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) lease: Arc<ActiveLease>,
    watch: Watch,
}

impl Watcher {
    pub(super) fn new(lease: Arc<ActiveLease>) -> Self {
        Self { lease, watch: Watch::default() }
    }

    /// Asks the lease; where it has no answer, the task is woken at the next change.
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        ask: impl FnOnce(&ActiveLease, &mut Watch, &Context<'_>) -> Option<T>,
    ) -> std::task::Poll<T> {
        match ask(&self.lease, &mut self.watch, cx) {
            Some(answer) => std::task::Poll::Ready(answer),
            None => std::task::Poll::Pending,
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.lease.unwatch(&mut self.watch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again() {
        let mut watchers = Watchers::default();
        let mut kept = None;
        let _ = watchers.watch(&mut kept, Waker::noop().clone());
        for _ in 0..1_000 {
            let mut key = None;
            let _ = watchers.watch(&mut key, Waker::noop().clone());
            let _ = watchers.watch(&mut key, Waker::noop().clone());
            watchers.forget(key.unwrap());
        }
        assert_eq!(watchers.slots().count(), 2);
        let mut woken = Vec::new();
        watchers.take(&mut woken);
        assert_eq!(woken.len(), 1);
        let _ = watchers.watch(&mut kept, Waker::noop().clone());
        watchers.take(&mut woken);
        assert_eq!(woken.len(), 2, "a place stays its watcher's");
    }
}
