//! The settings of a layer for webhooks whose key is in the request's body.

use std::{sync::Arc, time::Duration};

use super::OnceHttp;
use crate::{
    layer::http::DEFAULT_BODY_TIMEOUT,
    lock::Redlock,
    once::{Always, DEFAULT_BODY_LIMIT, OnceLayer},
    reject::DefaultResponse,
};

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
    /// The body is read before the lock is acquired, and passed on unchanged: see [`Intact`], also for
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
    /// let app: Router = Router::new().route("/stripe", post(handle)).route_layer(once);
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
    pub const fn body_timeout(mut self, timeout: Duration) -> Self {
        self.protocol.mode.timeout = timeout;
        self
    }
}
