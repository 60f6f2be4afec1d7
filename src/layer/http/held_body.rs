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

impl<B: Body> HeldBody<B> {
    pub(in crate::layer) fn new(body: B, hold: Option<Hold>) -> Self {
        // Nobody polls an empty body, and its owner may keep it for long.
        let hold = hold.filter(|_| !body.is_end_stream());
        Self::Open { body, hold }
    }

    pub(in crate::layer) fn poll_out(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Out<B>>> {
        let polled = match self.as_mut().project() {
            HeldBodyProj::Cut => return Poll::Ready(None),
            HeldBodyProj::Rejection(bytes) => {
                let bytes = bytes.take().filter(|bytes| !bytes.is_empty());
                return Poll::Ready(bytes.map(Out::Rejection));
            }
            HeldBodyProj::Open { mut body, hold } => {
                let polled = match hold {
                    Some(hold) => hold.poll(cx, |cx| body.as_mut().poll_frame(cx)),
                    None => match body.as_mut().poll_frame(cx) {
                        Poll::Ready(frame) => Polled::Ready(frame),
                        Poll::Pending => Polled::Pending,
                    },
                };
                let ends = match &polled {
                    Polled::Ready(Some(Ok(_))) => body.is_end_stream(),
                    Polled::Ready(_) => true,
                    Polled::Pending | Polled::Over => false,
                };
                if ends {
                    *hold = None;
                }
                polled
            }
        };
        match polled {
            Polled::Pending => Poll::Pending,
            Polled::Ready(None) => Poll::Ready(None),
            Polled::Ready(Some(Ok(frame))) => Poll::Ready(Some(Out::Frame(frame))),
            Polled::Ready(Some(Err(error))) => Poll::Ready(Some(Out::Failed(error))),
            Polled::Over => {
                let HeldBodyProj::Open { hold, .. } = self.as_mut().project() else {
                    return Poll::Ready(None);
                };
                let Some(hold) = hold.take() else { return Poll::Ready(None) };
                let error = hold.stop(|| self.set(Self::Cut));
                Poll::Ready(Some(Out::Cut(error)))
            }
        }
    }

    pub(in crate::layer) fn is_end_stream(&self) -> bool {
        match self {
            Self::Open { body, .. } => body.is_end_stream(),
            Self::Rejection(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Self::Cut => true,
        }
    }

    pub(in crate::layer) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Open { body, .. } => body.size_hint(),
            Self::Rejection(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Cut => SizeHint::with_exact(0),
        }
    }
}
