use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project::pin_project;

use super::held_body::{HeldBody, Out};
use crate::{error::LockError, guard::Hold};

/// The body of a response behind a [`RedlockLayer`](crate::RedlockLayer), an
/// [`OnceLayer`](crate::OnceLayer) or a [`FencingLayer`](crate::FencingLayer): the service's own, under whose lock (if there is one) it is
/// still polled, or the answer to a request that was turned away.
///
/// Data, trailers, size hint and end are those of the service's body. The lock is given back at
/// the last frame, on an error and on drop, each time after the service's body was dropped. A body
/// that outlives the lock is cut with [`BodyError::Lost`], so that no client takes it for complete.
#[pin_project]
#[derive(Debug)]
pub struct HttpBody<B> {
    #[pin]
    body: HeldBody<B>,
}

impl<B: Body> HttpBody<B> {
    pub(crate) fn of_service(body: B, hold: Option<Hold>) -> Self {
        Self { body: HeldBody::new(body, hold) }
    }

    pub(crate) const fn of_rejection(bytes: Bytes) -> Self {
        Self { body: HeldBody::Rejection(Some(bytes)) }
    }
}

/// An empty body: for layers outside that answer by themselves.
impl<B> Default for HttpBody<B> {
    fn default() -> Self {
        Self { body: HeldBody::Rejection(None) }
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
        let out = ready!(self.project().body.poll_out(cx));
        Poll::Ready(out.map(|out| match out {
            Out::Frame(frame) => Ok(frame),
            Out::Rejection(bytes) => Ok(Frame::data(bytes.into())),
            Out::Failed(error) => Err(BodyError::Body(error)),
            Out::Cut(error) => Err(BodyError::Lost(error)),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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

impl<E: std::error::Error + 'static> std::error::Error for BodyError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Lost(error) => Some(error),
            Self::Body(error) => error.source(),
        }
    }
}
