//! The settings of a layer over gRPC, its service, and the future of a request.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::{HeaderName, Request, Response};
use http_body::Body;
use tonic::{Status, server::NamedService};
use tower_service::Service;

use super::{GrpcBody, timeout::timeout};
use crate::{
    guard::{LockContext, LockContexts},
    layer::{
        GuardError, RedlockFuture, RedlockLayer, RedlockService, ResourceKey, protocol::Protocol,
        token_header::TokenHeader,
    },
    reject::{DefaultResponse, OnReject, RejectReason, Rejecter, Rejection},
};

/// The settings of a [`RedlockLayer`] over gRPC, where lock errors are statuses. Created by
/// [`RedlockLayer::grpc`].
#[derive(Clone, Debug)]
pub struct RedlockGrpc<R = DefaultResponse> {
    token_header: TokenHeader,
    rejecter: Rejecter<R>,
}

impl<K> RedlockLayer<K> {
    /// Makes lock errors gRPC statuses, for tonic's `Server::layer` or around one service:
    ///
    /// | what happened | status | details | did the method run? |
    /// |---|---|---|---|
    /// | held by another | `ABORTED` | `RetryInfo`: an [estimate](RedlockLayer::max_retry_after) of when it is free | no |
    /// | all [slots](RedlockLayer::slots) held | `RESOURCE_EXHAUSTED` | `ErrorInfo`: `FULL`, domain `tower-redlock`; `RetryInfo` | no |
    /// | no quorum, too slow, shutting down | `UNAVAILABLE` | `RetryInfo`: 1 s | no |
    /// | the wait was over | as what was met last | | no |
    /// | lost while it ran | `UNKNOWN` | `ErrorInfo`: `LOCK_LOST`, domain `tower-redlock` | yes, to some point |
    /// | no usable key | `INVALID_ARGUMENT` | | no |
    /// | a TTL or wait that the manager refuses, a key at the wrong place | `INTERNAL` | | no |
    ///
    /// A lost lock is not `ABORTED`, after which clients repeat the call. The responses are marked
    /// with a [`RequestOutcome`](crate::reject::RequestOutcome) for layers outside.
    ///
    /// The lock is held until the response's trailers; a stream that outlives it ends with the
    /// status of a lost lock, as trailers. The [`LockContext`] is in the request's extensions;
    /// [`LockContexts`] has those of nested layers.
    ///
    /// The key is found in the path or the metadata, as the message is not decoded yet. If the key
    /// is in the message, the method itself acquires the lock with
    /// [`try_run`](crate::LockRequest::try_run), whose error `?` converts to a status.
    ///
    /// A call waits for its lock no longer than its `grpc-timeout`, on the client's side as on the
    /// server's. If the timeout passes before the response begins, the method is dropped and the
    /// lock released. A client that stops reading a stream keeps its lock, for `max_hold` at most.
    /// Around a client's `Channel` the layer responds with the same statuses, without a request.
    pub fn grpc(self) -> RedlockLayer<K, RedlockGrpc> {
        self.map_protocol(|_| RedlockGrpc {
            token_header: TokenHeader::default(),
            rejecter: Rejecter::default(),
        })
    }
}

/// # Methods and rejections over gRPC
impl<K, R> RedlockLayer<K, RedlockGrpc<R>> {
    /// Sets the metadata of the request that carries the fencing token to the service. Default: none. A
    /// value that the client sent is removed.
    ///
    /// # Panics
    ///
    /// If `name` is not a valid header name.
    pub fn token_header<N>(mut self, name: N) -> Self
    where
        N: TryInto<HeaderName>,
        N::Error: fmt::Debug,
    {
        self.protocol.token_header = TokenHeader::new(name);
        self
    }

    /// Sets the closure that makes the statuses of rejected calls: calls that did not get the lock,
    /// or lost it before they had a response. Default: [`Rejection::grpc_status`]. A stream that
    /// outlives its lock always ends with the default status.
    pub fn on_reject<G>(self, respond: G) -> RedlockLayer<K, RedlockGrpc<G>>
    where
        G: Fn(Rejection<'_>) -> Status,
    {
        self.map_protocol(|RedlockGrpc { token_header, rejecter }| RedlockGrpc {
            token_header,
            rejecter: rejecter.with(respond),
        })
    }
}

impl<B, R> Protocol<Request<B>> for RedlockGrpc<R> {
    fn prepare(&self, request: &mut Request<B>, layer: Option<Arc<str>>, context: &LockContext) {
        self.token_header.set(request.headers_mut(), context.fencing_token());
        LockContexts::enter(request.extensions_mut(), layer, context.clone());
    }
}

impl<S, K, R, B, A> Service<Request<B>> for RedlockService<S, K, RedlockGrpc<R>>
where
    S: Service<Request<B>, Response = Response<A>> + Clone,
    K: ResourceKey<Request<B>>,
    R: OnReject<Status> + Clone,
    A: Body,
{
    type Response = Response<GrpcBody<A>>;
    type Error = S::Error;
    type Future = RedlockFuture<S, Request<B>, RedlockGrpc<R>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        self.layer().protocol.token_header.strip(request.headers_mut());
        let timeout = timeout(request.headers());
        self.begin(request, |lock| lock.wait_at_most(timeout))
    }
}

impl<S, B, R, A> Future for RedlockFuture<S, Request<B>, RedlockGrpc<R>>
where
    S: Service<Request<B>, Response = Response<A>>,
    R: OnReject<Status>,
    A: Body,
{
    type Output = Result<Response<GrpcBody<A>>, S::Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(self.as_mut().poll_covered(cx)) {
            Ok((response, hold)) => Ok(response.map(|body| GrpcBody::of_service(body, hold))),
            Err(GuardError::Work(error)) => Err(error),
            Err(GuardError::Lock(error)) => {
                let rejection = Rejection::new(RejectReason::Lock(&error), self.resource());
                Ok(GrpcBody::of_rejection(self.protocol.rejecter.reject(rejection)))
            }
        })
    }
}

/// Lets `Server::add_service` take the service inside the layer.
impl<S: NamedService, K, P> NamedService for RedlockService<S, K, P> {
    const NAME: &'static str = S::NAME;
}
