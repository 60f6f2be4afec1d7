//! The settings over gRPC, and the service.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use http::{HeaderName, Request, Response};
use http_body::Body;
use tonic::{Status, server::NamedService};
use tower_service::Service;

use super::{
    CompletesGrpc, OnceGrpcBody, OnceGrpcFuture, call::GrpcCall, relay::ByStatus, slot::slot,
};
use crate::{
    error::LockError,
    layer::{ResourceKey, grpc::timeout::timeout, token_header::TokenHeader},
    once::{
        OnceLayer, OnceService,
        call::OnceCall,
        detach::Detach,
        http::{Missing, future::HttpCall},
        service::begin,
    },
    reject::{DefaultResponse, OnReject, Rejection},
};

/// Outcomes are gRPC statuses. Made by [`OnceLayer::grpc`].
#[derive(Clone, Debug)]
pub struct OnceGrpc<R = DefaultResponse> {
    missing: Missing,
    token_header: TokenHeader,
    on_reject: R,
    detached: bool,
}

impl<K, C> OnceLayer<K, C> {
    /// Makes outcomes gRPC statuses, for tonic's `Server::layer` or around one service:
    ///
    /// | what happened | status | details | does the method run? |
    /// |---|---|---|---|
    /// | the key is free | the method's | the method's | yes |
    /// | done before | `ALREADY_EXISTS`, with the metadata `once: duplicate` | `ErrorInfo`: `DUPLICATE` | no |
    /// | another call with the key runs | `ABORTED` | `ErrorInfo`: `IN_PROGRESS`; `RetryInfo`: an estimate of when it ends | no |
    /// | its outcome is unknown, and [held](crate::once::UnknownOutcome::Hold) | `FAILED_PRECONDITION` | `ErrorInfo`: `UNKNOWN_OUTCOME` | no |
    /// | no key | `INVALID_ARGUMENT`; or see [`missing`](Self::missing) | | no |
    /// | a key that is no key | `INVALID_ARGUMENT` | | no |
    /// | no quorum, too slow, shutting down | `UNAVAILABLE` | `RetryInfo`: 1 s | no |
    /// | the lock was lost while it ran, or `max_hold` was over | `UNKNOWN` | `ErrorInfo`: `LOCK_LOST` | yes, to some point |
    /// | the client went away | nobody is there | | yes, to its end: see [`detached`](Self::detached) |
    /// | a TTL or wait that the manager refuses, a set of names as a key | `INTERNAL` | | no |
    ///
    /// `ErrorInfo`s are of the domain `tower-redlock`, and their metadata has the `outcome`: `done`,
    /// `not-run` or `unknown`. A duplicate is not `OK`, since that needs a message, and this layer
    /// does not know which.
    ///
    /// # What a call's status means
    ///
    /// What a response says of itself ([`RequestOutcome`](crate::reject::RequestOutcome), in the extensions of its
    /// head) goes before its status, which also may come later or not at all. So a lock's layer inside that
    /// turns a call away leaves the key free, over HTTP too. Without that:
    ///
    /// | the call ends with | the key |
    /// |---|---|
    /// | `OK` | done |
    /// | `UNKNOWN`, `DEADLINE_EXCEEDED`, `INTERNAL`, `DATA_LOSS`, `CANCELLED` | unknown: see [`unknown`](OnceLayer::unknown); a WARN |
    /// | another status | free at once |
    /// | no status: its body fails, or ends without trailers | unknown; a WARN |
    /// | an error of the service, instead of a response | free at once |
    ///
    /// [`complete_when`](OnceLayer::complete_when) says otherwise for statuses, by a closure from
    /// [`tonic::Code`] to [`CallOutcome`](super::CallOutcome). Use it for a method that forwards the `UNAVAILABLE` of
    /// a server behind it, which may have done its part.
    ///
    /// ```
    /// use tonic::Code;
    /// use tower_redlock::{key, once::grpc::CallOutcome, OnceLayer, Redlock};
    ///
    /// let once = OnceLayer::new(Redlock::embedded(), "orders", key::header("request-id"))
    ///     .complete_when(|code| match code {
    ///         // The order was there before.
    ///         Code::AlreadyExists => CallOutcome::Done,
    ///         Code::Unavailable => CallOutcome::Unknown,
    ///         code => code.into(),
    ///     })
    ///     .grpc();
    /// # let _ = once;
    /// ```
    ///
    /// The status is in the trailers: a stream runs under the lock of its key until then, and its trailers
    /// are sent when its end is recorded, or too few nodes keep it (a WARN). A client that stops reading
    /// keeps its call in progress for `max_hold` at most; the outcome is unknown then. Calls whose requests
    /// are streams run once like others; the layer reads no message. Put the translation of gRPC-Web
    /// outside of this layer, as its trailers are part of the body. A request whose message is truncated
    /// may end with one of the unknown statuses, though the method never ran.
    ///
    /// A call waits for its lock no longer than its `grpc-timeout`. The
    /// [`LockContext`](crate::LockContext) is in the request's extensions, and with those of other layers
    /// in [`LockContexts`](crate::LockContexts). Around a client's
    /// `Channel` the layer answers with the same statuses, without a request.
    pub fn grpc(self) -> OnceLayer<K, C, OnceGrpc> {
        self.map_protocol(|_| OnceGrpc {
            missing: Missing::Reject,
            token_header: TokenHeader::default(),
            on_reject: DefaultResponse::default(),
            detached: true,
        })
    }
}

impl<K, C, R> OnceLayer<K, C, OnceGrpc<R>> {
    /// What becomes of a call without a key. Default: [`Missing::Reject`], with `INVALID_ARGUMENT`.
    ///
    /// A key that is a closure says so with [`KeyError::missing`](crate::layer::KeyError::missing); one that
    /// returns `None` lets the call run in any case.
    pub fn missing(mut self, missing: Missing) -> Self {
        self.protocol.missing = missing;
        self
    }

    /// Whether a call that has begun continues when its client disconnects, its deadline is over, or a
    /// layer outside drops it. Default: yes. Its response is read to its end then, also a stream, and its
    /// status is recorded. Otherwise it is dropped, as if the process had crashed: see
    /// [`UnknownOutcome`](crate::once::UnknownOutcome).
    ///
    /// The task is that of a request over HTTP: see there.
    pub fn detached(mut self, detached: bool) -> Self {
        self.protocol.detached = detached;
        self
    }

    /// The service finds the fencing token in this metadata of the request. Default: in none. A client
    /// can't set it.
    ///
    /// # Panics
    ///
    /// If it is not the name of a header.
    pub fn token_header<N>(mut self, name: N) -> Self
    where
        N: TryInto<HeaderName>,
        N::Error: fmt::Debug,
    {
        self.protocol.token_header = TokenHeader::new(name);
        self
    }

    /// Makes the statuses of rejected calls by `respond` instead of [`Rejection::grpc_status`], with which
    /// a call ends that loses its lock after its head was sent. Duplicates of done work are not rejected.
    pub fn on_reject<G>(self, respond: G) -> OnceLayer<K, C, OnceGrpc<G>>
    where
        G: Fn(Rejection<'_>) -> Status,
    {
        self.map_protocol(|OnceGrpc { missing, token_header, detached, .. }| OnceGrpc {
            missing,
            token_header,
            on_reject: respond,
            detached,
        })
    }
}

impl<S, K, C, R, B, A> Service<Request<B>> for OnceService<S, K, C, OnceGrpc<R>>
where
    S: Service<Request<B>, Response = Response<A>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    K: ResourceKey<Request<B>>,
    C: CompletesGrpc + Clone + Send + 'static,
    R: OnReject<Status> + Clone,
    B: Send + 'static,
    A: Body<Data: Send, Error: Send> + Send + 'static,
{
    type Response = Response<OnceGrpcBody<A>>;
    type Error = S::Error;
    type Future = OnceGrpcFuture<S, B, A, C, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let protocol = &self.layer.protocol;
        protocol.token_header.strip(request.headers_mut());
        let on_reject = protocol.on_reject.clone();
        let (reader, writer) = slot();
        let call = match protocol.missing.settle(self.layer.key.key(&request)) {
            Ok(Some(key)) => {
                let detach = protocol.detached.then(Detach::new);
                let token_header = protocol.token_header.clone();
                let mut asked = self.layer.request_for(&key);
                asked.lock = asked.lock.wait_at_most(timeout(request.headers()));
                let complete = self.layer.complete.clone();
                let name = Arc::clone(self.layer.name());
                let call = HttpCall::new(self.take_ready(), request, token_header, name);
                let call = GrpcCall { call, writer, complete };
                begin(asked, call, ByStatus).detached(detach)
            }
            Ok(None) => return OnceGrpcFuture::unguarded(self.inner.call(request), on_reject),
            Err(error) => OnceCall::rejected(LockError::InvalidResource(error.into()), ByStatus),
        };
        OnceGrpcFuture::calling(reader, call, on_reject)
    }
}

/// For `Server::add_service` with a wrapped service.
impl<S: NamedService, K, C, P> NamedService for OnceService<S, K, C, P> {
    const NAME: &'static str = S::NAME;
}
