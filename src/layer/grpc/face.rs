use std::task::{Context, Poll};

use http::{HeaderName, HeaderValue, Request, Response};
use http_body::Body;
use tower_service::Service;

use super::{GrpcBody, GrpcFuture};
use crate::{
    guard::LockContext,
    layer::{RedlockLayer, RedlockService, ResourceKey, call::Enter},
};

/// Lock errors are gRPC statuses. Made by [`RedlockLayer::grpc`].
#[derive(Clone, Debug)]
pub struct Grpc {
    token_header: Option<HeaderName>,
}

impl<K> RedlockLayer<K> {
    /// Makes lock errors gRPC statuses, for tonic's `Server::layer` or around one service:
    ///
    /// | what happened | status | details | did the method run? |
    /// |---|---|---|---|
    /// | held by another | `ABORTED` | `RetryInfo`: when the holder's lease would end | no |
    /// | no quorum, too slow, shutting down | `UNAVAILABLE` | `RetryInfo`: 1 s | no |
    /// | the wait was over | as what was met last | | no |
    /// | lost while it ran | `UNKNOWN` | `ErrorInfo`: `LOCK_LOST`, domain `tower-redlock` | yes, to some point |
    /// | no usable key | `INVALID_ARGUMENT` | | no |
    /// | a TTL or wait that the manager refuses | `INTERNAL` | | no |
    ///
    /// A lost lock is not `ABORTED`: clients take that for "not done, try again".
    ///
    /// The lock is held until the response's trailers; a stream that outlives it ends with the
    /// status of a lost lock, as trailers. The [`LockContext`] is in the request's extensions.
    pub fn grpc(self) -> RedlockLayer<K, Grpc> {
        self.with_face(|_| Grpc { token_header: None })
    }
}

impl<K> RedlockLayer<K, Grpc> {
    /// The service finds the fencing token in this metadata of the request, in decimal digits.
    /// Default: in none. What it held before is replaced.
    pub fn token_header(mut self, name: HeaderName) -> Self {
        self.face.token_header = Some(name);
        self
    }
}

impl<B> Enter<Request<B>> for Grpc {
    fn enter(&self, request: &mut Request<B>, context: &LockContext) {
        if let Some(name) = &self.token_header {
            let token = HeaderValue::from(context.fencing_token().get());
            request.headers_mut().insert(name, token);
        }
        request.extensions_mut().insert(context.clone());
    }
}

impl<S, K, B, A> Service<Request<B>> for RedlockService<S, K, Grpc>
where
    S: Service<Request<B>, Response = Response<A>> + Clone,
    K: ResourceKey<Request<B>>,
    A: Body,
{
    type Response = Response<GrpcBody<A>>;
    type Error = S::Error;
    type Future = GrpcFuture<S, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        GrpcFuture::new(self.begin(request))
    }
}
