//! The task of the manager that continues a request after its first attempt.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::sync::oneshot;

use crate::{
    lock::client::Client,
    sync::{Guard, Mutex},
    time::Timestamp,
};

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Work of a request that a task of the manager polls, and that the request can take back at any time.
struct LentWork<T>(Mutex<LentState<T>>);

enum LentState<T> {
    Idle {
        work: Work<T>,
        /// Whether the manager's task has polled it.
        has_begun: bool,
    },
    /// The manager's task polls it.
    Polled,
    /// The request took it back, or was dropped.
    Taken,
}

/// Runs `work` of a request in a task of the manager, so that the time from a release to the next grant does
/// not depend on the task of the request, which may be busy. Where the manager's tasks do not run, the request
/// continues it: after a node timeout if that task has not begun, at the deadline, and when their runtime ends.
///
/// # Panics
///
/// If the work panics.
///
/// # Cancel safety
///
/// Dropping the future drops the work.
pub(crate) async fn run_in_manager<T: Send + 'static>(
    client: &Client,
    deadline: Timestamp,
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    let mut work: Work<T> = Box::pin(work);
    // The first poll is here, so that a pause begins with the request. The next one, by the task, registers
    // the task's waker in place of the request's.
    if let Poll::Ready(result) = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
        return result;
    }
    let lent = Arc::new(LentWork(Mutex::new(LentState::Idle { work, has_begun: false })));
    let (sender, mut receiver) = oneshot::channel();
    client.spawner.spawn(Box::pin(Arc::clone(&lent).run(sender)));
    let lent = TakeOnDrop(lent);
    let node_timeout = client.node_timeout();
    let mut until = deadline.min(client.clock().now() + node_timeout);
    let work = loop {
        tokio::select! {
            biased;
            result = &mut receiver => match result {
                Ok(result) => return result,
                Err(_) => break lent.0.take().expect("the work did not panic in the manager's task"),
            },
            () = client.timers.sleep_until(until) => {
                let taken = if until < deadline { lent.0.take_unless_begun() } else { lent.0.take() };
                if let Some(work) = taken {
                    break work;
                }
                until = deadline.max(until + node_timeout);
            }
        }
    };
    // Ends the manager's task.
    drop(receiver);
    work.await
}

impl<T: Send + 'static> LentWork<T> {
    async fn run(self: Arc<Self>, mut sender: oneshot::Sender<T>) {
        tokio::select! {
            biased;
            () = sender.closed() => {}
            result = poll_fn(|cx| self.poll(cx)) => if let Some(result) = result {
                // A result that the request does not receive is dropped, which releases a lock.
                drop(sender.send(result));
            },
        }
    }

    /// Polls the work; ready with `None` if the request took it.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let before = std::mem::replace(&mut *self.state(), LentState::Polled);
        let LentState::Idle { mut work, .. } = before else {
            *self.state() = LentState::Taken;
            return Poll::Ready(None);
        };
        if let Poll::Ready(result) = work.as_mut().poll(cx) {
            return Poll::Ready(Some(result));
        }
        let mut state = self.state();
        if matches!(*state, LentState::Polled) {
            *state = LentState::Idle { work, has_begun: true };
            return Poll::Pending;
        }
        drop(state);
        drop(work);
        Poll::Ready(None)
    }

    /// Takes the work, unless it is being polled.
    fn take(&self) -> Option<Work<T>> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, LentState::Taken) {
            LentState::Idle { work, .. } => Some(work),
            polled => {
                *state = polled;
                None
            }
        }
    }

    fn take_unless_begun(&self) -> Option<Work<T>> {
        let has_not_begun = matches!(*self.state(), LentState::Idle { has_begun: false, .. });
        has_not_begun.then(|| self.take()).flatten()
    }

    fn state(&self) -> Guard<'_, LentState<T>> {
        crate::sync::lock(&self.0)
    }
}

/// Drops the work with the request.
struct TakeOnDrop<T>(Arc<LentWork<T>>);

impl<T> Drop for TakeOnDrop<T> {
    fn drop(&mut self) {
        let left = std::mem::replace(&mut *crate::sync::lock(&self.0.0), LentState::Taken);
        drop(left);
    }
}
