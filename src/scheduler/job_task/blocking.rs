//! Work that blocks, on a thread of its own.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
};

use tokio::{runtime::Handle, sync::oneshot};

use super::{
    super::{Outcome, shared::Executor},
    attempts::AttemptsFuture,
};
use crate::{
    error::LockError,
    guard::{Guarded, Hold, LockContext},
    sync::Notify,
};

type RunResult = Result<(Outcome, Option<Hold>), LockError>;

/// A run on a thread of its own.
pub(super) struct BlockingRun {
    end: oneshot::Receiver<RunResult>,
    cancelled: Arc<Notify>,
}

impl BlockingRun {
    pub(super) fn start(
        job: &str,
        executor: &Executor,
        guarded: Guarded<AttemptsFuture>,
        context: LockContext,
    ) -> Self {
        context.set_blocks(true);
        let cancelled = Arc::new(Notify::new());
        let (ended, end) = oneshot::channel();
        let is_cancelled = Arc::clone(&cancelled);
        let run = async move {
            let end = run(guarded, &is_cancelled).await;
            // The scheduler's runtime takes over, and may hang.
            context.set_blocks(false);
            // The scheduler may be gone; the lock is released in any case.
            let _ = ended.send(end);
        };
        // Without a thread the sender is dropped and the lock released.
        let run = within(executor.runtime.clone(), run);
        if let Err(error) = executor.spawner.spawn_blocking(&format!("job {job}"), run) {
            crate::log::warn!(%job, %error, "the system gives no thread for a blocking job");
        }
        Self { end, cancelled }
    }

    pub(super) async fn end(&mut self) -> RunResult {
        (&mut self.end).await.unwrap_or_else(|_| {
            Ok((Outcome::Failed { error: "the system gives no thread".into() }, None))
        })
    }

    /// Ends the run between two attempts.
    pub(super) fn cancel(&self) {
        self.cancelled.notify_one();
    }
}

async fn run(guarded: Guarded<AttemptsFuture>, cancelled: &Notify) -> RunResult {
    let mut guarded = pin!(guarded);
    let ended = tokio::select! {
        biased;
        () = cancelled.notified() => None,
        ended = &mut guarded => Some(ended),
    };
    match ended {
        Some(ended) => ended.map(|(outcome, hold)| (outcome, Some(hold))),
        None => Ok((Outcome::Stopped, guarded.stop())),
    }
}

/// Polls a future inside a runtime.
fn within(
    runtime: Option<Handle>,
    future: impl Future<Output = ()> + Send + 'static,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let mut future = Box::pin(future);
    Box::pin(poll_fn(move |cx| {
        let _entered = runtime.as_ref().map(Handle::enter);
        future.as_mut().poll(cx)
    }))
}
