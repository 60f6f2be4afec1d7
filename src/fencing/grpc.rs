//! [`FencingLayer`] over gRPC: errors are statuses.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::{Request, Response};
use http_body::Body;
use tonic::Status;
use tower_service::Service;

use super::{FencingFuture, FencingLayer, FencingService, TokenSource};
use crate::{
    layer::{ResourceKey, grpc::GrpcBody},
    reject::{DefaultResponse, OnReject, Rejection},
};

/// The settings of a [`FencingLayer`] over gRPC, where errors are statuses. Created by
/// [`FencingLayer::grpc`].
#[derive(Clone, Copy, Debug)]
pub struct FencingGrpc<R = DefaultResponse> {
    on_reject: R,
}

impl<K, T> FencingLayer<K, T> {
    /// Makes errors gRPC statuses. The token is in the request's metadata `fencing-token`, unless
    /// [`token`](Self::token) sets another source.
    ///
    /// | what happened | status | details |
    /// |---|---|---|
    /// | a newer token was seen before | `FAILED_PRECONDITION` | `ErrorInfo`: `STALE_TOKEN`, domain `tower-redlock`, `outcome: not-run` |
    /// | a newer token arrived while it ran | `FAILED_PRECONDITION` | the same, `outcome: unknown` |
    /// | no token, or none that can be read | `INVALID_ARGUMENT` | |
    /// | no usable key | `INVALID_ARGUMENT` | |
    pub fn grpc(self) -> FencingLayer<K, T, FencingGrpc> {
        self.with_protocol(FencingGrpc { on_reject: DefaultResponse::default() })
    }
}

impl<K, T, R> FencingLayer<K, T, FencingGrpc<R>> {
    /// Sets the closure that makes the statuses of rejected calls. Default: [`Rejection::grpc_status`].
    pub fn on_reject<G>(self, respond: G) -> FencingLayer<K, T, FencingGrpc<G>>
    where
        G: Fn(Rejection<'_>) -> Status,
    {
        self.with_protocol(FencingGrpc { on_reject: respond })
    }
}

impl<S, K, T, R, B, A> Service<Request<B>> for FencingService<S, K, T, FencingGrpc<R>>
where
    S: Service<Request<B>, Response = Response<A>>,
    K: ResourceKey<Request<B>>,
    T: TokenSource<Request<B>>,
    R: OnReject<Status> + Clone,
    A: Body,
{
    type Response = Response<GrpcBody<A>>;
    type Error = S::Error;
    type Future = FencingFuture<S::Future, FencingGrpc<R>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.begin(request)
    }
}

impl<F, R, A, E> Future for FencingFuture<F, FencingGrpc<R>>
where
    F: Future<Output = Result<Response<A>, E>>,
    R: OnReject<Status>,
    A: Body,
{
    type Output = Result<Response<GrpcBody<A>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        Poll::Ready(match ready!(this.fenced.poll(cx)) {
            Ok(result) => {
                result.map(|response| response.map(|body| GrpcBody::of_service(body, None)))
            }
            Err(error) => {
                let on_reject = &this.protocol.on_reject;
                Ok(GrpcBody::of_rejection(error.reject(|rejection| rejection.answer(on_reject))))
            }
        })
    }
}
