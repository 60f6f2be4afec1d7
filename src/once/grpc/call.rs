//! A gRPC call under the lock of its key.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::{
    CompletesGrpc,
    relay::{ByStatus, Made, Relay},
    slot::Writer,
};
use crate::{
    error::LockError,
    guard::LockContext,
    layer::ReadyCall,
    once::{
        OnceError, Unchecked, Work, call::OnceCall, http::future::HttpCall, outcome::OnceOutcome,
    },
};

/// A call of the service, from its start to its status.
pub(super) struct GrpcCall<S, B, A: Body, C> {
    pub(super) call: HttpCall<S, B>,
    pub(super) writer: Writer<A>,
    pub(super) complete: C,
}

impl<S, B, A, C> Work for GrpcCall<S, B, A, C>
where
    S: Service<Request<B>, Response = Response<A>>,
    A: Body,
    C: CompletesGrpc,
{
    type Future = Relay<ReadyCall<S, Request<B>>, A, C>;
    type Success = Made<A>;
    type Failure = S::Error;

    fn begin(self, context: LockContext) -> Self::Future {
        Relay::new(self.call.begin(context), self.writer, self.complete)
    }
}

/// A call under the lock of its key.
pub(super) type OnceGrpcCall<S, B, A, C> = OnceCall<GrpcCall<S, B, A, C>, Unchecked, ByStatus>;

/// Boxed, as it moves from the future into the response's body.
pub(super) type BoxedCall<S, B, A, C> = Pin<Box<OnceGrpcCall<S, B, A, C>>>;

/// A call whose head was sent, for bodies without the type of the service.
pub(super) trait Answered<A: Body>: Send {
    fn poll_end(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<OnceOutcome<Made<A>>, LockError>>;
}

impl<S, B, A, C> Answered<A> for OnceGrpcCall<S, B, A, C>
where
    Self: Send,
    S: Service<Request<B>, Response = Response<A>>,
    A: Body,
    C: CompletesGrpc,
{
    fn poll_end(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<OnceOutcome<Made<A>>, LockError>> {
        self.poll(cx).map_err(|error| match error {
            OnceError::Lock(error) => error,
            OnceError::Work(_) => unreachable!("the service fails before its head"),
        })
    }
}
