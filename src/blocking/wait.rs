//! Waits that refuse to block the thread of a runtime.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::sync::oneshot;

use crate::{
    sync::{block_on_with, thread},
    time::Timers,
};

/// Polls a future on this thread until it is ready.
///
/// Fires the timers of the future's managers that are overdue: nothing may drive the runtime of their
/// tasks meanwhile, and the wait has to end in time.
///
/// # Panics
///
/// In an async context of tokio, at the caller's line.
#[track_caller]
pub(super) fn wait<F: Future>(timers: &[Arc<Timers>], future: F) -> F::Output {
    // Only tokio knows whether the thread is driving tasks: in `spawn_blocking` and `block_in_place` it
    // has a runtime too, and may block.
    let (sender, receiver) = oneshot::channel();
    let _ = sender.send(());
    let _ = receiver.blocking_recv();
    block_on_with(future, || {
        let overdue = timers.iter().map(|timers| timers.fire_overdue());
        thread::park_timeout(overdue.min().unwrap_or(Duration::MAX));
    })
}
