//! Calls of wakers, which are user code and must not run while the thread holds a mutex of the
//! crate.

use std::task::Waker;

use super::assert_unlocked;

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

/// Wakes a task without consuming its waker. Panics as [`wake`] does.
#[track_caller]
pub(crate) fn wake_by_ref(waker: &Waker) {
    assert_unlocked();
    waker.wake_by_ref();
}

/// Clones a waker, which is user code. Panics as [`wake`] does.
#[track_caller]
pub(crate) fn clone_waker(waker: &Waker) -> Waker {
    assert_unlocked();
    waker.clone()
}

/// Wakes tasks in order. Panics as [`wake`] does.
#[track_caller]
pub(crate) fn wake_all(wakers: impl IntoIterator<Item = Waker>) {
    assert_unlocked();
    wakers.into_iter().for_each(Waker::wake);
}
