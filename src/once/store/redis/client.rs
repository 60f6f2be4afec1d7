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
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::worker::{StoreCommand, StoreJob};
use crate::{
    error::Reason,
    lock::Spawner,
    once::StoreError,
    time::{Sleep, Timers},
};

/// Maximum number of puts and gets that wait for the server.
pub(super) const MAX_PENDING: usize = 1_024;

/// Maximum size of the responses whose puts wait for the server, in KiB.
pub(super) const MAX_PENDING_KIB: usize = 64 << 10;

/// What all handles of a store share.
pub(super) struct StoreClient {
    /// `host:port/db`, for logs and errors.
    pub(super) server: Arc<str>,
    pub(super) key_prefix: String,
    pub(super) timeout: Duration,
    pub(super) max_bytes: usize,
    pub(super) jobs: mpsc::UnboundedSender<StoreJob>,
    /// A permit for each put or get that may wait.
    pub(super) pending: Arc<Semaphore>,
    /// A permit for each KiB of the responses whose puts may wait.
    pub(super) pending_kib: Arc<Semaphore>,
    pub(super) timers: Arc<Timers>,
    /// Keeps the thread.
    pub(super) _spawner: Arc<dyn Spawner>,
}

impl StoreClient {
    /// Sends the command at once. The reply ends within the timeout.
    pub(super) fn send(
        self: &Arc<Self>,
        command: StoreCommand,
    ) -> impl Future<Output = Result<Value, StoreError>> + Send + use<> {
        let reply = self.pending_reply(command);
        async move { reply?.await }
    }

    fn pending_reply(self: &Arc<Self>, command: StoreCommand) -> Result<PendingReply, StoreError> {
        let Ok(permit) = Arc::clone(&self.pending).try_acquire_owned() else {
            let text = format!("{MAX_PENDING} puts and gets wait for server {}", self.server);
            return Err(StoreError::failed(text));
        };
        let kib = u32::try_from(command.bytes().div_ceil(1 << 10)).unwrap_or(u32::MAX);
        let Ok(memory) = Arc::clone(&self.pending_kib).try_acquire_many_owned(kib) else {
            let mib = MAX_PENDING_KIB >> 10;
            let text = format!("puts of {mib} MiB of responses wait for server {}", self.server);
            return Err(StoreError::failed(text));
        };
        let (sender, reply) = oneshot::channel();
        let timeout = self.timers.sleep_until(self.timers.clock().now() + self.timeout);
        // If the thread has ended, this drops the sender, and the reply is an error.
        drop(self.jobs.send(StoreJob { command, reply: sender, _permits: [permit, memory] }));
        Ok(PendingReply { reply, timeout, client: Arc::clone(self) })
    }
}

impl Drop for StoreClient {
    fn drop(&mut self) {
        self.timers.close();
    }
}

/// The reply to a command, or its timeout.
struct PendingReply {
    reply: oneshot::Receiver<Result<Value, Reason>>,
    timeout: Sleep,
    /// Keeps the connection until the reply.
    client: Arc<StoreClient>,
}

impl Future for PendingReply {
    type Output = Result<Value, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let reply = match Pin::new(&mut self.reply).poll(cx) {
            Poll::Ready(reply) => reply.unwrap_or(Err(Reason::Disconnected)),
            Poll::Pending => {
                ready!(Pin::new(&mut self.timeout).poll(cx));
                Err(Reason::TimedOut)
            }
        };
        Poll::Ready(reply.map_err(|reason| failed(Arc::clone(&self.client.server), reason)))
    }
}

/// Returns the error of a command that the server failed.
pub(super) fn failed(server: Arc<str>, reason: Reason) -> StoreError {
    StoreError::failed(ServerFailed { server, reason })
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
