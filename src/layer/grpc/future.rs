use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::{Request, Response};
use http_body::Body;
use pin_project::pin_project;
use tonic::Status;
use tower_service::Service;

use super::{Grpc, GrpcBody};
use crate::layer::{
    Error,
    call::Call,
    http::{Rejection, RequestOutcome},
};

/// The future of a gRPC request behind a [`RedlockLayer`](crate::RedlockLayer).
///
/// # Cancel safety
///
/// Dropping it drops the inner future, then gives the lock back.
///
/// # Panics
///
/// If polled again after it was ready, and where the service panics; the lock is given back then.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct GrpcFuture<S: Service<Request<B>>, B, R> {
    #[pin]
    call: Call<S, Request<B>, Grpc<R>>,
    on_reject: R,
}

impl<S: Service<Request<B>>, B, R> GrpcFuture<S, B, R> {
    pub(super) const fn new(call: Call<S, Request<B>, Grpc<R>>, on_reject: R) -> Self {
        Self { call, on_reject }
    }
}

impl<S, B, R, A> Future for GrpcFuture<S, B, R>
where
    S: Service<Request<B>, Response = Response<A>>,
    R: Fn(Rejection<'_>) -> Status,
    A: Body,
{
    type Output = Result<Response<GrpcBody<A>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        Poll::Ready(match ready!(this.call.as_mut().poll_covered(cx)) {
            Ok((response, hold)) => Ok(response.map(|body| GrpcBody::of_service(body, hold))),
            Err(Error::Service(error)) => Err(error),
            Err(Error::Lock(error)) => {
                let rejection = Rejection::new(&error, this.call.resource());
                rejection.log();
                let response = (this.on_reject)(rejection).into_http::<()>();
                let response = response.map(|()| GrpcBody::empty());
                Ok(RequestOutcome::of_rejection(rejection.has_begun()).mark(response))
            }
        })
    }
}

impl<S: Service<Request<B>>, B, R> fmt::Debug for GrpcFuture<S, B, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcFuture").field("state", &self.call.name()).finish_non_exhaustive()
    }
}
