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
    CompletesHttp, HttpFuture, Missing, OnReject, Problems, Rejection, ServerErrors,
    completion::{CompletionRules, SuccessCompletion},
    future::HttpCall,
    key::refuse_grpc,
};
use crate::{
    layer::{KeyError, ResourceKey, http::HttpBody, token_header::TokenHeader},
    once::{OnceLayer, OnceService, call::OnceCall, detach::Detach, service::begin},
    resource::Resource,
};

/// Outcomes are HTTP responses. Made by [`OnceLayer::http`], [`OnceLayer::by_body`] and
/// [`OnceLayer::idempotency`]; `M` says which.
#[derive(Clone, Debug)]
pub struct Http<R = Problems, M = ByHead> {
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

impl<M> Http<Problems, M> {
    pub(super) fn new(mode: M) -> Self {
        let (missing, token_header) = (Missing::Reject, TokenHeader::default());
        let server_errors = ServerErrors::Free;
        let on_reject = Problems(());
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
    /// | another request with the key runs | 409, `in-progress` | an estimate of when that one ends | no |
    /// | stopped in the middle, and [held](crate::Unknown::Hold) | 409, `unknown-outcome` | none: nobody knows when it is decided | no |
    /// | no key | 400, `bad-key`; or see [`missing`](Self::missing) | none | no |
    /// | a key that is no key | 400, `bad-key` | none | no |
    /// | no quorum, too slow, shutting down | 503 | 1 s | no |
    /// | the lock was lost while it ran, or `max_hold` was over | 500, `lost`, `outcome: unknown` | none | yes, to some point |
    /// | the handler, or a layer around it, says that the outcome is [unknown](crate::RequestOutcome) | as it is | as it is | yes; then [`unknown`](OnceLayer::unknown) says what becomes of the key |
    /// | the sender went away | nobody is there | | yes, to its end: see [`detached`](Self::detached) |
    /// | a TTL or wait that the manager refuses, a set of names as a key | 500 | none | no |
    /// | a gRPC request with a key: see `grpc()` | 500 | none | no |
    ///
    /// Refusals have problem bodies after RFC 9457: see [`on_reject`](Self::on_reject).
    ///
    /// A response with a 2xx means that the key is done, unless
    /// [`complete_when`](Self::complete_when) says something else: after any other the key is free
    /// again, for the sender's next try; after a 5xx it may be [kept or held](Self::server_errors). That it is done is recorded, and the lock is given back, when
    /// the handler has made its response, before that is sent. Its body follows then: one that fails
    /// on its way takes nothing back. A handler that did its work, and of which too few nodes keep
    /// that, is answered as it answered: the sender must not send it again. A WARN tells whoever
    /// operates it.
    ///
    /// A response that [says](crate::RequestOutcome) what became of its request is taken at its word,
    /// whatever its status: that of a [`RedlockLayer`](crate::RedlockLayer) inside whose lock was
    /// lost, for one, leaves an unknown outcome.
    ///
    /// # Signatures come first
    ///
    /// What checks a signature belongs *outside* of this layer. The other way round, a stranger would
    /// be told which events are done, and could block one that is not, by sending its id and a body
    /// that does not end.
    ///
    /// Is the id under the signature? Standard Webhooks sign it. GitHub and Shopify sign the body
    /// alone: whoever has seen one of their deliveries can send it again under another id, and it is
    /// handled again. Where that matters, take the key from the body:
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
    /// `axum` it is an extractor. Where layers are around each other it is that of the innermost, and
    /// [`LockContexts`](crate::LockContexts) has each layer's by its name. HEAD is a request like another here: axum runs the handler of GET
    /// for it, and leaves the body away. Put the layer around the routes of POST alone, or say
    /// [`only`](crate::key::Key::only). axum's `Router::layer` puts it around requests for which there is no
    /// route as well: without a key they are answered with 400 and not with 404, which
    /// `Router::route_layer` leaves to them.
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
    pub fn http(self) -> OnceLayer<K, C, Http> {
        self.with_face(|complete, _| (complete, Http::new(ByHead(()))))
    }
}

impl<K, C, R, M> OnceLayer<K, C, Http<R, M>> {
    /// What becomes of a request without a key. Default: [`Missing::Reject`].
    ///
    /// A key that is a closure says so with [`KeyError::missing`]; one that returns `None` lets the
    /// request run in any case.
    pub fn missing(mut self, missing: Missing) -> Self {
        self.face.missing = missing;
        self
    }

    /// Whether a request that has begun goes on when its client goes away, or a layer outside gives
    /// it up (a timeout, say). Default: yes. So it is done once it has run, however short the client's
    /// patience is, and the next try is told so. Else it is dropped in the middle, as if the process
    /// had crashed: see [`Unknown`](crate::Unknown).
    ///
    /// It goes on as a task of the tokio runtime that polled it, in the span in which it began, under
    /// its lock: renewed, stopped at [`max_hold`](OnceLayer::max_hold) at the latest, and awaited by
    /// [`Redlock::shutdown`](crate::Redlock::shutdown). What the runtime's end drops, and what was
    /// polled outside a tokio runtime, is dropped in the middle; a WARN says so. Task-local values of
    /// the connection's task are not there any more. A request without a key does not go on.
    pub fn detached(mut self, detached: bool) -> Self {
        self.face.detached = detached;
        self
    }

    /// The service finds the fencing token in this header of the request, in decimal digits: for
    /// services that can't see the request's extensions. Default: in none.
    ///
    /// Who sent the request can't set it: what the header held is replaced, and is taken out of
    /// requests that run without a key.
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

    /// Answers requests that were turned away, or lost their lock before they answered, by
    /// `answer` instead of a problem body. [`Rejection::response`] is what would be answered
    /// otherwise. Duplicates of what is done are none of these, and a handler that failed by itself
    /// is not asked about.
    ///
    /// Closures need the type of their argument where they are written apart from this call.
    pub fn on_reject<G>(self, answer: G) -> OnceLayer<K, C, Http<G, M>>
    where
        G: Fn(Rejection<'_>) -> Response<Bytes>,
    {
        self.with_face(|complete, face| {
            let Http { missing, token_header, detached, server_errors, mode, .. } = face;
            let on_reject = answer;
            (complete, Http { missing, token_header, on_reject, detached, server_errors, mode })
        })
    }
}

impl<S, K, C, R, M> OnceService<S, K, C, Http<R, M>> {
    /// Begins a call of the service, which was made ready.
    pub(super) fn begin_http<B, A>(
        &mut self,
        request: Request<B>,
        found: Result<Option<Resource>, KeyError>,
    ) -> HttpFuture<S, B, C, R>
    where
        S: Service<Request<B>, Response = Response<A>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Send + 'static,
        C: CompletesHttp<A> + Clone + Send + 'static,
        R: Clone,
        B: Send + 'static,
        A: Send + 'static,
    {
        let face = &self.layer.face;
        let (server_errors, on_reject) = (face.server_errors, face.on_reject.clone());
        let completion = SuccessCompletion(CompletionRules {
            complete: self.layer.complete.clone(),
            server_errors,
        });
        let found = refuse_grpc(request.headers(), face.missing.settle(found));
        let call = match server_errors.check_with(found) {
            Ok(Some(key)) => {
                let (asked, token_header) =
                    (self.layer.request_for(&key), face.token_header.clone());
                let detach = face.detached.then(Detach::new);
                let name = Arc::clone(self.layer.name());
                let call = HttpCall::new(self.take_ready(), request, token_header, name);
                begin(asked, call, completion).detached(detach)
            }
            Ok(None) => OnceCall::unguarded(self.inner.call(request), completion),
            Err(error) => OnceCall::rejected(error, completion),
        };
        HttpFuture::new(call, on_reject)
    }
}

impl<S, K, C, R, B, A> Service<Request<B>> for OnceService<S, K, C, Http<R>>
where
    S: Service<Request<B>, Response = Response<A>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    K: ResourceKey<Request<B>>,
    C: CompletesHttp<A> + Clone + Send + 'static,
    R: OnReject + Clone,
    B: Send + 'static,
    A: Body + Send + 'static,
{
    type Response = Response<HttpBody<A>>;
    type Error = S::Error;
    type Future = HttpFuture<S, B, C, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        self.layer.face.token_header.strip(request.headers_mut());
        let found = self.layer.key.key(&request);
        self.begin_http(request, found)
    }
}
