//! Mutexes that ignore poisoning, and the number of them that a thread holds.

use std::ops::{Deref, DerefMut};

use super::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. Guarded data is consistent between any two statements, so poisoning is ignored.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> Guard<'_, T> {
    Guard { guard: mutex.lock().unwrap_or_else(PoisonError::into_inner), _held: Held::new() }
}

/// Unlocks a mutex when it is dropped.
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

/// Checks that user code may run.
///
/// # Panics
///
/// With debug assertions, if this thread holds a mutex of the crate.
#[track_caller]
pub(crate) fn assert_unlocked() {
    #[cfg(debug_assertions)]
    held::assert_none();
}

#[cfg(debug_assertions)]
use held::Held;

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
    use std::cell::Cell;

    use crate::sync::{thread, thread_local};

    thread_local! {
        static COUNT: Cell<u32> = const { Cell::new(0) };
    }

    #[derive(Debug)]
    pub(super) struct Held;

    impl Held {
        pub(super) fn new() -> Self {
            COUNT.with(|count| count.set(count.get() + 1));
            Self
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            COUNT.with(|count| count.set(count.get() - 1));
        }
    }

    #[track_caller]
    pub(super) fn assert_none() {
        assert!(
            COUNT.with(Cell::get) == 0 || thread::panicking(),
            "user code is about to run under a mutex of tower-redlock"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::{panic::catch_unwind, task::Waker};

    use super::*;
    use crate::sync::{clone_waker, wake, wake_all};

    #[test]
    #[cfg(debug_assertions)]
    fn user_code_under_a_mutex_panics() {
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
            crate::log::debug!("too early");
        });

        refused.unwrap_err();
    }

    #[test]
    fn user_code_runs_after_unlocking() {
        let mutex = Mutex::new(0);
        let (first, second) = (lock(&mutex), Mutex::new(0));
        drop(lock(&second));
        drop(first);
        wake_all([Waker::noop().clone()]);
        crate::log::debug!("in time");
    }
}
