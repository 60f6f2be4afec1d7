//! Mutexes whose poison is passed over, and that are never held while foreign code is called.
//!
//! A subscriber, a recorder of metrics and a waker are written by users, and may call this crate
//! again: called under a mutex, they could wait for it for ever. Builds with debug assertions count
//! the mutexes that a thread holds, and panic where an event, a metric, a wake-up or a clone of a waker
//! finds one held.

use std::{
    ops::{Deref, DerefMut},
    sync::{Mutex, MutexGuard, PoisonError},
    task::Waker,
};

/// Locks. What the crate keeps behind mutexes is whole between any two statements, so a panic of
/// somebody else while it was locked left nothing half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> Guard<'_, T> {
    Guard { guard: mutex.lock().unwrap_or_else(PoisonError::into_inner), _held: Held::new() }
}

/// What [`lock`] returns: unlocks when it is dropped.
#[derive(Debug)]
pub(crate) struct Guard<'a, T> {
    guard: MutexGuard<'a, T>,
    _held: Held,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// Wakes a task.
///
/// # Panics
///
/// With debug assertions, if this thread holds a mutex of the crate.
#[track_caller]
pub(crate) fn wake(waker: Waker) {
    assert_unlocked();
    waker.wake();
}

/// Wakes a task by a waker that is kept. Panics as [`wake`] does.
#[track_caller]
pub(crate) fn wake_by_ref(waker: &Waker) {
    assert_unlocked();
    waker.wake_by_ref();
}

/// Clones a waker, which is foreign code as well. Panics as [`wake`] does.
#[track_caller]
pub(crate) fn clone_waker(waker: &Waker) -> Waker {
    assert_unlocked();
    waker.clone()
}

/// Wakes tasks, in their order. Panics as [`wake`] does.
#[track_caller]
pub(crate) fn wake_all(wakers: impl IntoIterator<Item = Waker>) {
    assert_unlocked();
    wakers.into_iter().for_each(Waker::wake);
}

/// Called before foreign code is.
///
/// # Panics
///
/// With debug assertions, if this thread holds a mutex of the crate.
#[track_caller]
pub(crate) fn assert_unlocked() {
    #[cfg(debug_assertions)]
    held::assert_none();
}

/// Counts a mutex as held until it is dropped.
#[cfg(debug_assertions)]
use held::Held;

/// Nothing is counted.
#[cfg(not(debug_assertions))]
#[derive(Debug)]
struct Held;

#[cfg(not(debug_assertions))]
impl Held {
    const fn new() -> Self {
        Self
    }
}

#[cfg(debug_assertions)]
mod held {
    use std::{cell::Cell, thread};

    thread_local! {
        static COUNT: Cell<u32> = const { Cell::new(0) };
    }

    #[derive(Debug)]
    pub(super) struct Held;

    impl Held {
        pub(super) fn new() -> Self {
            COUNT.set(COUNT.get() + 1);
            Self
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            COUNT.set(COUNT.get() - 1);
        }
    }

    #[track_caller]
    pub(super) fn assert_none() {
        assert!(
            COUNT.get() == 0 || thread::panicking(),
            "foreign code is about to be called under a mutex of tower-redlock"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    #[cfg(debug_assertions)]
    fn foreign_code_under_a_mutex_is_refused() {
        let mutex = Mutex::new(0);
        let refused = catch_unwind(|| {
            let _guard = lock(&mutex);
            wake(Waker::noop().clone());
        });
        refused.unwrap_err();
        let refused = catch_unwind(|| {
            let _guard = lock(&mutex);
            clone_waker(Waker::noop())
        });
        refused.unwrap_err();
        let refused = catch_unwind(|| {
            let _guard = lock(&mutex);
            crate::log::debug!("told too early");
        });
        refused.unwrap_err();
    }

    #[test]
    fn foreign_code_may_be_called_again_after_unlocking() {
        let mutex = Mutex::new(0);
        let (first, second) = (lock(&mutex), Mutex::new(0));
        drop(lock(&second));
        drop(first);
        wake_all([Waker::noop().clone()]);
        crate::log::debug!("told in time");
    }
}
