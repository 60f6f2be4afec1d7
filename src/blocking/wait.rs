//! Waits that refuse to block the thread of a runtime.

use std::future::Future;

use tokio::sync::oneshot;

use crate::sync::block_on;

/// Polls a future on this thread until it is ready.
///
/// # Panics
///
/// In an async context of tokio, at the caller's line.
#[track_caller]
pub(super) fn wait<F: Future>(future: F) -> F::Output {
    // Only tokio knows whether the thread is driving tasks: in `spawn_blocking` and `block_in_place` it
    // has a runtime too, and may block.
    let (sender, receiver) = oneshot::channel();
    let _ = sender.send(());
    let _ = receiver.blocking_recv();
    block_on(future)
}
