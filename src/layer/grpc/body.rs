//! The body of a response over gRPC.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::{HeaderMap, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project::pin_project;
use tonic::Status;

use crate::{
    guard::Hold,
    layer::http::held_body::{HeldBody, HeldBodyEvent},
    reject::{RejectReason, Rejection, RequestOutcome},
};

/// The body of a response of a service inside a [`RedlockLayer`](crate::RedlockLayer) or a
/// [`FencingLayer`](crate::FencingLayer): the service's own body, polled under its lock if there is
/// one, or an empty one for a rejected request.
///
/// The lock is released with the trailers, on an error and on drop. A stream that outlives the lock
/// ends with the status of a lost lock, as trailers.
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

    /// Creates the body of the response to a rejected request.
    pub(crate) fn of_rejection((status, outcome): (Status, RequestOutcome)) -> Response<Self> {
        outcome.mark(status.into_http::<()>().map(|()| Self { body: HeldBody::Cut }))
    }
}

/// An empty body, for outer layers that create responses themselves.
impl<B> Default for GrpcBody<B> {
    fn default() -> Self {
        Self { body: HeldBody::Bytes(None) }
    }
}

impl<B: Body> Body for GrpcBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let out = ready!(self.project().body.poll_event(cx));
        Poll::Ready(match out {
            None | Some(HeldBodyEvent::Bytes(_)) => None,
            Some(HeldBodyEvent::Frame(frame)) => Some(Ok(frame)),
            Some(HeldBodyEvent::Failed(error)) => Some(Err(error)),
            Some(HeldBodyEvent::Cut(error)) => {
                let mut trailers = HeaderMap::new();
                let rejection = Rejection::new(RejectReason::Lock(&error), None);
                // The texts of a rejection are valid in headers.
                let _ = rejection.grpc_status().add_header(&mut trailers);
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
