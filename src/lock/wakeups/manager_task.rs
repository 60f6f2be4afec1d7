//! The task of the manager that continues a request after its first attempt.

use std::{
    future::{Future, poll_fn},
    task::Poll,
};

use tokio::sync::oneshot;

use crate::lock::spawner::Spawner;

/// Runs `work` of a request in a task of the manager, so that the time from a release to the next grant does
/// not depend on the task of the request, which may be busy. Returns its result, or `None` if the runtime of
/// the manager's tasks has ended.
///
/// # Cancel safety
///
/// Dropping the future ends the task, which drops the work.
pub(crate) async fn run_in_manager<T: Send + 'static>(
    spawner: &dyn Spawner,
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let mut work = Box::pin(work);
    // The first poll is here, so that a pause begins with the request. The next one, by the task, registers
    // the task's waker in place of the request's.
    if let Poll::Ready(result) = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
        return Some(result);
    }
    let (mut sender, receiver) = oneshot::channel();
    spawner.spawn(Box::pin(async move {
        tokio::select! {
            biased;
            () = sender.closed() => {}
            // A result that the request does not receive is dropped, which releases a lock.
            result = work => drop(sender.send(result)),
        }
    }));
    receiver.await.ok()
}
