use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::{Request, Response};
use http_body::Body;
use pin_project::pin_project;
use tower_service::Service;

use super::{Grpc, GrpcBody, status::status};
use crate::layer::{Error, call::Call, http::Rejection};

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
pub struct GrpcFuture<S: Service<Request<B>>, B> {
    #[pin]
    call: Call<S, Request<B>, Grpc>,
}

impl<S: Service<Request<B>>, B> GrpcFuture<S, B> {
    pub(super) const fn new(call: Call<S, Request<B>, Grpc>) -> Self {
        Self { call }
    }
}

impl<S, B, A> Future for GrpcFuture<S, B>
where
    S: Service<Request<B>, Response = Response<A>>,
    A: Body,
{
    type Output = Result<Response<GrpcBody<A>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        Poll::Ready(match ready!(this.call.as_mut().poll(cx)) {
            Ok((response, hold)) => Ok(response.map(|body| GrpcBody::of_service(body, hold))),
            Err(Error::Service(error)) => Err(error),
            Err(Error::Lock(error)) => {
                let rejection = Rejection::new(&error, this.call.resource());
                rejection.log();
                let response = status(&rejection).into_http::<()>();
                Ok(response.map(|()| GrpcBody::empty()))
            }
        })
    }
}

impl<S: Service<Request<B>>, B> fmt::Debug for GrpcFuture<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcFuture").field("state", &self.call.name()).finish_non_exhaustive()
    }
}
