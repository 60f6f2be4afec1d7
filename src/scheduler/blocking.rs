//! Work that blocks, on a thread of its own.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
};

use tokio::{runtime::Handle, sync::oneshot};

use super::{attempts::Attempts, status::Outcome};
use crate::{
    error::LockError,
    guard::{Guarded, Hold},
};

type End = Result<(Outcome, Option<Hold>), LockError>;

/// A run that goes on, on its thread.
pub(super) struct Thread {
    end: oneshot::Receiver<End>,
    parked: Arc<Parked>,
}

struct Parked {
    thread: std::sync::Mutex<Option<thread::Thread>>,
    is_cancelled: AtomicBool,
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.unpark();
    }
}

impl Parked {
    fn unpark(&self) {
        if let Some(thread) = &*crate::sync::lock(&self.thread) {
            thread.unpark();
        }
    }
}

impl Thread {
    pub(super) fn start(job: &str, runtime: Option<Handle>, guarded: Guarded<Attempts>) -> Self {
        let parked = Arc::new(Parked {
            thread: std::sync::Mutex::new(None),
            is_cancelled: AtomicBool::new(false),
        });
        let (ended, end) = oneshot::channel();
        let there = Arc::clone(&parked);
        let body = move || {
            let _entered = runtime.as_ref().map(Handle::enter);
            *crate::sync::lock(&there.thread) = Some(thread::current());
            // A scheduler that is gone wants no answer; the lock is given back all the same.
            let _ = ended.send(run(guarded, &there));
        };
        // Without a thread the answer is dropped, and the lock given back.
        if let Err(error) = thread::Builder::new().name(format!("job {job}")).spawn(body) {
            crate::log::warn!(%job, %error, "the system gives no thread for a blocking job");
        }
        Self { end, parked }
    }

    pub(super) async fn end(&mut self) -> End {
        (&mut self.end).await.unwrap_or_else(|_| {
            Ok((Outcome::Failed { error: "the system gives no thread".into() }, None))
        })
    }

    /// Ends the run between two attempts.
    pub(super) fn cancel(&self) {
        self.parked.is_cancelled.store(true, Ordering::Release);
        self.parked.unpark();
    }
}

fn run(guarded: Guarded<Attempts>, parked: &Arc<Parked>) -> End {
    let waker = Waker::from(Arc::clone(parked));
    let mut guarded = pin!(guarded);
    loop {
        if parked.is_cancelled.load(Ordering::Acquire) {
            return Ok((Outcome::Stopped, guarded.stop()));
        }
        match guarded.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(ended) => return ended.map(|(outcome, hold)| (outcome, Some(hold))),
            Poll::Pending => thread::park(),
        }
    }
}
