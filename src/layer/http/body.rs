//! The body of a response over HTTP.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project::pin_project;

use super::held_body::{HeldBody, HeldBodyEvent};
use crate::{
    error::{LockError, source_of},
    guard::Hold,
};

/// The body of a response of a service inside a [`RedlockLayer`](crate::RedlockLayer), an
/// [`OnceLayer`](crate::OnceLayer) or a [`FencingLayer`](crate::FencingLayer): the service's own
/// body, polled under its lock if there is one, or the body of the response to a rejected request.
///
/// Data, trailers, size hint and end are taken from the service's body. The lock is released at the
/// last frame, on an error and on drop, after the service's body is dropped. A body that outlives
/// the lock ends with [`BodyError::Lost`], so that clients detect that it is incomplete.
#[pin_project]
#[derive(Debug)]
pub struct HttpBody<B: Body> {
    #[pin]
    body: HeldBody<B>,
    /// Whether the last poll was pending, so that the server has flushed.
    has_paused: bool,
    /// The error that is returned after the remaining data.
    failure: Option<BodyError<B::Error>>,
}

impl<B: Body> HttpBody<B> {
    const fn new(body: HeldBody<B>) -> Self {
        Self { body, has_paused: false, failure: None }
    }

    pub(crate) fn of_service(body: B, hold: Option<Hold>) -> Self {
        Self::new(HeldBody::new(body, hold))
    }

    /// Creates a body of these bytes, without a lock.
    pub(crate) const fn of_bytes(bytes: Bytes) -> Self {
        Self::new(HeldBody::Bytes(Some(bytes)))
    }

    /// Creates a body of these bytes that fails after them, so that the server drops the
    /// connection. After a body without an error, hyper would complete a pending upgrade when an
    /// HTTP/1.1 connection is closed, with any status.
    ///
    /// Has no effect if no body is sent, as in a response to HEAD, because servers do not poll it.
    pub(super) const fn of_last_bytes(bytes: Bytes) -> Self {
        let failure = Some(BodyError::NotUpgraded);
        Self { body: HeldBody::Bytes(Some(bytes)), has_paused: false, failure }
    }

    pub(super) const fn of_failure(error: B::Error) -> Self {
        let failure = Some(BodyError::Body(error));
        Self { body: HeldBody::Cut, has_paused: false, failure }
    }
}

/// An empty body, for outer layers that create responses themselves.
impl<B: Body> Default for HttpBody<B> {
    fn default() -> Self {
        Self::new(HeldBody::Bytes(None))
    }
}

impl<B> Body for HttpBody<B>
where
    B: Body,
    B::Data: From<Bytes>,
{
    type Data = B::Data;
    type Error = BodyError<B::Error>;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.project();
        if this.failure.is_none() || !this.body.is_end_stream() {
            let polled = this.body.poll_event(cx);
            let has_paused = std::mem::replace(this.has_paused, polled.is_pending());
            let Some(out) = ready!(polled) else { return Poll::Ready(None) };
            match out {
                HeldBodyEvent::Frame(frame) => return Poll::Ready(Some(Ok(frame))),
                HeldBodyEvent::Bytes(bytes) => {
                    return Poll::Ready(Some(Ok(Frame::data(bytes.into()))));
                }
                HeldBodyEvent::Failed(error) => {
                    return Poll::Ready(Some(Err(BodyError::Body(error))));
                }
                HeldBodyEvent::Cut(error) => *this.failure = Some(BodyError::Lost(error)),
            }
            *this.has_paused = has_paused;
        }
        if !std::mem::replace(this.has_paused, true) {
            // Lets the server flush the head first. Otherwise it drops the head with the
            // connection, and clients repeat a request that got no response at all.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(this.failure.take().map(Err))
    }

    fn is_end_stream(&self) -> bool {
        self.failure.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.body.size_hint();
        if self.failure.is_none() {
            return left;
        }
        // Announces a byte that is never sent, so that the server polls until the failure, and a
        // client of HTTP/1.0 detects the truncation.
        SizeHint::with_exact(left.lower().saturating_add(1))
    }
}

/// The error of a response's body that ended early.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BodyError<E> {
    /// The lock was lost before the body had ended; the rest was not sent.
    Lost(LockError),
    /// The service's own body failed.
    Body(E),
    /// The connection is not upgraded, as the lock has ended. The whole response was sent. The
    /// error makes the server drop the connection instead of passing it to the handler.
    NotUpgraded,
}

impl<E: fmt::Display> fmt::Display for BodyError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(error) => write!(f, "the response was cut: {error}"),
            Self::Body(error) => error.fmt(f),
            Self::NotUpgraded => {
                f.write_str("the connection is closed instead of upgraded, as the lock has ended")
            }
        }
    }
}

/// Also implemented if `E` is a `Box<dyn Error + Send + Sync>`. For the chain of causes, see
/// [`GuardError`](crate::layer::GuardError#impl-Error-for-GuardError<E>).
impl<E: fmt::Debug + fmt::Display + 'static> std::error::Error for BodyError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Lost(error) => Some(error),
            Self::Body(error) => source_of(error),
            Self::NotUpgraded => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn source_is_the_cause() {
        let lost = LockError::lost(crate::error::LossCause::Released);
        let error = BodyError::<LockError>::Lost(lost.clone());
        assert_eq!(error.source().map(ToString::to_string), Some(lost.to_string()));
        let waited = std::time::Duration::ZERO;
        let body = LockError::WaitTimedOut { waited, last: Box::new(lost.clone()) };
        let error = BodyError::Body(body);
        assert_eq!(error.source().map(ToString::to_string), Some(lost.to_string()));
        assert!(BodyError::<LockError>::NotUpgraded.source().is_none());
    }
}
