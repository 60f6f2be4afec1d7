//! The settings over HTTP, and the service of webhooks with a key in the head.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderName, Request, Response};
use http_body::Body;
use tower_service::Service;

use super::{
    CompletesHttp, Missing, OnceHttpFuture, ServerErrors,
    completion::{CompletionRules, SuccessCompletion},
    future::HttpCall,
    key::refuse_grpc,
};
use crate::{
    layer::{KeyError, ResourceKey, http::HttpBody, token_header::TokenHeader},
    once::{OnceLayer, OnceService, call::OnceCall, detach::Detach, service::begin},
    reject::{DefaultResponse, OnReject, Rejection},
    resource::Resource,
};

/// Outcomes are HTTP responses. Made by [`OnceLayer::http`], [`OnceLayer::by_body`] and
/// [`OnceLayer::idempotency`]; `M` says which.
#[derive(Clone, Debug)]
pub struct OnceHttp<R = DefaultResponse, M = ByHead> {
    pub(super) missing: Missing,
    pub(super) token_header: TokenHeader,
    pub(super) on_reject: R,
    pub(super) detached: bool,
    pub(super) server_errors: ServerErrors,
    pub(super) mode: M,
}

/// Webhooks whose key is in the request's head. Made by [`OnceLayer::http`].
#[derive(Clone, Copy, Debug)]
pub struct ByHead(());

impl<M> OnceHttp<DefaultResponse, M> {
    pub(super) fn new(mode: M) -> Self {
        let (missing, token_header) = (Missing::Reject, TokenHeader::default());
        let server_errors = ServerErrors::Free;
        let on_reject = DefaultResponse::default();
        Self { missing, token_header, on_reject, detached: true, server_errors, mode }
    }
}

impl<K, C> OnceLayer<K, C> {
    /// Makes outcomes HTTP responses, for webhooks: senders go on sending until they see a 2xx.
    ///
    /// | what happened | status | `Retry-After` | does the handler run? |
    /// |---|---|---|---|
    /// | the key is free | the handler's | the handler's | yes |
    /// | done before | 200, empty, `once: duplicate` | | no |
    /// | another request with the key runs | 409, `in-progress` | an estimate of when it ends | no |
    /// | stopped in the middle, and [held](crate::once::UnknownOutcome::Hold) | 409, `unknown-outcome` | none: nobody knows when it is decided | no |
    /// | no key | 400, `bad-key`; or see [`missing`](Self::missing) | none | no |
    /// | a key that is no key | 400, `bad-key` | none | no |
    /// | no quorum, too slow, shutting down | 503 | 1 s | no |
    /// | the lock was lost while it ran, or `max_hold` was over | 500, `lost`, `outcome: unknown` | none | yes, to some point |
    /// | the handler, or a layer around it, says that the outcome is [unknown](crate::reject::RequestOutcome) | as it is | as it is | yes; then [`unknown`](OnceLayer::unknown) says what becomes of the key |
    /// | the sender went away | nobody is there | | yes, to its end: see [`detached`](Self::detached) |
    /// | a TTL or wait that the manager refuses, a set of names as a key | 500 | none | no |
    /// | a gRPC request with a key: see `grpc()` | 500 | none | no |
    ///
    /// Refusals have problem bodies after RFC 9457: see [`on_reject`](Self::on_reject).
    ///
    /// A 2xx means that the key is done, unless [`complete_when`](Self::complete_when) says otherwise.
    /// After any other status the key is free for the next try; after a 5xx it may be
    /// [kept or held](Self::server_errors). The record is written, and the lock released, when the handler
    /// has made its response, before that is sent: a body that fails on its way changes nothing. If too few
    /// nodes keep the record, the response is sent nevertheless, with a WARN: the sender must not retry.
    ///
    /// A [`RequestOutcome`](crate::reject::RequestOutcome) in the response takes precedence over its status: that
    /// of a [`RedlockLayer`](crate::RedlockLayer) inside whose lock was lost leaves an unknown outcome.
    ///
    /// # Signatures come first
    ///
    /// Verify signatures *outside* of this layer. Inside, anyone could probe which events are done, and
    /// block one that is not by sending its id and a body that does not end.
    ///
    /// Standard Webhooks sign the id. GitHub and Shopify sign the body alone: a captured delivery can be
    /// sent again under another id, and is handled again. Where that matters, take the key from the body:
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
    ///     .route("/webhooks", post(handle))
    ///     .route_layer(once)
    ///     // Outside, as it is added later.
    ///     .route_layer(middleware::from_fn(verify));
    /// # let _ = app;
    /// ```
    ///
    /// # In the handler
    ///
    /// The [`LockContext`](crate::LockContext) is in the request's extensions; with the feature
    /// `axum` it is an extractor. With nested layers it is that of the innermost, and
    /// [`LockContexts`](crate::LockContexts) has each layer's by its name. HEAD has a key like other
    /// requests: axum runs the handler of GET for it. Put the layer around the routes of POST alone, or use
    /// [`only`](crate::key::Key::only). axum's `Router::layer` also wraps the fallback: requests without a
    /// route and a key get 400 there, and 404 with `Router::route_layer`.
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
    /// let app: Router = Router::new().route("/hook", post(handle)).route_layer(once);
    /// # let _ = app;
    /// ```
    pub fn http(self) -> OnceLayer<K, C, OnceHttp> {
        self.map_protocol(|_| OnceHttp::new(ByHead(())))
    }
}

impl<K, C, R, M> OnceLayer<K, C, OnceHttp<R, M>> {
    /// What becomes of a request without a key. Default: [`Missing::Reject`].
    ///
    /// A key that is a closure says so with [`KeyError::missing`]; one that returns `None` lets the
    /// request run in any case.
    pub fn missing(mut self, missing: Missing) -> Self {
        self.protocol.missing = missing;
        self
    }

    /// Whether a request that has begun continues when its client disconnects, or a layer outside drops
    /// it (a timeout, say). Default: yes, so that it is done at the client's next try. Otherwise it is
    /// dropped, as if the process had crashed: see [`UnknownOutcome`](crate::once::UnknownOutcome).
    ///
    /// It continues as a task of the tokio runtime that polled it, in its span and under its lock:
    /// renewed, stopped at [`max_hold`](OnceLayer::max_hold) at the latest, and awaited by
    /// [`Redlock::shutdown`](crate::Redlock::shutdown). At the end of the runtime, and outside a tokio
    /// runtime, it is dropped with a WARN. It loses the task-local values of the connection's task. A
    /// request without a key does not continue.
    pub fn detached(mut self, detached: bool) -> Self {
        self.protocol.detached = detached;
        self
    }

    /// The service finds the fencing token in this header of the request, in decimal digits: for
    /// services that can't see the request's extensions. Default: in none.
    ///
    /// A client can't set it: its value is replaced, and removed from requests that run without a key.
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

    /// Makes the responses to rejected requests by `respond` instead of [`Rejection::response`].
    /// Duplicates of done work are not rejected.
    ///
    /// Closures need the type of their argument where they are written apart from this call.
    pub fn on_reject<G>(self, respond: G) -> OnceLayer<K, C, OnceHttp<G, M>>
    where
        G: Fn(Rejection<'_>) -> Response<Bytes>,
    {
        self.map_protocol(|http| {
            let OnceHttp { missing, token_header, detached, server_errors, mode, .. } = http;
            OnceHttp { missing, token_header, on_reject: respond, detached, server_errors, mode }
        })
    }
}

impl<S, K, C, R, M> OnceService<S, K, C, OnceHttp<R, M>> {
    /// Begins a call of the service, which was made ready.
    pub(super) fn begin_http<B, A>(
        &mut self,
        request: Request<B>,
        found: Result<Option<Resource>, KeyError>,
    ) -> OnceHttpFuture<S, B, C, R>
    where
        S: Service<Request<B>, Response = Response<A>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Send + 'static,
        C: CompletesHttp<A> + Clone + Send + 'static,
        R: Clone,
        B: Send + 'static,
        A: Send + 'static,
    {
        let protocol = &self.layer.protocol;
        let (server_errors, on_reject) = (protocol.server_errors, protocol.on_reject.clone());
        let completion = SuccessCompletion(CompletionRules {
            complete: self.layer.complete.clone(),
            server_errors,
        });
        let found = refuse_grpc(request.headers(), protocol.missing.settle(found));
        let call = match server_errors.check_with(found) {
            Ok(Some(key)) => {
                let (asked, token_header) =
                    (self.layer.request_for(&key), protocol.token_header.clone());
                let detach = protocol.detached.then(Detach::new);
                let name = Arc::clone(self.layer.name());
                let call = HttpCall::new(self.take_ready(), request, token_header, name);
                begin(asked, call, completion).detached(detach)
            }
            Ok(None) => OnceCall::unguarded(self.inner.call(request), completion),
            Err(error) => OnceCall::rejected(error, completion),
        };
        OnceHttpFuture::new(call, on_reject)
    }
}

impl<S, K, C, R, B, A> Service<Request<B>> for OnceService<S, K, C, OnceHttp<R>>
where
    S: Service<Request<B>, Response = Response<A>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    K: ResourceKey<Request<B>>,
    C: CompletesHttp<A> + Clone + Send + 'static,
    R: OnReject<Response<Bytes>> + Clone,
    B: Send + 'static,
    A: Body + Send + 'static,
{
    type Response = Response<HttpBody<A>>;
    type Error = S::Error;
    type Future = OnceHttpFuture<S, B, C, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        self.layer.protocol.token_header.strip(request.headers_mut());
        let found = self.layer.key.key(&request);
        self.begin_http(request, found)
    }
}
