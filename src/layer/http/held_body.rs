//! A body that is polled under the lock, over HTTP and gRPC.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project::pin_project;

use crate::{
    error::LockError,
    guard::{Hold, Polled},
};

/// A body that is polled only while its lock is valid, and that releases the lock at its end; or
/// the bytes of a response without a lock.
#[pin_project(project = HeldBodyProj)]
#[derive(Debug)]
pub(in crate::layer) enum HeldBody<B> {
    Open {
        /// Dropped before the lock is released: fields are dropped in this order.
        #[pin]
        body: B,
        hold: Option<Hold>,
    },
    /// The body has ended under its lock and was dropped. These are its properties at its end.
    Ended {
        is_end_stream: bool,
        size_hint: SizeHint,
    },
    Bytes(Option<Bytes>),
    Cut,
}

/// The result of a poll.
pub(in crate::layer) enum HeldBodyEvent<B: Body> {
    Frame(Frame<B::Data>),
    Bytes(Bytes),
    Failed(B::Error),
    /// The lock has ended; the body was dropped.
    Cut(LockError),
}

impl<B: Body> From<Result<Frame<B::Data>, B::Error>> for HeldBodyEvent<B> {
    fn from(polled: Result<Frame<B::Data>, B::Error>) -> Self {
        match polled {
            Ok(frame) => Self::Frame(frame),
            Err(error) => Self::Failed(error),
        }
    }
}

impl<B: Body> HeldBody<B> {
    pub(in crate::layer) fn new(body: B, hold: Option<Hold>) -> Self {
        if hold.is_none() || !body.is_end_stream() {
            return Self::Open { body, hold };
        }
        // Servers do not poll an empty body, but may keep it.
        let ended = Self::ended(&body);
        drop(body);
        drop(hold);
        ended
    }

    fn ended(body: &B) -> Self {
        Self::Ended { is_end_stream: body.is_end_stream(), size_hint: body.size_hint() }
    }

    pub(in crate::layer) fn poll_event(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<HeldBodyEvent<B>>> {
        match self.as_mut().project() {
            HeldBodyProj::Cut | HeldBodyProj::Ended { .. } => Poll::Ready(None),
            HeldBodyProj::Bytes(bytes) => {
                let bytes = bytes.take().filter(|bytes| !bytes.is_empty());
                Poll::Ready(bytes.map(HeldBodyEvent::Bytes))
            }
            HeldBodyProj::Open { body, hold: None } => {
                body.poll_frame(cx).map(|polled| polled.map(HeldBodyEvent::from))
            }
            HeldBodyProj::Open { mut body, hold: Some(hold) } => {
                match hold.poll(cx, |cx| body.as_mut().poll_frame(cx)) {
                    Polled::Pending => Poll::Pending,
                    // The lock ended during this poll. An end or trailers would make the response
                    // look complete.
                    Polled::Ready(None | Some(Ok(_))) if !hold.lease().is_valid() => {
                        Poll::Ready(self.cut())
                    }
                    Polled::Ready(polled) => {
                        let is_last = match &polled {
                            // Trailers are the last frame.
                            Some(Ok(frame)) => frame.is_trailers() || body.is_end_stream(),
                            Some(Err(_)) | None => true,
                        };
                        if is_last {
                            let ended = Self::ended(&body);
                            self.set(ended);
                        }
                        Poll::Ready(polled.map(HeldBodyEvent::from))
                    }
                    Polled::Over => Poll::Ready(self.cut()),
                }
            }
        }
    }

    /// Drops the body, then releases the lock.
    fn cut(mut self: Pin<&mut Self>) -> Option<HeldBodyEvent<B>> {
        let HeldBodyProj::Open { hold, .. } = self.as_mut().project() else { return None };
        let hold = hold.take()?;
        Some(HeldBodyEvent::Cut(hold.stop(|| self.set(Self::Cut))))
    }

    pub(in crate::layer) fn is_end_stream(&self) -> bool {
        match self {
            Self::Open { body, .. } => body.is_end_stream(),
            Self::Ended { is_end_stream, .. } => *is_end_stream,
            Self::Bytes(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Self::Cut => true,
        }
    }

    #[allow(clippy::clone_on_copy, reason = "it is Copy only from http-body 1.1 on")]
    pub(in crate::layer) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Open { body, .. } => body.size_hint(),
            Self::Ended { size_hint, .. } => size_hint.clone(),
            Self::Bytes(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Cut => SizeHint::with_exact(0),
        }
    }
}
