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

/// A body that is polled only while its lock is valid, and that gives the lock back at its end; or
/// the answer to a request that was turned away.
#[pin_project(project = HeldBodyProj)]
#[derive(Debug)]
pub(in crate::layer) enum HeldBody<B> {
    Open {
        /// Dropped before the lock is given back: the fields are dropped in this order.
        #[pin]
        body: B,
        hold: Option<Hold>,
    },
    /// The body has ended under its lock and is gone. What it said of itself at its end.
    Ended {
        is_end_stream: bool,
        size_hint: SizeHint,
    },
    Rejection(Option<Bytes>),
    Cut,
}

/// What comes out of it.
pub(in crate::layer) enum Out<B: Body> {
    Frame(Frame<B::Data>),
    Rejection(Bytes),
    Failed(B::Error),
    /// The lock has ended; the body was dropped.
    Cut(LockError),
}

impl<B: Body> From<Result<Frame<B::Data>, B::Error>> for Out<B> {
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
        // Nobody polls an empty body, and its owner may keep it for long.
        let ended = Self::ended(&body);
        drop(body);
        drop(hold);
        ended
    }

    fn ended(body: &B) -> Self {
        Self::Ended { is_end_stream: body.is_end_stream(), size_hint: body.size_hint() }
    }

    pub(in crate::layer) fn poll_out(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Out<B>>> {
        match self.as_mut().project() {
            HeldBodyProj::Cut | HeldBodyProj::Ended { .. } => Poll::Ready(None),
            HeldBodyProj::Rejection(bytes) => {
                let bytes = bytes.take().filter(|bytes| !bytes.is_empty());
                Poll::Ready(bytes.map(Out::Rejection))
            }
            HeldBodyProj::Open { body, hold: None } => {
                body.poll_frame(cx).map(|polled| polled.map(Out::from))
            }
            HeldBodyProj::Open { mut body, hold: Some(hold) } => {
                match hold.poll(cx, |cx| body.as_mut().poll_frame(cx)) {
                    Polled::Pending => Poll::Pending,
                    // The lock ended inside this poll: an end, or trailers that say so, would make
                    // the response complete.
                    Polled::Ready(None | Some(Ok(_))) if !hold.lease().is_valid() => {
                        Poll::Ready(self.cut())
                    }
                    Polled::Ready(polled) => {
                        let is_last = match &polled {
                            // Nothing may follow trailers.
                            Some(Ok(frame)) => frame.is_trailers() || body.is_end_stream(),
                            Some(Err(_)) | None => true,
                        };
                        if is_last {
                            let ended = Self::ended(&body);
                            self.set(ended);
                        }
                        Poll::Ready(polled.map(Out::from))
                    }
                    Polled::Over => Poll::Ready(self.cut()),
                }
            }
        }
    }

    /// Drops the body, then gives back what is left of the lock.
    fn cut(mut self: Pin<&mut Self>) -> Option<Out<B>> {
        let HeldBodyProj::Open { hold, .. } = self.as_mut().project() else { return None };
        let hold = hold.take()?;
        Some(Out::Cut(hold.stop(|| self.set(Self::Cut))))
    }

    pub(in crate::layer) fn is_end_stream(&self) -> bool {
        match self {
            Self::Open { body, .. } => body.is_end_stream(),
            Self::Ended { is_end_stream, .. } => *is_end_stream,
            Self::Rejection(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Self::Cut => true,
        }
    }

    #[allow(clippy::clone_on_copy, reason = "it is Copy only from http-body 1.1 on")]
    pub(in crate::layer) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Open { body, .. } => body.size_hint(),
            Self::Ended { size_hint, .. } => size_hint.clone(),
            Self::Rejection(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Cut => SizeHint::with_exact(0),
        }
    }
}
