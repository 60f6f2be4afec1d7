use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use http::{HeaderName, Request, Response};
use http_body::Body;
use tonic::Status;
use tower_service::Service;

use super::{
    CompletesGrpc, GrpcBody, GrpcFuture, Rejection,
    call::GrpcCall,
    relay::ByStatus,
    slot::slot,
    status::{OnReject, answer},
};
use crate::{
    error::LockError,
    layer::{ResourceKey, grpc::timeout::timeout, token_header::TokenHeader},
    once::{
        Missing, OnceLayer, OnceService, call::OnceCall, detach::Detach, http::future::HttpCall,
        service::begin,
    },
};

/// Outcomes are gRPC statuses. Made by [`OnceLayer::grpc`].
#[derive(Clone, Debug)]
pub struct Grpc<R = OnReject> {
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
    /// | another call with the key runs | `ABORTED` | `ErrorInfo`: `IN_PROGRESS`; `RetryInfo`: an estimate of when that one ends | no |
    /// | its outcome is unknown, and [held](crate::Unknown::Hold) | `FAILED_PRECONDITION` | `ErrorInfo`: `UNKNOWN_OUTCOME` | no |
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
    /// What a response says of itself ([`RequestOutcome`](crate::RequestOutcome), in the extensions of its
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
    /// [`tonic::Code`] to [`CallOutcome`](super::CallOutcome). A method that hands on the `UNAVAILABLE` of a
    /// server behind it, which may have done its part, is a case for that.
    ///
    /// ```
    /// use tonic::Code;
    /// use tower_redlock::{OnceLayer, Redlock, key, once::CallOutcome};
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
    /// The status comes with the trailers, at the end of the body: a stream is under the lock of its
    /// key until then, and its trailers go out when its end is recorded, or too few nodes keep it (a
    /// WARN). A client that stops reading keeps its call in progress for `max_hold` at most; the outcome is
    /// unknown then. Calls whose requests are streams run once like others; the layer reads no message.
    /// The translation of gRPC-Web belongs outside of this layer, as the trailers there are part of the body.
    /// A request whose message breaks off on its way may end with one of the unknown statuses, though the
    /// method never ran.
    ///
    /// A call waits for its lock no longer than its `grpc-timeout`. The
    /// [`LockContext`](crate::LockContext) is in the request's extensions, and with those of other layers
    /// in [`LockContexts`](crate::LockContexts). Around a client's
    /// `Channel` the layer answers with the same statuses, without a request.
    pub fn grpc(self) -> OnceLayer<K, C, Grpc> {
        self.with_face(|complete, _| {
            let face = Grpc {
                missing: Missing::Reject,
                token_header: TokenHeader::default(),
                on_reject: answer as OnReject,
                detached: true,
            };
            (complete, face)
        })
    }
}

impl<K, C, R> OnceLayer<K, C, Grpc<R>> {
    /// What becomes of a call without a key. Default: [`Missing::Reject`], with `INVALID_ARGUMENT`.
    ///
    /// A key that is a closure says so with [`KeyError::missing`](crate::KeyError::missing); one that
    /// returns `None` lets the call run in any case.
    pub fn missing(mut self, missing: Missing) -> Self {
        self.face.missing = missing;
        self
    }

    /// Whether a call that has begun goes on when its client goes away, its deadline is over, or a
    /// layer outside gives it up. Default: yes. Its response is read to its end then, also a stream, and
    /// what it ends with is recorded. Else it is dropped in the middle, as if the process had crashed:
    /// see [`Unknown`](crate::Unknown).
    ///
    /// It goes on as a task of the tokio runtime that polled it, in the span in which it began, under
    /// its lock: renewed, stopped at [`max_hold`](OnceLayer::max_hold) at the latest, and awaited by
    /// [`Redlock::shutdown`](crate::Redlock::shutdown). What the runtime's end drops, and what was
    /// polled outside a tokio runtime, is dropped in the middle; a WARN says so. A call without a key
    /// does not go on.
    pub fn detached(mut self, detached: bool) -> Self {
        self.face.detached = detached;
        self
    }

    /// The service finds the fencing token in this metadata of the request, in decimal digits.
    /// Default: in none.
    ///
    /// Who sent the request can't set it: what it held is replaced, and is taken out of requests
    /// that run without a key.
    ///
    /// # Panics
    ///
    /// If it is not the name of a header.
    pub fn token_header<N>(mut self, name: N) -> Self
    where
        N: TryInto<HeaderName>,
        N::Error: fmt::Debug,
    {
        self.face.token_header = TokenHeader::new(name);
        self
    }

    /// Answers calls that did not run, or lost their lock before their head was sent, by `answer`.
    /// [`Rejection::grpc_status`] is what would be answered otherwise, and what a call ends with that
    /// loses its lock later. Duplicates of what is done are none of these.
    pub fn on_reject<G>(self, answer: G) -> OnceLayer<K, C, Grpc<G>>
    where
        G: Fn(Rejection<'_>) -> Status,
    {
        self.with_face(|complete, Grpc { missing, token_header, detached, .. }| {
            (complete, Grpc { missing, token_header, on_reject: answer, detached })
        })
    }
}

impl<S, K, C, R, B, A> Service<Request<B>> for OnceService<S, K, C, Grpc<R>>
where
    S: Service<Request<B>, Response = Response<A>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    K: ResourceKey<Request<B>>,
    C: CompletesGrpc + Clone + Send + 'static,
    R: Fn(Rejection<'_>) -> Status + Clone,
    B: Send + 'static,
    A: Body<Data: Send, Error: Send> + Send + 'static,
{
    type Response = Response<GrpcBody<A>>;
    type Error = S::Error;
    type Future = GrpcFuture<S, B, A, C, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let face = &self.layer.face;
        face.token_header.strip(request.headers_mut());
        let on_reject = face.on_reject.clone();
        let (reader, writer) = slot();
        let call = match face.missing.settle(self.layer.key.key(&request)) {
            Ok(Some(key)) => {
                let detach = face.detached.then(Detach::new);
                let token_header = face.token_header.clone();
                let mut asked = self.layer.request_for(&key);
                asked.lock = asked.lock.wait_at_most(timeout(request.headers()));
                let complete = self.layer.complete.clone();
                let name = Arc::clone(self.layer.name());
                let call = HttpCall::new(self.take_ready(), request, token_header, name);
                let call = GrpcCall { call, writer, complete };
                begin(asked, call, ByStatus).detached(detach)
            }
            Ok(None) => return GrpcFuture::unguarded(self.inner.call(request), on_reject),
            Err(error) => OnceCall::rejected(LockError::InvalidResource(error.into()), ByStatus),
        };
        GrpcFuture::calling(reader, call, on_reject)
    }
}
