use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project::pin_project;

use super::held_body::{HeldBody, Out};
use crate::{
    error::{LockError, source_of},
    guard::Hold,
};

/// The body of a response behind a [`RedlockLayer`](crate::RedlockLayer), an
/// [`OnceLayer`](crate::OnceLayer) or a [`FencingLayer`](crate::FencingLayer): the service's own, under whose lock (if there is one) it is
/// still polled, or the answer to a request that was turned away.
///
/// Data, trailers, size hint and end are those of the service's body. The lock is given back at
/// the last frame, on an error and on drop, each time after the service's body was dropped. A body
/// that outlives the lock is cut with [`BodyError::Lost`], so that no client takes it for complete.
#[pin_project]
#[derive(Debug)]
pub struct HttpBody<B: Body> {
    #[pin]
    body: HeldBody<B>,
    /// Whether the last poll was pending: servers send what they have then.
    has_paused: bool,
    /// The body is gone, and this is still to be told.
    failure: Option<BodyError<B::Error>>,
}

impl<B: Body> HttpBody<B> {
    const fn new(body: HeldBody<B>) -> Self {
        Self { body, has_paused: false, failure: None }
    }

    pub(crate) fn of_service(body: B, hold: Option<Hold>) -> Self {
        Self::new(HeldBody::new(body, hold))
    }

    /// A body of these bytes, which needs no lock: the answer to a request that was turned away, or
    /// a response that was read whole.
    pub(crate) const fn of_bytes(bytes: Bytes) -> Self {
        Self::new(HeldBody::Rejection(Some(bytes)))
    }

    pub(super) const fn of_failure(error: B::Error) -> Self {
        let failure = Some(BodyError::Body(error));
        Self { body: HeldBody::Cut, has_paused: false, failure }
    }
}

/// An empty body: for layers outside that answer by themselves.
impl<B: Body> Default for HttpBody<B> {
    fn default() -> Self {
        Self::new(HeldBody::Rejection(None))
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
        if this.failure.is_none() {
            let polled = this.body.poll_out(cx);
            let has_paused = std::mem::replace(this.has_paused, polled.is_pending());
            let Some(out) = ready!(polled) else { return Poll::Ready(None) };
            match out {
                Out::Frame(frame) => return Poll::Ready(Some(Ok(frame))),
                Out::Rejection(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes.into())))),
                Out::Failed(error) => return Poll::Ready(Some(Err(BodyError::Body(error)))),
                Out::Cut(error) => *this.failure = Some(BodyError::Lost(error)),
            }
            *this.has_paused = has_paused;
        }
        if !std::mem::replace(this.has_paused, true) {
            // A server that has sent no byte yet would drop the head with the connection, and clients
            // send requests again that were not answered at all. It sends what it has now.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(this.failure.take().map(Err))
    }

    fn is_end_stream(&self) -> bool {
        self.failure.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // Announced, and never sent: so a client of HTTP/1.0 sees that something is missing.
        if self.failure.is_some() { SizeHint::with_exact(1) } else { self.body.size_hint() }
    }
}

/// Why a response's body ended early.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BodyError<E> {
    /// The lock was lost before the body had ended; the rest was not sent.
    Lost(LockError),
    /// The service's own body failed.
    Body(E),
}

impl<E: fmt::Display> fmt::Display for BodyError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(error) => write!(f, "the response was cut: {error}"),
            Self::Body(error) => error.fmt(f),
        }
    }
}

/// Also where `E` is a `Box<dyn Error + Send + Sync>`. For the chain of causes, see
/// [`layer::Error`](crate::layer::Error#impl-Error-for-Error<E>).
impl<E: fmt::Debug + fmt::Display + 'static> std::error::Error for BodyError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Lost(error) => Some(error),
            Self::Body(error) => source_of(error),
        }
    }
}
