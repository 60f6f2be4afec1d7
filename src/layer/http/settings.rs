//! The settings of a layer over HTTP.

use std::fmt;

use bytes::Bytes;
use http::{HeaderName, Response};

use crate::{
    layer::{RedlockLayer, token_header::TokenHeader},
    reject::{DefaultResponse, Rejecter, Rejection},
};

/// The settings of a [`RedlockLayer`] over HTTP, where lock errors are responses. Created by
/// [`RedlockLayer::http`].
#[derive(Clone, Debug)]
pub struct RedlockHttp<R = DefaultResponse, M = Streamed> {
    pub(super) hold_body: bool,
    pub(super) hold_upgrade: bool,
    pub(super) token_header: TokenHeader,
    pub(super) rejecter: Rejecter<R>,
    pub(super) mode: M,
}

/// The mode in which the service reads the request's body under the lock.
#[derive(Clone, Copy, Debug)]
pub struct Streamed(pub(super) ());

impl<R, M> RedlockHttp<R, M> {
    pub(super) fn with_mode<N>(self, mode: N) -> RedlockHttp<R, N> {
        let Self { hold_body, hold_upgrade, token_header, rejecter, .. } = self;
        RedlockHttp { hold_body, hold_upgrade, token_header, rejecter, mode }
    }
}

impl<K> RedlockLayer<K> {
    /// Makes lock errors responses, with problem bodies after RFC 9457:
    ///
    /// | what happened | status | `Retry-After` | did the handler run? |
    /// |---|---|---|---|
    /// | held by another | 409 | an [estimate](RedlockLayer::max_retry_after) of when it is free, in whole seconds | no |
    /// | all [slots](RedlockLayer::slots) held | 503 | the same estimate | no |
    /// | no quorum, too slow, shutting down | 503 | 1 s | no |
    /// | the wait was over | as what was met last | | no |
    /// | lost while it ran, also inside its last poll | 500, `outcome: unknown` | none: it may have happened | yes, to some point |
    /// | no usable key | 400 | none | no |
    /// | a TTL or wait that the manager refuses, a key at the wrong place | 500 | none | no |
    ///
    /// The responses are marked with a [`RequestOutcome`](crate::reject::RequestOutcome) for an
    /// [`OnceLayer`](crate::OnceLayer) outside.
    ///
    /// The error type remains the service's own. The [`LockContext`](crate::LockContext) is in the request's extensions
    /// (with the feature `axum` it is an extractor; [`LockContexts`](crate::LockContexts) has the contexts of nested
    /// layers), and the lock is held until the response's body has ended: see
    /// [`hold_body`](Self::hold_body).
    ///
    /// The service reads the request's body under the lock, so a client that sends it slowly keeps the
    /// lock, for `max_hold` at most. On public routes, use
    /// [`read_body_first`](RedlockLayer::read_body_first).
    ///
    /// # In axum
    ///
    /// | added by | applies to |
    /// |---|---|
    /// | `MethodRouter::route_layer`: `post(handler).route_layer(layer)` | the methods that have a handler; HEAD, where GET has one |
    /// | `Router::route_layer`, `MethodRouter::layer` | every method of the path, also one that is answered with 405: a preflight (OPTIONS) or a DELETE waits for the lock of a POST |
    /// | `Router::layer` | every method, and the fallback: a request without a route gets 404, but one without a key gets 400 |
    ///
    /// Where a layer applies to every method, as around any other service, no method is left out by
    /// default, since the service inside may do work for each of them. [`Key::only`](crate::key::Key::only)
    /// locks some methods only.
    ///
    /// `MethodRouter::route_layer` takes a layer without `http()` no more than the others: the compiler
    /// expects `Infallible` there, and finds a [`GuardError`](crate::layer::GuardError).
    pub fn http(self) -> RedlockLayer<K, RedlockHttp> {
        self.map_protocol(|_| RedlockHttp {
            hold_body: true,
            hold_upgrade: false,
            token_header: TokenHeader::default(),
            rejecter: Rejecter::default(),
            mode: Streamed(()),
        })
    }
}

/// # Hold over HTTP
impl<K, R, M> RedlockLayer<K, RedlockHttp<R, M>> {
    /// Sets whether the lock is held until the response's body has ended, failed or was dropped.
    /// Default: yes. A body that outlives the lock is cut with an error.
    ///
    /// Over HTTP/1.0, where a body of unannounced length ends with the connection, a client can't
    /// detect truncation. There the whole body is read before the response is sent: a lost lock is
    /// still answered with 500, and so is a body of more than 1 MiB (`response-too-large`). If a
    /// proxy uses HTTP/1.0 to its servers (nginx's `proxy_http_version`), configure it to use 1.1.
    /// Event streams are passed on without buffering.
    ///
    /// A client that reads slowly keeps the lock, for `max_hold` at most. If the work is done
    /// before the response is sent, set this to `false`, or keep `max_hold` short.
    ///
    /// A response that upgrades the connection (101 for a websocket, or a 2xx to CONNECT) is refused with
    /// 500 (`upgrade-unguarded`) and logged at ERROR, as the connection would outlive the lock.
    /// [`hold_upgrade`](Self::hold_upgrade) holds the lock for the connection's life. With
    /// `hold_body(false)` the response passes, and the lock ends with it.
    ///
    /// Over HTTP/1.1, hyper completes an upgrade that the handler asked for even after another response,
    /// when the connection is closed. So each response of the layer after the handler began ends in an
    /// error ([`BodyError::NotUpgraded`](super::BodyError::NotUpgraded)) if the request has an `Upgrade`
    /// header or is a CONNECT: the client gets all bytes, the `Content-Length` is one more, and the server
    /// drops the connection without the upgrade.
    ///
    /// A response without a body can't fail (to HEAD, or with 204 by
    /// [`on_reject`](Self::on_reject)), and neither can the response of an outer layer, such as a
    /// timeout. A handler that uses the connection only inside
    /// [`HeldUpgrade::run`](super::HeldUpgrade::run) never uses it without the lock.
    pub fn hold_body(mut self, hold: bool) -> Self {
        self.protocol.hold_body = hold;
        self
    }

    /// Sets whether the lock can be held for the life of a connection that the response upgrades, such as
    /// a websocket over HTTP/1.1 or HTTP/2. Default: no, and such a response is refused.
    ///
    /// The handler takes a [`HeldUpgrade`](super::HeldUpgrade), with the feature `axum` as an
    /// extractor, and [runs](super::HeldUpgrade::run) the work with the connection under it. The
    /// lock is released when the work has ended, or when [`max_hold`](RedlockLayer::max_hold) is
    /// over, so choose a `max_hold` above the duration of a connection. An upgrade by a handler
    /// that does not take the handle is refused: see [`hold_body`](Self::hold_body).
    pub fn hold_upgrade(mut self, hold: bool) -> Self {
        self.protocol.hold_upgrade = hold;
        self
    }
}

/// # Handlers and rejections over HTTP
impl<K, R, M> RedlockLayer<K, RedlockHttp<R, M>> {
    /// Sets the header of the request that carries the fencing token to the service, in decimal digits:
    /// for services that can't read the request's extensions. Default: none.
    ///
    /// A value that the client sent is replaced, and removed from requests that run without a lock.
    /// Nested layers need different names.
    ///
    /// # Panics
    ///
    /// If `name` is not a valid header name.
    ///
    /// ```
    /// # use tower_redlock::{Redlock, RedlockLayer};
    /// # let redlock = Redlock::embedded();
    /// # let _layer =
    /// RedlockLayer::new(redlock, |_: &http::Request<()>| "nightly-report")
    ///     .http()
    ///     .token_header("fencing-token");
    /// ```
    pub fn token_header<N>(mut self, name: N) -> Self
    where
        N: TryInto<HeaderName>,
        N::Error: fmt::Debug,
    {
        self.protocol.token_header = TokenHeader::new(name);
        self
    }

    /// Sets the closure that makes the responses to rejected requests: requests that did not get
    /// the lock, or lost it before they had a response. Default: [`Rejection::response`].
    ///
    /// A closure that is not written inside this call needs the type of its argument.
    pub fn on_reject<G>(self, respond: G) -> RedlockLayer<K, RedlockHttp<G, M>>
    where
        G: Fn(Rejection<'_>) -> Response<Bytes>,
    {
        self.map_protocol(
            |RedlockHttp { hold_body, hold_upgrade, token_header, rejecter, mode }| {
                let rejecter = rejecter.with(respond);
                RedlockHttp { hold_body, hold_upgrade, token_header, rejecter, mode }
            },
        )
    }
}
