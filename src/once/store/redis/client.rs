//! The handle to the worker: sends commands to it, and waits for their replies.

use std::{
    error::Error,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use ::redis::Value;
use futures_util::FutureExt;
use tokio::sync::{mpsc, oneshot};

use super::worker::{PendingCount, StoreCommand, StoreJob};
use crate::{
    error::{LockError, Reason},
    lock::Spawner,
    once::StoreError,
    sync::atomic::AtomicUsize,
    time::{Sleep, Timers},
};

/// Maximum number of puts and gets that wait for the server.
const MAX_PENDING: usize = 1_024;

/// What all handles of a store share.
pub(super) struct StoreClient {
    /// `host:port/db`, for logs and errors.
    pub(super) server: Arc<str>,
    pub(super) key_prefix: String,
    pub(super) timeout: Duration,
    pub(super) max_bytes: usize,
    pub(super) jobs: mpsc::UnboundedSender<StoreJob>,
    pub(super) pending: Arc<AtomicUsize>,
    pub(super) timers: Arc<Timers>,
    /// The process that built the store: a fork has no worker thread.
    pub(super) process: u32,
    /// Keeps the thread.
    pub(super) _spawner: Arc<dyn Spawner>,
}

impl StoreClient {
    pub(super) fn send(self: &Arc<Self>, command: StoreCommand) -> PendingReply {
        if let Err(forked) = self.check_process() {
            return PendingReply::refused(forked);
        }
        let Some(count) = PendingCount::new(&self.pending, MAX_PENDING) else {
            let text = format!("{MAX_PENDING} puts and gets wait for server {}", self.server);
            return PendingReply::refused(StoreError::failed(text));
        };
        let (sender, reply) = oneshot::channel();
        let timeout = self.timers.sleep_until(self.timers.clock().now() + self.timeout);
        // If the thread has ended, this drops the sender, and the reply is an error.
        drop(self.jobs.send(StoreJob { command, reply: sender, _count: count }));
        PendingReply::Waiting { reply, timeout: Some(timeout), client: Arc::clone(self) }
    }

    /// [`LockError::Forked`] in a fork of the process that built the store.
    fn check_process(&self) -> Result<(), StoreError> {
        if std::process::id() == self.process {
            return Ok(());
        }
        Err(StoreError::failed(LockError::Forked { built_in: self.process }))
    }
}

impl Drop for StoreClient {
    fn drop(&mut self) {
        // In a fork, another thread of the parent may have held the mutex.
        if self.check_process().is_ok() {
            self.timers.close();
        }
    }
}

/// The reply to a command, or its timeout.
pub(super) enum PendingReply {
    Refused(Option<StoreError>),
    Waiting {
        reply: oneshot::Receiver<Result<Value, Reason>>,
        /// `None` only during the drop.
        timeout: Option<Sleep>,
        /// Keeps the connection until the reply.
        client: Arc<StoreClient>,
    },
}

impl PendingReply {
    pub(super) const fn refused(error: StoreError) -> Self {
        Self::Refused(Some(error))
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Value, StoreError>> {
        let (reply, timeout, client) = match self {
            Self::Refused(error) => {
                return Poll::Ready(Err(error.take().expect("polled after it was ready")));
            }
            Self::Waiting { reply, timeout, client } => (reply, timeout, client),
        };
        // A fork has nothing that replies or wakes.
        client.check_process()?;
        let reply = match Pin::new(reply).poll(cx) {
            Poll::Ready(reply) => reply.unwrap_or(Err(Reason::Disconnected)),
            Poll::Pending => {
                ready!(timeout.as_mut().map_or(Poll::Ready(()), |timeout| timeout.poll_unpin(cx)));
                Err(Reason::TimedOut)
            }
        };
        Poll::Ready(reply.map_err(|reason| self.error(reason)))
    }

    pub(super) fn error(&self, reason: Reason) -> StoreError {
        let server = match self {
            Self::Waiting { client, .. } => Arc::clone(&client.server),
            Self::Refused(_) => Arc::default(),
        };
        StoreError::failed(ServerFailed { server, reason })
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        // In a fork, another thread of the parent may have held the timers' mutex.
        if let Self::Waiting { timeout, client, .. } = self
            && client.check_process().is_err()
        {
            std::mem::forget(timeout.take());
        }
    }
}

/// The server failed a command.
#[derive(Debug)]
struct ServerFailed {
    server: Arc<str>,
    reason: Reason,
}

impl fmt::Display for ServerFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {}: {}", self.server, self.reason)
    }
}

impl Error for ServerFailed {}
