//! Work that blocks, on a thread of its own.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
};

use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot},
};

use super::{attempts::Attempts, status::Outcome};
use crate::{
    error::LockError,
    guard::{Guarded, Hold, LockContext},
    lock::Spawner,
};

type End = Result<(Outcome, Option<Hold>), LockError>;

/// A run that goes on, on its thread.
pub(super) struct Thread {
    end: oneshot::Receiver<End>,
    cancelled: Arc<Notify>,
}

impl Thread {
    pub(super) fn start(
        job: &str,
        spawner: &dyn Spawner,
        runtime: Option<Handle>,
        (guarded, context): (Guarded<Attempts>, LockContext),
    ) -> Self {
        context.set_blocks(true);
        let cancelled = Arc::new(Notify::new());
        let (ended, end) = oneshot::channel();
        let is_cancelled = Arc::clone(&cancelled);
        let run = async move {
            let end = run(guarded, &is_cancelled).await;
            // What comes next is up to the scheduler's runtime, which may hang.
            context.set_blocks(false);
            // A scheduler that is gone wants no answer; the lock is given back all the same.
            let _ = ended.send(end);
        };
        // Without a thread the answer is dropped, and the lock given back.
        if let Err(error) = spawner.spawn_blocking(&format!("job {job}"), within(runtime, run)) {
            crate::log::warn!(%job, %error, "the system gives no thread for a blocking job");
        }
        Self { end, cancelled }
    }

    pub(super) async fn end(&mut self) -> End {
        (&mut self.end).await.unwrap_or_else(|_| {
            Ok((Outcome::Failed { error: "the system gives no thread".into() }, None))
        })
    }

    /// Ends the run between two attempts.
    pub(super) fn cancel(&self) {
        self.cancelled.notify_one();
    }
}

async fn run(guarded: Guarded<Attempts>, cancelled: &Notify) -> End {
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
