//! Settings of a layer for `Idempotency-Key`.

use std::{fmt, sync::Arc, time::Duration};

use http::{HeaderName, Method};

use super::{KeptStatuses, Unscoped, fingerprint::FingerprintRule};
use crate::{
    key::{RequestHead, pointer_steps as steps},
    layer::http::DEFAULT_BODY_TIMEOUT,
    lock::Redlock,
    once::{
        Always, DEFAULT_BODY_LIMIT, Fingerprint, OnceLayer, ResponseStore, StoredHeaders,
        UnknownOutcome,
        http::{HttpMode, OnceHttp, ServerErrors},
    },
    reject::DefaultResponse,
};

/// Default maximum size of a stored response, headers and body: 64 KiB.
pub const DEFAULT_RESPONSE_LIMIT: usize = 64 << 10;

/// Default time for which a key is held if the outcome of its request is unknown: 24 hours.
pub const DEFAULT_HOLD: Duration = Duration::from_secs(24 * 3600);

/// The mode for requests with an `Idempotency-Key`. Created by [`OnceLayer::idempotency`].
#[derive(Clone)]
pub struct Idempotency {
    pub(super) body_limit: usize,
    pub(super) body_timeout: Duration,
    pub(super) response_limit: usize,
    pub(super) headers: StoredHeaders,
    pub(super) kept: KeptStatuses,
    pub(super) same: FingerprintRule,
    /// `None`: responses are part of the records on the lock's nodes.
    pub(super) store: Option<Arc<dyn ResponseStore>>,
    /// The host is not part of the scope.
    pub(super) any_host: bool,
    /// Maximum number of records of one scope.
    pub(super) scope_records: Option<u64>,
    /// The methods whose requests need a key. Default: all but the safe ones and CONNECT.
    methods: Option<Arc<[Method]>>,
}

impl HttpMode for Idempotency {}

impl Idempotency {
    /// Returns whether requests of the method need a key.
    pub(super) fn applies_to(&self, method: &Method) -> bool {
        match &self.methods {
            Some(methods) => methods.contains(method),
            None => !method.is_safe() && method != Method::CONNECT,
        }
    }
}

impl OnceLayer<Unscoped, Always, OnceHttp<DefaultResponse, Idempotency>> {
    /// Creates a layer for requests with an `Idempotency-Key`: the first request with a key runs, and its
    /// response is replayed for each repetition. It needs a [`scope`](OnceLayer::scope).
    ///
    /// | what happened | status | does the handler run? |
    /// |---|---|---|
    /// | the key is new, or its request was refused before (a 4xx) | the handler's | yes |
    /// | its request may have had an effect: a 5xx, an error of the service, a crash, a lost lock | 409, `unknown-outcome` | no |
    /// | the same request was answered before | that answer, `idempotency-replayed: true` | no |
    /// | the key was used for another method, path, query or body (see [`fingerprint_headers`](OnceLayer::fingerprint_headers), and [`fingerprint`](OnceLayer::fingerprint) for multipart bodies) | 422, `key-reused` | no |
    /// | a request with the key runs, the same or another | 409, `in-progress`, `Retry-After` | no |
    /// | it is done, and its response is not stored: it was too large or too late, exceeded the quota, or was lost by the store | 409, `response-not-kept`, `outcome: done` | no |
    /// | it is done, and `accept-encoding` does not allow the response's encoding | 406, `not-acceptable`, `outcome: done` | no |
    /// | the store can't be read | 503, `store-unavailable`, `Retry-After` | no |
    /// | no key | 400, `bad-key`; or see [`missing`](OnceLayer::missing) | no |
    /// | an invalid key, scope or host | 400, `bad-key` | no |
    /// | a [`scope`](OnceLayer::scope) that is a set of names | 500, `bad-settings` | no |
    /// | a larger body than [`body_limit`](OnceLayer::body_limit) | 413, `body-too-large` | no |
    /// | a body that failed | 400, `body-failed` | no |
    /// | a body that takes longer than [`body_timeout`](OnceLayer::body_timeout) | 408, `body-timed-out` | no |
    /// | a body above the room for those of waiting requests: [`max_waiting_body_bytes`](crate::RedlockBuilder::max_waiting_body_bytes) | 503, `too-many-bodies`, `Retry-After` | no |
    ///
    /// With [`wait`](OnceLayer::wait), a request that arrives while the first runs waits for its
    /// response. All other outcomes are those of [webhooks](OnceLayer::http).
    ///
    /// GET, HEAD, OPTIONS, TRACE and CONNECT pass unchanged, with or without a key; see
    /// [`methods`](OnceLayer::methods). The key is a string in double quotes, or bare: see
    /// [`key::idempotency_key`](crate::key::idempotency_key).
    ///
    /// # Which responses are stored
    ///
    /// The first row that matches decides:
    ///
    /// | the response | stored | the key |
    /// |---|---|---|
    /// | says [`RequestOutcome::Done`](crate::reject::RequestOutcome::Done) | yes | is done |
    /// | says [`Refused`](crate::reject::RequestOutcome::Refused), as refusals of this crate's layers do | | is free |
    /// | says [`Unknown`](crate::reject::RequestOutcome::Unknown) | | is held: [`unknown`](OnceLayer::unknown), and [`server_errors`](OnceLayer::server_errors) if it is a 5xx |
    /// | is done by [`complete_when`](OnceLayer::complete_when), or without that has a status among the [kept ones](OnceLayer::kept_statuses): 2xx and 303 | yes | is done |
    /// | is a 5xx | | is held: [`server_errors`](OnceLayer::server_errors) |
    /// | is another: a 3xx or a 4xx | | is free |
    ///
    /// A request whose outcome is unknown may have had its effect: a payment was made, and the connection to
    /// the provider broke. So its key is held for [24 hours](super::DEFAULT_HOLD), until
    /// [`mark_done`](crate::once::OnceRequest::mark_done) or [`forget`](crate::once::OnceRequest::forget)
    /// decides. A handler that knows that it had no effect says so, by a 4xx or
    /// [`RequestOutcome::Refused`](crate::reject::RequestOutcome::Refused). Where requests can be repeated,
    /// free their keys: [`UnknownOutcome::Release`], [`ServerErrors::Release`]. This costs a round trip before
    /// the handler.
    ///
    /// If the client disconnects, the request runs to its end, and its response is stored for the next try:
    /// see [`detached`](OnceLayer::detached).
    ///
    /// Status, headers and body are stored for [`retain`](OnceLayer::retain), but no trailers, and not
    /// all headers: see [`StoredHeaders`]. The body is read under the lock, up to
    /// [`response_limit`](OnceLayer::response_limit), and then sent. A larger body, or one that fails, is
    /// streamed and not stored; the record then has the status alone.
    ///
    /// A request is done when its handler has returned the head of such a response. If the body or the
    /// store takes longer, a record with the status is sent at once, so that a crash loses only the
    /// response. A response that is not stored a `stop_margin` before the end of `max_hold`, or of a lock
    /// that can't be renewed, is streamed. Until then it is held back: don't put endless streams behind this layer. Event streams
    /// (`text/event-stream`) and responses with `x-accel-buffering: no` pass at once, and are not stored.
    ///
    /// # Encodings and ranges
    ///
    /// Repetitions may accept other encodings. So the service gets `accept-encoding: identity`, which
    /// turns off compression inside of this layer. **Compression belongs outside of this layer**, where
    /// it encodes each response for its client. An encoded response is stored encoded, and replayed only
    /// if `accept-encoding` allows it, else 406; without that header any encoding is allowed (RFC 9110,
    /// section 12.5.3).
    ///
    /// `range` and `if-range` are removed, so the response is complete. Neither these headers nor
    /// `accept` or `accept-language` distinguish requests, unless
    /// [`fingerprint_headers`](OnceLayer::fingerprint_headers) names them.
    ///
    /// # Where responses are stored
    ///
    /// By default in the record on each of the lock's nodes, in memory, for
    /// [`retain`](OnceLayer::retain): for few and small responses. For more, or above some kB, use a
    /// [`store`](OnceLayer::store), such as [`RedisStore`](crate::once::RedisStore) on a server of its
    /// own.
    ///
    /// Locks need the nodes' memory too, so a manager has quotas. Responses above
    /// [`max_stored_response_bytes`](crate::RedlockBuilder::max_stored_response_bytes) in total are not
    /// stored, nor those above 1 KiB while the servers are three quarters full; their requests are done.
    /// Requests above [`max_records`](crate::RedlockBuilder::max_records) are answered 503,
    /// `too-many-records`, and don't run. Each logs a WARN, at most once a minute, and counts in
    /// `redlock_over_quota_total`.
    ///
    /// # Deciding by hand
    ///
    /// For [`mark_done`](crate::once::OnceRequest::mark_done) and [`forget`](crate::once::OnceRequest::forget),
    /// the key of [`Redlock::once_key`] is `idempotency:`, the layer's name, the host, the name of the scope
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
    /// A key above the maximum length of a name is `idempotency:payments:sha256:` and the SHA-256 of the
    /// whole in hexadecimal digits. Logs show it with the prefix `once:`. A request that was marked by
    /// hand has no response: `response-not-kept`.
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
    ///     .route("/payments", post(pay).route_layer(once))
    ///     // Outside, as it is added later.
    ///     .route_layer(middleware::from_fn(authenticate));
    /// # let _ = app;
    /// ```
    ///
    /// Without a scope it does not compile:
    ///
    /// ```compile_fail,E0277
    /// use axum::{Router, routing::post};
    /// use tower_redlock::{OnceLayer, Redlock};
    ///
    /// let once = OnceLayer::idempotency(Redlock::embedded(), "payments");
    /// let app: Router = Router::new().route("/payments", post(async || "paid").route_layer(once));
    /// ```
    ///
    /// Source: J. Jena, S. Dalal, *The Idempotency-Key HTTP Header Field*
    /// (draft-ietf-httpapi-idempotency-key-header-07).
    ///
    /// # Panics
    ///
    /// If the name is invalid: see [`new`](OnceLayer::new).
    pub fn idempotency(redlock: Redlock, name: impl Into<Arc<str>>) -> Self {
        let mode = Idempotency {
            body_limit: DEFAULT_BODY_LIMIT,
            body_timeout: DEFAULT_BODY_TIMEOUT,
            response_limit: DEFAULT_RESPONSE_LIMIT,
            headers: StoredHeaders::default(),
            kept: KeptStatuses::default(),
            same: FingerprintRule::default(),
            store: None,
            any_host: false,
            scope_records: None,
            methods: None,
        };
        let unscoped = OnceLayer::new(redlock, name, Unscoped(()));
        let unscoped = unscoped.unknown(UnknownOutcome::Hold(DEFAULT_HOLD));
        unscoped
            .map_protocol(|_| OnceHttp::new(mode))
            .with_server_errors(ServerErrors::Hold(DEFAULT_HOLD))
    }
}

impl<C, R> OnceLayer<Unscoped, C, OnceHttp<R, Idempotency>> {
    /// Sets the scope of keys: the authenticated principal of a request, found by a closure or any
    /// [`ResourceKey`](crate::layer::ResourceKey). Each principal has keys of its own.
    ///
    /// The client must not be able to choose it. The layer that checks credentials and puts the principal
    /// into the request's extensions belongs outside of this layer. A request without a scope (`None`)
    /// passes unchanged; an error refuses it, even with [`Missing::Run`](crate::once::http::Missing). With
    /// [`Scope::none`](super::Scope::none) all callers share their keys.
    ///
    /// A closure declares the type of its argument, or is passed to [`key::from_fn`](crate::key::from_fn):
    ///
    /// ```
    /// use axum::{Router, extract::Request, routing::post};
    /// use tower_redlock::{OnceLayer, Redlock, key};
    ///
    /// # let redlock = Redlock::embedded();
    /// let pay = post(async || "paid");
    /// let app: Router = Router::new()
    ///     .route("/payments", pay.clone().route_layer(
    ///         OnceLayer::idempotency(redlock.clone(), "payments")
    ///             .scope(|request: &Request<_>| request.extensions().get::<String>().cloned()),
    ///     ))
    ///     .route("/refunds", pay.route_layer(
    ///         OnceLayer::idempotency(redlock, "refunds")
    ///             .scope(key::from_fn(|head| head.extensions().get::<String>().cloned())),
    ///     ));
    /// # let _ = app;
    /// ```
    ///
    /// A scope is one name. A set of names (`[tenant, user]`, or [`key::all`](crate::key::all)) is
    /// refused: it has no order, so tenant `a` with user `b` would share its keys with tenant `b` and user
    /// `a`. Join several parts by [`key::joined`](crate::key::joined):
    ///
    /// ```
    /// use tower_redlock::{OnceLayer, Redlock, key};
    ///
    /// #[derive(Clone)]
    /// struct Principal { tenant: String, user: String }
    ///
    /// let tenant = key::extension(|caller: &Principal| caller.tenant.clone());
    /// let user = key::extension(|caller: &Principal| caller.user.clone());
    /// let once = OnceLayer::idempotency(Redlock::embedded(), "payments")
    ///     .scope(key::joined((tenant, user)));
    /// # use axum::{Router, routing::post};
    /// # let app: Router = Router::new().route("/payments", post(async || "paid").route_layer(once));
    /// # let _ = app;
    /// ```
    ///
    /// It is readable on the nodes and in logs: see [`hashed`](crate::key::Key::hashed).
    ///
    /// The host of a request is part of the scope too: see [`any_host`](Self::any_host).
    pub fn scope<K>(self, scope: K) -> OnceLayer<K, C, OnceHttp<R, Idempotency>> {
        self.with_key(scope)
    }
}

/// # Requests that need a key
impl<K, C, R> OnceLayer<K, C, OnceHttp<R, Idempotency>> {
    /// Sets the methods whose requests need a key; others pass unchanged. Default: all but GET, HEAD,
    /// OPTIONS and TRACE, which are safe, and CONNECT, which opens a tunnel (over HTTP/2 also a
    /// WebSocket). PUT and DELETE may need no key if the service makes them idempotent.
    ///
    /// ```
    /// use http::Method;
    /// use tower_redlock::{once::http::Scope, OnceLayer, Redlock};
    ///
    /// # let _layer =
    /// OnceLayer::idempotency(Redlock::embedded(), "payments")
    ///     .scope(Scope::none())
    ///     .methods([Method::POST, Method::PATCH]);
    /// ```
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.protocol.mode.methods = Some(methods.into_iter().collect());
        self
    }

    /// Shares keys among all hosts of the service. Default: each host has keys of its own, so that a
    /// service with a host per tenant never replays the response of another.
    ///
    /// For a service with several names, and for clients that reach its replicas by their own addresses:
    /// without this, a request that is repeated at another address runs again.
    ///
    /// The host is the authority of the request's target: HTTP/2's `:authority`, or the authority of an absolute
    /// URI, else the `Host` header. Case and a port that a known scheme implies don't count. Requests
    /// without a host, which HTTP/1.0 allows, have keys of their own; two hosts, or an invalid one, are
    /// 400, `bad-key`.
    ///
    /// A proxy that replaces the host has the effect of this setting. Let it pass the host on (nginx:
    /// `proxy_set_header Host $http_host`), or add the tenant to the [`scope`](Self::scope). `Forwarded`
    /// and `X-Forwarded-Host` don't count, as a client may send them.
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
        self.protocol.mode.any_host = true;
        self
    }

    /// Sets the maximum number of records of one [scope](Self::scope), of those that count for
    /// [`max_records`](crate::RedlockBuilder::max_records). Default: none, so that one principal can use up
    /// the records of all for [`retain`](OnceLayer::retain). A request beyond it does not run, and is
    /// answered 503, `too-many-records`; finished ones are still replayed. A WARN, at most one a minute, names
    /// the scope, and `redlock_over_quota_total` counts them.
    ///
    /// As `max_records`, it is counted by each process for itself: a principal whose requests reach *n*
    /// replicas may have *n* times as many. Layers of one manager count a scope together. Scopes are
    /// counted in 1,024 groups, which each process chooses at random, so that counts take little memory: one
    /// scope of a thousand may share the count of another.
    ///
    /// A limit of the *rate* of each principal belongs in a layer outside.
    ///
    /// ```
    /// use tower_redlock::{OnceLayer, Redlock, key};
    ///
    /// # let _layer =
    /// OnceLayer::idempotency(Redlock::embedded(), "payments")
    ///     .scope(key::extension(|tenant: &String| tenant.clone()))
    ///     .max_records_per_scope(100_000);
    /// ```
    pub const fn max_records_per_scope(mut self, records: usize) -> Self {
        self.protocol.mode.scope_records = Some(records as u64);
        self
    }
}

/// # Comparison of requests
impl<K, C, R> OnceLayer<K, C, OnceHttp<R, Idempotency>> {
    /// Adds these headers to the comparison of requests with the same key: all values of each, in order.
    /// Default: none; only method, path, query and body count.
    ///
    /// For headers that change what the handler does: `accept`, `content-type`, an account. Not for those
    /// that differ between tries (`date`, `traceparent`, signatures, the `content-type` of
    /// `multipart/form-data` with its random boundary): each try would be answered 422.
    ///
    /// They count as sent, even those that the layer changes for the service (`accept-encoding`,
    /// `range`), except for its [`token_header`](OnceLayer::token_header). The host is already part of
    /// the [scope](OnceLayer::scope), unless [`any_host`](OnceLayer::any_host) is set.
    ///
    /// The last call of this and [`fingerprint`](Self::fingerprint) applies. After a change of the
    /// headers, earlier keys are answered 422 for [`retain`](OnceLayer::retain).
    ///
    /// ```
    /// use http::header::CONTENT_TYPE;
    /// use tower_redlock::{once::http::Scope, OnceLayer, Redlock};
    ///
    /// # let _layer =
    /// OnceLayer::idempotency(Redlock::embedded(), "payments")
    ///     .scope(Scope::none())
    ///     .fingerprint_headers([CONTENT_TYPE]);
    /// ```
    pub fn fingerprint_headers(mut self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        names.dedup();
        self.protocol.mode.same = if names.is_empty() {
            FingerprintRule::Request
        } else {
            FingerprintRule::Headers(names.into())
        };
        self
    }

    /// Compares JSON bodies of requests with the same key by their meaning: members in any order, white space
    /// and escapes do not count, nor does what is at the JSON pointers `left_out` (RFC 6901), such as the time
    /// of a try. Method, path and query count.
    ///
    /// Numbers count as they are written: `1.0` is not `1`. A body that is not JSON, or is nested deeper than 64
    /// levels, is compared as sent.
    ///
    /// The last call of this, [`fingerprint_headers`](Self::fingerprint_headers) and
    /// [`fingerprint`](Self::fingerprint) applies. After a change of the pointers, earlier keys are answered
    /// 422 for [`retain`](OnceLayer::retain).
    ///
    /// # Panics
    ///
    /// If a pointer is empty, does not begin with `/`, or has a `~` without `0` or `1` after it.
    ///
    /// ```
    /// use tower_redlock::{once::http::Scope, OnceLayer, Redlock};
    ///
    /// # let _layer =
    /// OnceLayer::idempotency(Redlock::embedded(), "payments")
    ///     .scope(Scope::none())
    ///     .fingerprint_json(["/sent_at", "/client/attempt"]);
    /// ```
    pub fn fingerprint_json<'p>(mut self, left_out: impl IntoIterator<Item = &'p str>) -> Self {
        let mut left_out: Vec<_> = left_out.into_iter().map(steps).collect();
        assert!(left_out.iter().all(|steps| !steps.is_empty()), "an empty pointer leaves out all");
        left_out.sort_unstable();
        left_out.dedup();
        self.protocol.mode.same = FingerprintRule::Json(left_out.into());
        self
    }

    /// Compares requests with the same key by `fingerprint` of their head and body, instead of
    /// [`Fingerprint::of`]. For bodies that differ between tries: the boundaries of
    /// `multipart/form-data`, a timestamp, the order of JSON members.
    ///
    /// **What it leaves out does not count.** Of two requests with one fingerprint, the second gets the
    /// response of the first. So return [`Fingerprint::of`] the head, which counts method, path and
    /// query, and of a body that keeps all that the handler reads distinct: parts with their lengths, not
    /// concatenated. Counting too much only means that a try that differs is answered 422.
    ///
    /// It gets the head as sent, without the layer's [`token_header`](OnceLayer::token_header). Over
    /// HTTP/2 there is no `host` header.
    ///
    /// It must be the same on all replicas. After a change, earlier keys are answered 422 for
    /// [`retain`](OnceLayer::retain). Its results never equal fingerprints made without it. It is called
    /// once per request, before the lock is acquired, on the connection's task: it should not block. If it
    /// panics, nothing runs. The last call of this and
    /// [`fingerprint_headers`](Self::fingerprint_headers) applies.
    ///
    /// ```
    /// use tower_redlock::{key::RequestHead, once::{http::Scope, Fingerprint}, OnceLayer, Redlock};
    ///
    /// /// The same for all boundaries: each piece between two of them, with its length.
    /// fn of_parts(head: &RequestHead<'_>, body: &[u8]) -> Fingerprint {
    ///     let boundary = head.headers().get("content-type").and_then(|value| {
    ///         let value = value.to_str().ok()?.strip_prefix("multipart/form-data;")?;
    ///         Some(value.trim().strip_prefix("boundary=")?.trim_matches('"').to_owned())
    ///     });
    ///     let Some(boundary) = boundary.filter(|boundary| !boundary.is_empty()) else {
    ///         return Fingerprint::of(head, body);
    ///     };
    ///     // The first one stands at the beginning, each other on a line of its own.
    ///     let delimiter = format!("\r\n--{boundary}");
    ///     let (first, delimiter) = (&delimiter.as_bytes()[2..], delimiter.as_bytes());
    ///     let mut rest = body.strip_prefix(first).unwrap_or(body);
    ///     let mut pieces = b"multipart/form-data".to_vec();
    ///     loop {
    ///         let end = rest.windows(delimiter.len()).position(|at| at == delimiter);
    ///         let piece = &rest[..end.unwrap_or(rest.len())];
    ///         pieces.extend((piece.len() as u64).to_be_bytes());
    ///         pieces.extend(piece);
    ///         let Some(end) = end else { return Fingerprint::of(head, &pieces) };
    ///         rest = &rest[end + delimiter.len()..];
    ///     }
    /// }
    ///
    /// # let _layer =
    /// OnceLayer::idempotency(Redlock::embedded(), "uploads")
    ///     .scope(Scope::none())
    ///     .fingerprint(of_parts);
    /// # let of = |boundary: &str, body: String| {
    /// #     let typed = format!("multipart/form-data; boundary={boundary}");
    /// #     let request = http::Request::post("/").header("content-type", typed).body(()).unwrap();
    /// #     of_parts(&RequestHead::from(&request), body.as_bytes())
    /// # };
    /// # let body = |b: &str, text: &str| format!("--{b}\r\n\r\n{text}\r\n--{b}--\r\n");
    /// # assert_eq!(of("a", body("a", "x")), of("b", body("b", "x")));
    /// # assert_ne!(of("a", body("a", "x")), of("a", body("a", "y")));
    /// # assert_ne!(of("a", body("a", "x")), of("a", body("b", "x")));
    /// ```
    pub fn fingerprint<F>(mut self, fingerprint: F) -> Self
    where
        F: Fn(&RequestHead<'_>, &[u8]) -> Fingerprint + Send + Sync + 'static,
    {
        self.protocol.mode.same = FingerprintRule::Replaced(Arc::new(fingerprint));
        self
    }
}

/// # The request's body
impl<K, C, R> OnceLayer<K, C, OnceHttp<R, Idempotency>> {
    /// Sets the maximum size of a request's body, in bytes. Default:
    /// [`DEFAULT_BODY_LIMIT`](crate::once::DEFAULT_BODY_LIMIT), 1 MiB. The body is read for the
    /// fingerprint, and passed on unchanged: see [`RestoredBody`](crate::once::RestoredBody).
    pub const fn body_limit(mut self, bytes: usize) -> Self {
        self.protocol.mode.body_limit = bytes;
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
        self.protocol.mode.body_timeout = timeout;
        self
    }
}

/// # Stored responses
impl<K, C, R> OnceLayer<K, C, OnceHttp<R, Idempotency>> {
    /// Sets the maximum size of a stored response, in bytes: its body, with the names and values of the
    /// stored headers. Default:
    /// [`DEFAULT_RESPONSE_LIMIT`](super::DEFAULT_RESPONSE_LIMIT), 64 KiB.
    pub const fn response_limit(mut self, bytes: usize) -> Self {
        self.protocol.mode.response_limit = bytes;
        self
    }

    /// Sets the statuses whose responses are stored. Default: [`KeptStatuses::successes`], 2xx and 303.
    ///
    /// [`complete_when`](OnceLayer::complete_when) replaces this; for another 5xx see
    /// [`server_errors`](OnceLayer::server_errors).
    ///
    /// ```
    /// use http::StatusCode;
    /// use tower_redlock::{once::http::{KeptStatuses, Scope}, OnceLayer, Redlock};
    ///
    /// # let _layer =
    /// OnceLayer::idempotency(Redlock::embedded(), "payments")
    ///     .scope(Scope::none())
    ///     .kept_statuses(KeptStatuses::successes().with(StatusCode::PAYMENT_REQUIRED));
    /// ```
    pub fn kept_statuses(mut self, statuses: KeptStatuses) -> Self {
        self.protocol.mode.kept = statuses;
        self
    }

    /// Sets which headers of a response are stored. Default: [`StoredHeaders::all`].
    pub fn stored_headers(mut self, headers: StoredHeaders) -> Self {
        self.protocol.mode.headers = headers;
        self
    }

    /// Stores responses in `store` instead of on the nodes: [`RedisStore`](crate::once::RedisStore),
    /// [`MemoryStore`](crate::once::MemoryStore) for a single process, or one of your own.
    ///
    /// A response is put under the lock and its fencing token, before the final record. If the put takes
    /// time, a pending record is sent first: after a crash, the response is replayed if the store has it.
    /// After a crash before that record, the request runs again under a newer token, which replaces the
    /// response. If the put fails, the request is done, its response may be lost, and a WARN is logged.
    ///
    /// ```
    /// use tower_redlock::{once::{http::Scope, MemoryStore}, OnceLayer, Redlock};
    ///
    /// # let _layer =
    /// OnceLayer::idempotency(Redlock::embedded(), "payments")
    ///     .scope(Scope::none())
    ///     .response_limit(1 << 20)
    ///     .store(MemoryStore::new());
    /// ```
    pub fn store(mut self, store: impl ResponseStore) -> Self {
        self.protocol.mode.store = Some(Arc::new(store));
        self
    }
}

impl fmt::Debug for Idempotency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency")
            .field("body_limit", &self.body_limit)
            .field("body_timeout", &self.body_timeout)
            .field("response_limit", &self.response_limit)
            .field("headers", &self.headers)
            .field("kept", &self.kept)
            .field("any_host", &self.any_host)
            .field("scope_records", &self.scope_records)
            .finish_non_exhaustive()
    }
}
