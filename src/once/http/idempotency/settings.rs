//! Settings of a layer for `Idempotency-Key`.

use std::{fmt, future::Ready, sync::Arc, time::Duration};

use http::Method;

use super::{KeptStatuses, Unscoped, fingerprint::Same};
use crate::{
    layer::http::DEFAULT_BODY_TIMEOUT,
    lock::Redlock,
    once::{
        Always, DEFAULT_BODY_LIMIT, OnceLayer, ResponseStore, StoreError, StoredBy, StoredHeaders,
        StoredResponse,
        http::{Http, Problems},
    },
    token::FencingToken,
};

/// The largest response that is kept where nothing else is said, headers and body: 64 KiB.
pub const DEFAULT_RESPONSE_LIMIT: usize = 64 << 10;

/// Requests with an `Idempotency-Key`, whose responses are in `St`. Made by
/// [`OnceLayer::idempotency`].
pub struct Idempotency<St = OnNodes> {
    pub(super) body_limit: usize,
    pub(super) body_timeout: Duration,
    pub(super) response_limit: usize,
    pub(super) headers: StoredHeaders,
    pub(super) kept: KeptStatuses,
    pub(super) same: Same,
    pub(super) store: Option<Arc<St>>,
    /// The host is no part of the scope.
    pub(super) any_host: bool,
    /// Those whose requests need a key; unset means all but the safe ones and CONNECT.
    methods: Option<Arc<[Method]>>,
}

impl<St> Idempotency<St> {
    /// Whether requests of the method need a key.
    pub(super) fn applies_to(&self, method: &Method) -> bool {
        match &self.methods {
            Some(methods) => methods.contains(method),
            None => !method.is_safe() && method != Method::CONNECT,
        }
    }

    /// The same settings, with another store.
    fn with_store<T>(self, store: T) -> Idempotency<T> {
        let Self { body_limit, body_timeout, response_limit, any_host, .. } = self;
        let Self { headers, kept, same, methods, .. } = self;
        let store = Some(Arc::new(store));
        Idempotency {
            body_limit,
            body_timeout,
            response_limit,
            headers,
            kept,
            same,
            store,
            any_host,
            methods,
        }
    }
}

impl OnceLayer<Unscoped, Always, Http<Problems, Idempotency>> {
    /// A layer for requests with an `Idempotency-Key`: the first request with a key runs, and those
    /// that repeat it are answered with its response. It becomes a layer when
    /// [`scope`](OnceLayer::scope) has said whose keys they are.
    ///
    /// | what happened | status | does the handler run? |
    /// |---|---|---|
    /// | the key is new, or its request was refused or failed before | the handler's | yes |
    /// | the same request was answered before | that answer, `idempotency-replayed: true` | no |
    /// | another request was answered under the key: of another method, path, query or body (see [`fingerprint_headers`](OnceLayer::fingerprint_headers), and [`fingerprint`](OnceLayer::fingerprint) for multipart bodies) | 422, `key-reused` | no |
    /// | a request with the key runs, the same or another | 409, `in-progress`, `Retry-After` | no |
    /// | it is done, and its answer was not kept: it was too large, came too late, others take too much room, or the store has lost it | 409, `response-not-kept`, `outcome: done` | no |
    /// | it is done, and its answer is encoded in a way that `accept-encoding` does not allow now | 406, `not-acceptable`, `outcome: done` | no |
    /// | the store of answers can't be read | 503, `store-unavailable`, `Retry-After` | no |
    /// | no key | 400, `bad-key`; or see [`missing`](OnceLayer::missing) | no |
    /// | a key, a scope or a host that is none | 400, `bad-key` | no |
    /// | a [`scope`](OnceLayer::scope) that is a set of names | 500, `bad-settings` | no |
    /// | a larger body than [`body_limit`](OnceLayer::body_limit) | 413, `body-too-large` | no |
    /// | a body that broke off | 400, `body-failed` | no |
    /// | a body that takes longer than [`body_timeout`](OnceLayer::body_timeout) | 408, `body-timed-out` | no |
    /// | a body for which there is no room beside those of requests that wait: [`max_waiting_body_bytes`](crate::RedlockBuilder::max_waiting_body_bytes) | 503, `too-many-bodies`, `Retry-After` | no |
    ///
    /// With [`wait`](OnceLayer::wait), one that comes while the first runs waits for its answer. All
    /// else is the same as for [webhooks](OnceLayer::http): no quorum, a lock that was lost, a key
    /// that is [held](crate::Unknown::Hold), settings.
    ///
    /// GET, HEAD, OPTIONS and TRACE pass as they are, with a key or without one: they have no effect
    /// that must not happen twice. So does CONNECT, which opens a tunnel: over HTTP/2 a WebSocket begins
    /// with it, and over HTTP/1.1 with GET. [`methods`](OnceLayer::methods) names others. The key is a
    /// string in double quotes, or bare: see [`key::idempotency_key`](crate::key::idempotency_key).
    ///
    /// # Which answers are kept
    ///
    /// Those that tell of something that the handler did. The first of these that fits decides:
    ///
    /// | the response | the answer | the key |
    /// |---|---|---|
    /// | says [`RequestOutcome::Done`](crate::RequestOutcome::Done) | is kept | is done |
    /// | says [`Refused`](crate::RequestOutcome::Refused), as those of this crate's own layers to requests that they turn away | | is free |
    /// | says [`Unknown`](crate::RequestOutcome::Unknown) | | is what [`unknown`](OnceLayer::unknown) says, also held by [`ServerErrors::Hold`](crate::once::ServerErrors::Hold) if it is a 5xx |
    /// | is done by [`complete_when`](OnceLayer::complete_when), or without that has a status among the [kept ones](OnceLayer::kept_statuses): 2xx and 3xx | is kept | is done |
    /// | is a 5xx | | is what [`server_errors`](OnceLayer::server_errors) says: free |
    /// | is another: a 4xx | | is free |
    ///
    /// After an error of the service the key is free; after a panic see [`Unknown`](crate::Unknown). A client that goes away changes nothing: its request runs to its
    /// end, and its answer is kept for the next try, see [`detached`](OnceLayer::detached). [`complete_when`](OnceLayer::complete_when) says something else.
    ///
    /// Of an answer its status, its headers and its body are kept, for [`retain`](OnceLayer::retain),
    /// and sent again as they were. Trailers are not kept, nor `set-cookie`, `date`, and what belongs to
    /// one connection: see [`StoredHeaders`], which may keep fewer. Layers outside set their own headers
    /// on the first answer and on those that repeat it. To be kept, its body
    /// is read while the lock is held, up to [`response_limit`](OnceLayer::response_limit), and goes
    /// out then, intact. A larger one goes out as it comes, after what was read; of it the nodes keep
    /// that the request is done, and its status. So does one that breaks off.
    ///
    /// A request is done once its handler has made the head of such an answer. Where its body, or the
    /// store, takes any time after that, the nodes are told at once that it is done, and with what
    /// status: a crash then loses the answer, and not that. What is not kept a `stop_margin` before
    /// the end of `max_hold`, or of a lock that can't be renewed, goes out as it comes. A body that
    /// goes on for long (events, say) is held back until then: such routes don't belong behind this
    /// layer.
    ///
    /// # Encodings and ranges
    ///
    /// One answer is for all who repeat the request, whatever encodings they accept. So the service
    /// finds `accept-encoding: identity` in a request with a key, and what compresses inside of this
    /// layer does not. **Compression belongs outside of this layer**: there it encodes the first answer
    /// and those that repeat it, each for its client. An answer that is encoded all the same is kept so,
    /// and not sent to clients whose `accept-encoding` does not allow it (406); without that header
    /// any encoding is allowed (RFC 9110, section 12.5.3).
    ///
    /// `range` and `if-range` are taken out of such requests, so the answer is whole. None of these headers,
    /// nor others by which an answer may be chosen (`accept`, `accept-language`), tells requests apart: the
    /// first answer is sent again, unless [`fingerprint_headers`](OnceLayer::fingerprint_headers) names them.
    ///
    /// # Where they are kept
    ///
    /// On the lock's own nodes, with the record that the request is done: on all of them, in memory,
    /// until [`retain`](OnceLayer::retain) is over. That is for small answers, and few enough. For
    /// answers above some kB, or many, keep them in a [`store`](OnceLayer::store):
    /// [`RedisStore`](crate::once::RedisStore) is one on a server of its own.
    ///
    /// The nodes' memory is that of locks, too. So a manager has a quota: answers beyond
    /// [`max_stored_response_bytes`](crate::RedlockBuilder::max_stored_response_bytes) in total are not kept, and none above
    /// 1 KiB while the servers are three quarters full: their requests are done all the same. Requests
    /// beyond [`max_records`](crate::RedlockBuilder::max_records) are answered 503, `too-many-records`,
    /// and don't run. A WARN tells of each, at most once a minute, and the metric
    /// `redlock_over_quota_total`.
    ///
    /// # Deciding by hand
    ///
    /// For [`mark_done`](crate::OnceRequest::mark_done) and [`forget`](crate::OnceRequest::forget),
    /// the key of [`Redlock::once`] is `idempotency:`, the layer's name, the host, the name of the scope
    /// with its length in bytes before it, and the header's text:
    ///
    /// | | key |
    /// |---|---|
    /// | sent to `api.example.com` | `idempotency:payments://api.example.com/5:alice:8e03978e` |
    /// | sent to `localhost:8080` | `idempotency:payments://localhost:8080/5:alice:8e03978e` |
    /// | sent without a host | `idempotency:payments:///5:alice:8e03978e` |
    /// | with [`any_host`](OnceLayer::any_host) | `idempotency:payments:5:alice:8e03978e` |
    /// | of a [joined](crate::key::joined) scope, `acme:alice` | `idempotency:payments://api.example.com/10:acme:alice:8e03978e` |
    ///
    /// A longer one than a name may be is `idempotency:payments:sha256:` and the SHA-256 of the whole
    /// in hexadecimal digits. Logs tell it, with `once:` before it. Of a request that was marked by hand
    /// there is no answer: `response-not-kept`.
    ///
    /// ```
    /// use axum::{Router, extract::Request, middleware::{self, Next}, response::Response, routing::post};
    /// use tower_redlock::{OnceLayer, Redlock, key};
    ///
    /// #[derive(Clone)]
    /// struct Principal { tenant: u64 }
    ///
    /// async fn authenticate(mut request: Request, next: Next) -> Response {
    ///     # let tenant = 7;
    ///     // … of the request's credentials, or 401.
    ///     request.extensions_mut().insert(Principal { tenant });
    ///     next.run(request).await
    /// }
    ///
    /// async fn pay(body: String) -> String {
    ///     format!("paid {body}")
    /// }
    ///
    /// let tenant = key::extension(|caller: &Principal| format!("tenant:{}", caller.tenant));
    /// let once = OnceLayer::idempotency(Redlock::embedded(), "payments").scope(tenant);
    /// let app: Router = Router::new()
    ///     .route("/payments", post(pay))
    ///     .route_layer(once)
    ///     // Outside, as it is added later.
    ///     .route_layer(middleware::from_fn(authenticate));
    /// # let _ = app;
    /// ```
    ///
    /// Without a scope it is no layer:
    ///
    /// ```compile_fail,E0277
    /// use axum::{Router, routing::post};
    /// use tower_redlock::{OnceLayer, Redlock};
    ///
    /// let once = OnceLayer::idempotency(Redlock::embedded(), "payments");
    /// let app: Router = Router::new().route("/payments", post(async || "paid")).route_layer(once);
    /// ```
    ///
    /// Source: J. Jena, S. Dalal, *The Idempotency-Key HTTP Header Field*
    /// (draft-ietf-httpapi-idempotency-key-header-07).
    ///
    /// # Panics
    ///
    /// If the name can't be that of a layer: see [`new`](OnceLayer::new).
    pub fn idempotency(redlock: Redlock, name: impl Into<Arc<str>>) -> Self {
        let mode = Idempotency {
            body_limit: DEFAULT_BODY_LIMIT,
            body_timeout: DEFAULT_BODY_TIMEOUT,
            response_limit: DEFAULT_RESPONSE_LIMIT,
            headers: StoredHeaders::default(),
            kept: KeptStatuses::default(),
            same: Same::default(),
            store: None,
            any_host: false,
            methods: None,
        };
        let unscoped = OnceLayer::new(redlock, name, Unscoped(()));
        unscoped.with_face(|complete, _| (complete, Http::new(mode)))
    }
}

impl<K, C, R, St> OnceLayer<K, C, Http<R, Idempotency<St>>> {
    /// The methods whose requests need a key; others pass as they are. Default: all but GET, HEAD,
    /// OPTIONS, TRACE and CONNECT.
    ///
    /// PUT and DELETE are idempotent where the service is written so, and may do without.
    ///
    /// ```
    /// use http::Method;
    /// use tower_redlock::{OnceLayer, Redlock, once::Scope};
    ///
    /// # let _layer =
    /// OnceLayer::idempotency(Redlock::embedded(), "payments")
    ///     .scope(Scope::none())
    ///     .methods([Method::POST, Method::PATCH]);
    /// ```
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.face.mode.methods = Some(methods.into_iter().collect());
        self
    }

    /// A key means the same on each host that the service is reached by. Default: a key of one host
    /// means nothing on another, so that services behind several hosts, such as one per tenant, never
    /// answer with the response of another host.
    ///
    /// For several names of one service, and for clients that reach its replicas by addresses of their
    /// own: who repeats a request at another one, after a failover, say, is answered as on the first.
    /// Without this the request runs again there.
    ///
    /// The host is the authority of the request's target: of HTTP/2's `:authority`, or of a URI in the
    /// absolute form, else the `Host` header. Upper and lower case are the same, and so is a port that
    /// the scheme implies, where the scheme is known. Requests without a host, which HTTP/1.0 allows,
    /// have keys of their own; one with two hosts, or one that is no host, is answered 400, `bad-key`.
    ///
    /// A proxy that replaces the host makes all hosts behind it one, as with this setting. Have the
    /// proxy pass the host on (nginx: `proxy_set_header Host $http_host`), or make what identifies the
    /// tenant a part of the [`scope`](Self::scope). `Forwarded` and `X-Forwarded-Host` are not looked
    /// at, as a client may send them too.
    ///
    /// ```
    /// use tower_redlock::{OnceLayer, Redlock, key};
    ///
    /// // api.example.com and eu.api.example.com are the same service.
    /// # let _layer =
    /// OnceLayer::idempotency(Redlock::embedded(), "payments")
    ///     .scope(key::extension(|tenant: &String| tenant.clone()))
    ///     .any_host();
    /// ```
    pub fn any_host(mut self) -> Self {
        self.face.mode.any_host = true;
        self
    }

    /// The most data that a request's body may have, in bytes. Default:
    /// [`DEFAULT_BODY_LIMIT`](crate::once::DEFAULT_BODY_LIMIT), 1 MiB. The body is read whole, as it
    /// tells whether a request is the same, and handed on as it was: see
    /// [`Intact`](crate::once::Intact).
    pub const fn body_limit(mut self, bytes: usize) -> Self {
        self.face.mode.body_limit = bytes;
        self
    }

    /// How long a request's body may take to come, from its head to its end. Default:
    /// [`DEFAULT_BODY_TIMEOUT`](crate::layer::http::DEFAULT_BODY_TIMEOUT), 30 s.
    pub const fn body_timeout(mut self, timeout: Duration) -> Self {
        self.face.mode.body_timeout = timeout;
        self
    }

    /// The most data that a response may have to be kept, in bytes: its body, with the names and values
    /// of the headers that are kept. Default:
    /// [`DEFAULT_RESPONSE_LIMIT`](super::DEFAULT_RESPONSE_LIMIT), 64 KiB.
    pub const fn response_limit(mut self, bytes: usize) -> Self {
        self.face.mode.response_limit = bytes;
        self
    }

    /// Which headers are kept of a response. Default: [`StoredHeaders::all`].
    pub fn stored_headers(mut self, headers: StoredHeaders) -> Self {
        self.face.mode.headers = headers;
        self
    }

    /// Keeps responses in `store`, and on the nodes only where they are:
    /// [`RedisStore`](crate::once::RedisStore), [`MemoryStore`](crate::once::MemoryStore) for a single
    /// process, or one of your own.
    ///
    /// A response is put there under the lock and its fencing token, before the nodes keep where it is.
    /// While that takes time they are told that the request is done, so that after a crash in between
    /// its answer is found if the store has it. A crash before that: the request runs again, under a
    /// newer token, and its response takes the other's place. Where the store fails then, the request is done all the same, and
    /// its response is lost unless the store has it; a WARN says so.
    ///
    /// ```
    /// use tower_redlock::{OnceLayer, Redlock, once::{MemoryStore, Scope}};
    ///
    /// # let _layer =
    /// OnceLayer::idempotency(Redlock::embedded(), "payments")
    ///     .scope(Scope::none())
    ///     .response_limit(1 << 20)
    ///     .store(MemoryStore::new());
    /// ```
    pub fn store<T: ResponseStore>(self, store: T) -> OnceLayer<K, C, Http<R, Idempotency<T>>> {
        self.with_face(|complete, face| {
            let Http { missing, token_header, on_reject, detached, server_errors, mode } = face;
            let mode = mode.with_store(store);
            (complete, Http { missing, token_header, on_reject, detached, server_errors, mode })
        })
    }
}

impl<St> Clone for Idempotency<St> {
    fn clone(&self) -> Self {
        let (headers, kept, same) = (self.headers.clone(), self.kept.clone(), self.same.clone());
        let (store, methods) = (self.store.clone(), self.methods.clone());
        Self { headers, kept, same, store, methods, ..*self }
    }
}

impl<St> fmt::Debug for Idempotency<St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency")
            .field("body_limit", &self.body_limit)
            .field("body_timeout", &self.body_timeout)
            .field("response_limit", &self.response_limit)
            .field("headers", &self.headers)
            .field("kept", &self.kept)
            .field("any_host", &self.any_host)
            .finish_non_exhaustive()
    }
}

/// Responses are kept by the lock's own nodes, with the record: there is no store.
#[derive(Debug)]
pub enum OnNodes {}

impl ResponseStore for OnNodes {
    type Put = Ready<Result<(), StoreError>>;
    type Get = Ready<Result<Option<StoredBy>, StoreError>>;

    fn put(&self, _: &str, _: Arc<StoredResponse>, _: Duration, _: FencingToken) -> Self::Put {
        match *self {}
    }

    fn get(&self, _: &str) -> Self::Get {
        match *self {}
    }
}
