use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project::pin_project;

use crate::{
    guard::Hold,
    layer::http::{
        Rejection,
        held_body::{HeldBody, Out},
    },
};

/// The body of a response behind a [`RedlockLayer`](crate::RedlockLayer) or a
/// [`FencingLayer`](crate::FencingLayer): the service's own, under whose lock (if there is one) it is
/// still polled, or nothing for a request that was turned away.
///
/// The lock is given back with the trailers, on an error and on drop. A stream that outlives the
/// lock ends with the status of a lost lock, as trailers.
#[pin_project]
#[derive(Debug)]
pub struct GrpcBody<B> {
    #[pin]
    body: HeldBody<B>,
}

impl<B: Body> GrpcBody<B> {
    pub(crate) fn of_service(body: B, hold: Option<Hold>) -> Self {
        Self { body: HeldBody::new(body, hold) }
    }

    pub(crate) const fn empty() -> Self {
        Self { body: HeldBody::Cut }
    }
}

/// An empty body: for layers outside that answer by themselves.
impl<B> Default for GrpcBody<B> {
    fn default() -> Self {
        Self { body: HeldBody::Rejection(None) }
    }
}

impl<B: Body> Body for GrpcBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let out = ready!(self.project().body.poll_out(cx));
        Poll::Ready(match out {
            None | Some(Out::Rejection(_)) => None,
            Some(Out::Frame(frame)) => Some(Ok(frame)),
            Some(Out::Failed(error)) => Some(Err(error)),
            Some(Out::Cut(error)) => {
                let mut trailers = HeaderMap::new();
                // Its texts are ours, and fit into headers.
                let _ = Rejection::new(&error, None).grpc_status().add_header(&mut trailers);
                Some(Ok(Frame::trailers(trailers)))
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
