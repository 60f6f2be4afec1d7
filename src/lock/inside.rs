//! Tracks which work this thread is polling, as a call from inside the work must not wait for its
//! end.

use std::{
    cell::RefCell,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use pin_project::pin_project;

crate::sync::thread_local! {
    /// The managers of the work that is being polled, the innermost one last.
    static MANAGERS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Work that records its manager while it is polled.
#[pin_project]
pub(crate) struct Inside<F> {
    manager: usize,
    #[pin]
    work: F,
}

/// The work keeps its manager alive, so no two managers have the same address.
fn address<T>(manager: &Arc<T>) -> usize {
    Arc::as_ptr(manager).addr()
}

impl<F> Inside<F> {
    pub(crate) fn new<T>(manager: &Arc<T>, work: F) -> Self {
        Self { manager: address(manager), work }
    }
}

/// Returns whether this thread is polling work of this manager. A task or a thread that the work
/// started and awaits is not detected.
pub(crate) fn is_inside<T>(manager: &Arc<T>) -> bool {
    MANAGERS.with(|managers| managers.borrow().contains(&address(manager)))
}

struct Left;

impl Drop for Left {
    fn drop(&mut self) {
        MANAGERS.with(|managers| managers.borrow_mut().pop());
    }
}

impl<F: Future> Future for Inside<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        MANAGERS.with(|managers| managers.borrow_mut().push(*this.manager));
        // Removed also after a panic.
        let _left = Left;
        this.work.poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn managers_are_known_while_polled() {
        let (outer, inner) = (Arc::new(1), Arc::new(2));
        let known = || (is_inside(&outer), is_inside(&inner));
        let within = Inside::new(&inner, async { known() });
        let work = Inside::new(&outer, async { (known(), within.await, known()) });
        let seen = work.now_or_never().unwrap();
        assert_eq!(seen, ((true, false), (true, true), (true, false)));
        assert_eq!(known(), (false, false));
    }

    #[test]
    fn panics_leave_no_manager() {
        let manager = Arc::new(1);
        let work = Inside::new(&manager, async { panic!("the work") });
        let ended = catch_unwind(AssertUnwindSafe(|| work.now_or_never()));
        assert!(ended.is_err() && !is_inside(&manager));
    }
}
