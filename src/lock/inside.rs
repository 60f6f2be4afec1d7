//! Tracks which work this thread is polling, as a call from inside the work must not wait for its
//! end: work of a job, of a leader, or under a lock.

use std::{
    cell::RefCell,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use pin_project::pin_project;

crate::sync::thread_local! {
    /// What manages the work that is being polled, the innermost one last.
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

/// Returns whether this thread is polling any work.
pub(crate) fn is_any_inside() -> bool {
    MANAGERS.with(|managers| !managers.borrow().is_empty())
}

/// Records that this thread polls work of this manager, until the scope is dropped. Scopes end in the
/// reverse order of their beginnings.
pub(crate) fn enter<T>(manager: &Arc<T>) -> InsideScope {
    enter_address(address(manager))
}

fn enter_address(manager: usize) -> InsideScope {
    MANAGERS.with(|managers| managers.borrow_mut().push(manager));
    InsideScope(())
}

#[must_use = "dropping it ends the scope"]
#[derive(Debug)]
pub(crate) struct InsideScope(());

impl Drop for InsideScope {
    fn drop(&mut self) {
        MANAGERS.with(|managers| managers.borrow_mut().pop());
    }
}

impl<F: Future> Future for Inside<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        // Left also after a panic.
        let _scope = enter_address(*this.manager);
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
