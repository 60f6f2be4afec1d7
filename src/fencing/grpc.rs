//! The face that stale tokens have over gRPC.

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::{Request, Response};
use http_body::Body;
use pin_project::pin_project;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use tower_service::Service;

use super::{FencingError, FencingLayer, FencingService, TokenSource, call::Fenced};
use crate::layer::{ResourceKey, grpc::GrpcBody, http::RequestOutcome};

/// Stale tokens are gRPC statuses. Made by [`FencingLayer::grpc`].
#[derive(Clone, Copy, Debug)]
pub struct Grpc(());

impl<K, T> FencingLayer<K, T> {
    /// Makes errors gRPC statuses; the token is found in the request's metadata `fencing-token`,
    /// unless [`token`](Self::token) says otherwise.
    ///
    /// | what happened | status | details |
    /// |---|---|---|
    /// | a newer token was seen before | `FAILED_PRECONDITION` | `ErrorInfo`: `STALE_TOKEN`, domain `tower-redlock`, `outcome: not-run` |
    /// | a newer token came while it ran | `FAILED_PRECONDITION` | the same, `outcome: unknown` |
    /// | no token, or none that can be read | `INVALID_ARGUMENT` | |
    /// | no usable key | `INVALID_ARGUMENT` | |
    pub fn grpc(self) -> FencingLayer<K, T, Grpc> {
        self.with_face(Grpc(()))
    }
}

/// Which status says what.
fn status(error: &FencingError) -> Status {
    match error {
        FencingError::Stale { .. } | FencingError::Overtaken { .. } => {
            let outcome = if error.has_begun() { "unknown" } else { "not-run" };
            let metadata = HashMap::from([("outcome".to_owned(), outcome.to_owned())]);
            let details = ErrorDetails::with_error_info("STALE_TOKEN", "tower-redlock", metadata);
            Status::with_error_details(Code::FailedPrecondition, error.detail(), details)
        }
        FencingError::Key(key) if key.is_setup() => Status::internal(error.detail()),
        FencingError::Token(_) | FencingError::Key(_) => Status::invalid_argument(error.detail()),
    }
}

impl<S, K, T, B, A> Service<Request<B>> for FencingService<S, K, T, Grpc>
where
    S: Service<Request<B>, Response = Response<A>>,
    K: ResourceKey<Request<B>>,
    T: TokenSource<Request<B>>,
    A: Body,
{
    type Response = Response<GrpcBody<A>>;
    type Error = S::Error;
    type Future = GrpcFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        GrpcFuture { fenced: self.begin(request) }
    }
}

/// The future of a gRPC request behind a [`FencingLayer`]; `F` is the service's own.
///
/// # Cancel safety
///
/// Dropping it drops the inner future. The token was seen nevertheless.
///
/// # Panics
///
/// If polled again after it was ready, and where the service panics.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct GrpcFuture<F> {
    #[pin]
    fenced: Fenced<F>,
}

impl<F, A, E> Future for GrpcFuture<F>
where
    F: Future<Output = Result<Response<A>, E>>,
    A: Body,
{
    type Output = Result<Response<GrpcBody<A>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(self.project().fenced.poll(cx)) {
            Ok(result) => {
                result.map(|response| response.map(|body| GrpcBody::of_service(body, None)))
            }
            Err(error) => {
                let response = status(&error).into_http::<()>().map(|()| GrpcBody::empty());
                Ok(RequestOutcome::of_rejection(error.has_begun()).mark(response))
            }
        })
    }
}

impl<F> fmt::Debug for GrpcFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcFuture").field("state", &self.fenced.name()).finish_non_exhaustive()
    }
}
