//! The settings of a once layer over HTTP.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderName, Response};

use super::{Missing, ServerErrors};
use crate::{
    layer::{http::DEFAULT_BODY_TIMEOUT, token_header::TokenHeader},
    lock::Redlock,
    once::{Always, DEFAULT_BODY_LIMIT, OnceLayer},
    reject::{DefaultResponse, Rejecter, Rejection},
};

/// The settings of a [`OnceLayer`] over HTTP, where outcomes are responses. Created by [`OnceLayer::http`],
/// [`OnceLayer::by_body`], [`OnceLayer::idempotency`] and `OnceLayer::grpc`, each with a mode `M`.
#[derive(Clone, Debug)]
pub struct OnceHttp<R = DefaultResponse, M = ByHead> {
    pub(in crate::once) missing: Missing,
    pub(in crate::once) token_header: TokenHeader,
    pub(in crate::once) rejecter: Rejecter<R>,
    pub(in crate::once) detached: bool,
    pub(super) server_errors: ServerErrors,
    pub(super) mode: M,
}

/// The mode for webhooks whose key is in the request's head. Created by [`OnceLayer::http`].
#[derive(Clone, Copy, Debug)]
pub struct ByHead(());

/// A mode whose outcomes are HTTP statuses. Implemented by the modes of this crate.
pub trait HttpMode {}

impl HttpMode for ByHead {}
impl HttpMode for ByBody {}

impl<M> OnceHttp<DefaultResponse, M> {
    pub(in crate::once) fn new(mode: M) -> Self {
        let (missing, token_header) = (Missing::Reject, TokenHeader::default());
        let server_errors = ServerErrors::Release;
        let rejecter = Rejecter::default();
        Self { missing, token_header, rejecter, detached: true, server_errors, mode }
    }
}

impl<R, M> OnceHttp<R, M> {
    pub(in crate::once) fn with_on_reject<G>(self, on_reject: G) -> OnceHttp<G, M> {
        let Self { missing, token_header, rejecter, detached, server_errors, mode } = self;
        let rejecter = rejecter.with(on_reject);
        OnceHttp { missing, token_header, rejecter, detached, server_errors, mode }
    }
}

impl<K, C> OnceLayer<K, C> {
    /// Makes outcomes HTTP responses, for webhooks, whose senders repeat a request until they get a 2xx.
    ///
    /// | what happened | status | `Retry-After` | does the handler run? |
    /// |---|---|---|---|
    /// | the key is free | the handler's | the handler's | yes |
    /// | done before | 200, empty, `once: duplicate` | | no |
    /// | another request with the key runs | 409, `in-progress` | an estimate of when it ends | no |
    /// | stopped before its end, and [held](crate::once::UnknownOutcome::Hold) | 409, `unknown-outcome` | none | no |
    /// | no key | 400, `bad-key`; or see [`missing`](Self::missing) | none | no |
    /// | an invalid key | 400, `bad-key` | none | no |
    /// | no quorum, too slow, shutting down | 503 | 1 s | no |
    /// | the lock was lost while it ran, or `max_hold` was over | 500, `lost`, `outcome: unknown` | none | yes, to some point |
    /// | the response upgrades the connection: 101, or a 2xx to CONNECT | 500, `upgrade-unguarded`, `outcome: unknown`; the connection is closed | none | yes |
    /// | the handler, or a layer around it, reports an [unknown](crate::reject::RequestOutcome) outcome | the response's | the response's | yes; [`unknown`](OnceLayer::unknown) decides on the key |
    /// | the sender disconnected | none | | yes, to its end: see [`detached`](Self::detached) |
    /// | a TTL or wait that the manager refuses, a set of names as a key | 500 | none | no |
    /// | a gRPC request with a key: see `grpc()` | 500 | none | no |
    ///
    /// Refusals have problem bodies after RFC 9457: see [`on_reject`](Self::on_reject).
    ///
    /// A 2xx completes the key, unless [`complete_when`](Self::complete_when) decides otherwise. After any
    /// other status the key is free for the next try; after a 5xx it may be
    /// [kept or held](Self::server_errors). When the handler has returned its response, the record is
    /// stored, the lock released, and the response sent. An error of the body has no effect on the record.
    /// If too few nodes store the record, a WARN is logged, and the response is still sent, so that the
    /// sender does not retry.
    ///
    /// An upgrade is refused, and logged at ERROR, as its session would outlive the lock, and a repetition
    /// would run beside it. Let requests that upgrade have no key.
    ///
    /// A [`RequestOutcome`](crate::reject::RequestOutcome) in the response takes precedence over its status:
    /// after a lost lock of a [`RedlockLayer`](crate::RedlockLayer) inside, the outcome is unknown.
    ///
    /// # Signatures come first
    ///
    /// Verify signatures *outside* of this layer. Inside, anyone could probe which events are done, and
    /// block another by sending its id and a body that does not end.
    ///
    /// Standard Webhooks sign the id. GitHub and Shopify sign the body alone: a captured delivery can be
    /// sent again under another id, and is handled again. To prevent that, take the key from the body:
    /// [`by_body`](OnceLayer::by_body).
    ///
    /// ```
    /// use axum::{Router, extract::Request, middleware::{self, Next}, response::Response, routing::post};
    /// use tower_redlock::{OnceLayer, Redlock, key};
    ///
    /// async fn verify(request: Request, next: Next) -> Response {
    ///     // … the signature over the id, the time and the body as they were sent, or 401.
    ///     next.run(request).await
    /// }
    ///
    /// async fn handle(event: String) {}
    ///
    /// let once = OnceLayer::new(Redlock::embedded(), "payments", key::header("webhook-id")).http();
    /// let app: Router = Router::new()
    ///     .route("/webhooks", post(handle).route_layer(once))
    ///     // Outside, as it is added later.
    ///     .route_layer(middleware::from_fn(verify));
    /// # let _ = app;
    /// ```
    ///
    /// # In the handler
    ///
    /// The [`LockContext`](crate::LockContext) is in the request's extensions; with the feature
    /// `axum` it is an extractor. Nested layers leave the innermost layer's there, and
    /// [`LockContexts`](crate::LockContexts) has each layer's by its name. HEAD has a key like other
    /// requests: axum runs the handler of GET for it. axum's `Router::layer` also wraps the fallback:
    /// requests without a route and a key get 400 there, and 404 with `Router::route_layer`. Both apply to
    /// every method of a path, `MethodRouter::route_layer` only to those with a handler:
    /// [`RedlockLayer::http`](crate::RedlockLayer::http) has the difference.
    ///
    /// ```
    /// use axum::{Extension, Router, http::StatusCode, routing::post};
    /// use tower_redlock::{LockContext, OnceLayer, Redlock, key};
    ///
    /// async fn handle(Extension(lock): Extension<LockContext>, event: String) -> StatusCode {
    ///     println!("{event}, under the token {}", lock.fencing_token());
    ///     StatusCode::NO_CONTENT
    /// }
    ///
    /// let once = OnceLayer::new(Redlock::embedded(), "hook", key::header("webhook-id")).http();
    /// // What checks the sender's signature goes outside: see `tower_redlock::once::http`.
    /// let app: Router = Router::new().route("/hook", post(handle).route_layer(once));
    /// # let _ = app;
    /// ```
    pub fn http(self) -> OnceLayer<K, C, OnceHttp> {
        self.map_protocol(|_| OnceHttp::new(ByHead(())))
    }
}

/// # Requests over HTTP and gRPC
impl<K, C, R, M> OnceLayer<K, C, OnceHttp<R, M>> {
    /// Sets what happens to a request without a key. Default: [`Missing::Reject`], over gRPC with
    /// `INVALID_ARGUMENT`.
    ///
    /// A closure reports such a request by [`KeyError::missing`](crate::layer::KeyError::missing). If it
    /// returns `None`, the request runs with either setting.
    pub fn missing(mut self, missing: Missing) -> Self {
        self.protocol.missing = missing;
        self
    }

    /// Sets whether a request that has started continues when its client disconnects, or a layer outside
    /// drops it, such as a timeout or the deadline of a gRPC call. Default: yes, so that it is done at the client's next try. Otherwise it
    /// is dropped, and its outcome is [unknown](crate::once::UnknownOutcome).
    ///
    /// It continues as a task of the tokio runtime that polled it, in its span and under its lock, which
    /// is renewed up to [`max_hold`](OnceLayer::max_hold).
    /// [`Redlock::shutdown`](crate::Redlock::shutdown) waits for it. At the end of the runtime, and outside
    /// a tokio runtime, it is dropped with a WARN. It loses the task-local values of the connection's task.
    /// A request without a key does not continue.
    pub fn detached(mut self, detached: bool) -> Self {
        self.protocol.detached = detached;
        self
    }

    /// See [`RedlockLayer::token_header`](crate::RedlockLayer::token_header).
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
}

/// # Responses over HTTP
impl<K, C, R, M: HttpMode> OnceLayer<K, C, OnceHttp<R, M>> {
    /// Sets the closure that makes the responses to rejected requests. Default: [`Rejection::response`].
    /// Duplicates of done work are not rejected.
    ///
    /// A closure that is not written inside this call needs the type of its argument.
    pub fn on_reject<G>(self, respond: G) -> OnceLayer<K, C, OnceHttp<G, M>>
    where
        G: Fn(Rejection<'_>) -> Response<Bytes>,
    {
        self.map_protocol(|http| http.with_on_reject(respond))
    }

    /// Sets what happens to a key whose request was answered with a 5xx. Default for webhooks:
    /// [`ServerErrors::Release`]; for an `Idempotency-Key`: [`ServerErrors::Hold`], 24 hours.
    ///
    /// The response's own [`RequestOutcome`](crate::reject::RequestOutcome) takes precedence, then a
    /// [`complete_when`](OnceLayer::complete_when) that completes the key. An error of a service that was
    /// called, instead of a response, is an unknown outcome: the key is held by [`ServerErrors::Hold`], or
    /// as [`unknown`](OnceLayer::unknown) says.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_redlock::{
    ///     OnceLayer, Redlock, key,
    ///     once::{UnknownOutcome, http::ServerErrors},
    /// };
    ///
    /// let hold = Duration::from_secs(24 * 3600);
    /// # let _layer: OnceLayer<_, _, tower_redlock::once::http::OnceHttp> =
    /// OnceLayer::new(Redlock::embedded(), "ledger", key::header("webhook-id"))
    ///     .http()
    ///     .unknown(UnknownOutcome::Hold(hold))
    ///     .server_errors(ServerErrors::Hold(hold));
    /// ```
    pub fn server_errors(self, errors: ServerErrors) -> Self {
        self.with_server_errors(errors)
    }
}

impl<K, C, R, M> OnceLayer<K, C, OnceHttp<R, M>> {
    pub(super) fn with_server_errors(mut self, errors: ServerErrors) -> Self {
        self.protocol.server_errors = errors;
        self.server_error_hold(errors.hold())
    }
}

/// The mode for webhooks whose key is in the request's body. Created by [`OnceLayer::by_body`].
#[derive(Clone, Copy, Debug)]
pub struct ByBody {
    pub(super) limit: usize,
    pub(super) timeout: Duration,
}

impl<K> OnceLayer<K, Always, OnceHttp<DefaultResponse, ByBody>> {
    /// Creates a layer for webhooks like [`http`](OnceLayer::http), with the key in the body: a JSON
    /// pointer ([`key::json_pointer`](crate::key::json_pointer)), or any
    /// [`BodyKey`](crate::key::BodyKey).
    ///
    /// The body is read before the lock is acquired, and passed on unchanged: see [`RestoredBody`](crate::once::RestoredBody), also for
    /// the services that take it.
    ///
    /// | body | response |
    /// |---|---|
    /// | larger than [`body_limit`](Self::body_limit) | 413 |
    /// | invalid for the key, such as no JSON | 400 |
    /// | slower than [`body_timeout`](Self::body_timeout) | 408, `body-timed-out` |
    /// | above [`max_waiting_body_bytes`](crate::RedlockBuilder::max_waiting_body_bytes), with those of waiting requests | 503, `too-many-bodies`, with `Retry-After` |
    ///
    /// Check signatures *outside* of this layer: they cover the body as it was sent.
    ///
    /// ```
    /// use axum::{Router, routing::post};
    /// use tower_redlock::{OnceLayer, Redlock, key};
    ///
    /// async fn handle(event: String) -> String {
    ///     event
    /// }
    ///
    /// let once = OnceLayer::by_body(Redlock::embedded(), "stripe", key::json_pointer("/id"));
    /// let app: Router = Router::new().route("/stripe", post(handle).route_layer(once));
    /// # let _ = app;
    /// ```
    ///
    /// # Panics
    ///
    /// If the name is invalid: see [`new`](OnceLayer::new).
    pub fn by_body(redlock: Redlock, name: impl Into<Arc<str>>, key: K) -> Self {
        let mode = ByBody { limit: DEFAULT_BODY_LIMIT, timeout: DEFAULT_BODY_TIMEOUT };
        OnceLayer::new(redlock, name, key).map_protocol(|_| OnceHttp::new(mode))
    }
}

/// # The request's body
impl<K, C, R> OnceLayer<K, C, OnceHttp<R, ByBody>> {
    /// Sets the maximum size of a request's body, in bytes. Default:
    /// [`DEFAULT_BODY_LIMIT`](crate::once::DEFAULT_BODY_LIMIT), 1 MiB.
    pub const fn body_limit(mut self, bytes: usize) -> Self {
        self.protocol.mode.limit = bytes;
        self
    }

    /// Sets the maximum time from a request's head to the end of its body. Default:
    /// [`DEFAULT_BODY_TIMEOUT`](crate::layer::http::DEFAULT_BODY_TIMEOUT), 30 s.
    ///
    /// # Panics
    ///
    /// If it is zero.
    pub const fn body_timeout(mut self, timeout: Duration) -> Self {
        assert!(!timeout.is_zero(), "body_timeout is zero: every body would be late");
        self.protocol.mode.timeout = timeout;
        self
    }
}
