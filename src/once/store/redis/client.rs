use std::{
    error::Error,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use ::redis::Value;
use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::{store::Shared, stored};
use crate::{
    error::Reason,
    once::{StoreError, StoredBy},
    time::Sleep,
};

/// What the server did not do, and why.
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

/// A question to the server, until it is answered or its time is over.
pub(super) enum Asked {
    Refused(Option<StoreError>),
    Waiting {
        answer: oneshot::Receiver<Result<Value, Reason>>,
        /// There until it is dropped.
        timeout: Option<Sleep>,
        /// Keeps the connection until there is an answer.
        shared: Arc<Shared>,
    },
}

impl Asked {
    pub(super) const fn refused(error: StoreError) -> Self {
        Self::Refused(Some(error))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Value, StoreError>> {
        let Self::Waiting { answer, timeout, shared } = self else {
            let Self::Refused(error) = self else { unreachable!("it is one of two") };
            return Poll::Ready(Err(error.take().expect("polled after it was ready")));
        };
        // In a fork nobody would answer, or wake.
        shared.check_process()?;
        let said = match Pin::new(answer).poll(cx) {
            Poll::Ready(said) => said.unwrap_or(Err(Reason::Disconnected)),
            Poll::Pending => {
                ready!(timeout.as_mut().map_or(Poll::Ready(()), |timeout| timeout.poll_unpin(cx)));
                Err(Reason::TimedOut)
            }
        };
        let server = &shared.server;
        Poll::Ready(said.map_err(|reason| failed(server, reason)))
    }

    fn server(&self) -> Arc<str> {
        match self {
            Self::Waiting { shared, .. } => Arc::clone(&shared.server),
            Self::Refused(_) => Arc::default(),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // In a fork, another thread of the parent may have held the timers' mutex.
        if let Self::Waiting { timeout, shared, .. } = self
            && shared.check_process().is_err()
        {
            std::mem::forget(timeout.take());
        }
    }
}

fn failed(server: &Arc<str>, reason: Reason) -> StoreError {
    StoreError::failed(ServerFailed { server: Arc::clone(server), reason })
}

/// The future of [`RedisStore`](super::RedisStore)'s `put`.
///
/// # Cancel safety
///
/// The response may still be put where it is dropped.
///
/// # Panics
///
/// If polled again after it was ready.
#[must_use = "futures do nothing unless polled"]
pub struct RedisPut(pub(super) Asked);

impl Future for RedisPut {
    type Output = Result<(), StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(self.0.poll(cx))? {
            Value::Int(1) => Ok(()),
            Value::Int(_) => Err(StoreError::Stale),
            _ => Err(failed(&self.0.server(), Reason::Protocol("it did not say 0 or 1".into()))),
        })
    }
}

impl fmt::Debug for RedisPut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisPut").finish_non_exhaustive()
    }
}

/// The future of [`RedisStore`](super::RedisStore)'s `get`.
///
/// # Cancel safety
///
/// Safe: it only asks.
///
/// # Panics
///
/// If polled again after it was ready.
#[must_use = "futures do nothing unless polled"]
pub struct RedisGet(pub(super) Asked);

impl Future for RedisGet {
    type Output = Result<Option<StoredBy>, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let stored = match ready!(self.0.poll(cx))? {
            Value::Nil => return Poll::Ready(Ok(None)),
            Value::BulkString(value) => stored::decode(value),
            _ => Err("a response was expected".into()),
        };
        Poll::Ready(stored.map(Some).map_err(|error| {
            let text = format!("its key holds something else ({error})");
            failed(&self.0.server(), Reason::Protocol(text.into()))
        }))
    }
}

impl fmt::Debug for RedisGet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisGet").finish_non_exhaustive()
    }
}
