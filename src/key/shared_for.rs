//! Requests over HTTP and gRPC that take a shared lock.

use std::fmt;

use http::Request;

use super::RequestHead;
#[cfg(feature = "tonic")]
use crate::layer::grpc::RedlockGrpc;
use crate::{
    RedlockLayer,
    layer::{KeyError, ResourceKey, http::RedlockHttp},
    resource::Resource,
};

/// The key of a layer whose closure decides by the request's head whether its lock is shared. Created by
/// `shared_for` of a [`RedlockLayer`] over HTTP or gRPC.
#[derive(Clone, Copy)]
pub struct SharedForHead<K, F> {
    key: K,
    is_shared: F,
}

/// # Readers and writers over HTTP
impl<K, R, M> RedlockLayer<K, RedlockHttp<R, M>> {
    /// Lets the requests for which the closure returns `true` run beside each other: they take a shared
    /// lock ([`LockOptions::shared`](crate::LockOptions::shared)). Others take an exclusive lock, and run
    /// alone. Default: all run alone.
    ///
    /// ```
    /// use axum::{Router, routing::get};
    /// use tower_redlock::{Redlock, RedlockLayer, key};
    ///
    /// // Any number of GET and HEAD, or one PUT.
    /// let document = key::path_param("id").prefixed("document:");
    /// let layer = RedlockLayer::new(Redlock::embedded(), document)
    ///     .http()
    ///     .shared_for(|head| head.method().is_safe());
    /// let app: Router = Router::new()
    ///     .route("/documents/{id}", get(async || "read").put(async || "written").route_layer(layer));
    /// # let _ = app;
    /// ```
    ///
    /// The closure is called for each request that has a key; a closure that is not written inside this
    /// call needs the type of its argument. The method is the one that the client sent: a handler of GET
    /// that writes needs an exclusive lock.
    ///
    /// A request that is refused gets what a held lock gets, 409 with `Retry-After`. That may also happen
    /// to a reader while only readers run, if a writer [waits](RedlockLayer::wait): the writer is next.
    ///
    /// [`build`](RedlockLayer::build) refuses options that do not apply to shared locks, such as `slots` and
    /// `linger`. A key that finds a set of names is an error of the request, a 500, if its lock is shared.
    ///
    /// # Panics
    ///
    /// A panic of the closure is one of the service's `call`, before any lock is requested.
    pub fn shared_for<F>(self, is_shared: F) -> RedlockLayer<SharedForHead<K, F>, RedlockHttp<R, M>>
    where
        F: Fn(&RequestHead<'_>) -> bool,
    {
        self.with_shared(|key| SharedForHead { key, is_shared })
    }
}

/// # Readers and writers over gRPC
#[cfg(feature = "tonic")]
impl<K, R> RedlockLayer<K, RedlockGrpc<R>> {
    /// Lets the calls for which the closure returns `true` run beside each other: they take a shared lock
    /// ([`LockOptions::shared`](crate::LockOptions::shared)). Others take an exclusive lock, and run alone.
    /// Default: all run alone.
    ///
    /// gRPC methods have no safe ones, so name those that only read. The path is
    /// `/package.Service/Method`:
    ///
    /// ```
    /// use http::Request;
    /// use tonic::body::Body;
    /// use tower_redlock::{Redlock, RedlockLayer, layer::KeyError};
    ///
    /// let order = |request: &Request<Body>| {
    ///     let id = request.headers().get("order-id").and_then(|id| id.to_str().ok());
    ///     id.map(|id| format!("order:{id}")).ok_or(KeyError::new("no order-id in the metadata"))
    /// };
    /// let layer = RedlockLayer::new(Redlock::embedded(), order)
    ///     .grpc()
    ///     .shared_for(|head| matches!(head.uri().path(), "/shop.Orders/Get" | "/shop.Orders/Track"));
    /// # let _ = layer;
    /// ```
    ///
    /// A call that is refused gets what a held lock gets, `ABORTED` with `RetryInfo`. The rest is as over
    /// HTTP.
    pub fn shared_for<F>(self, is_shared: F) -> RedlockLayer<SharedForHead<K, F>, RedlockGrpc<R>>
    where
        F: Fn(&RequestHead<'_>) -> bool,
    {
        self.with_shared(|key| SharedForHead { key, is_shared })
    }
}

impl<B, K, F> ResourceKey<Request<B>> for SharedForHead<K, F>
where
    K: ResourceKey<Request<B>>,
    F: Fn(&RequestHead<'_>) -> bool,
{
    fn key(&self, request: &Request<B>) -> Result<Option<Resource>, KeyError> {
        self.key.key(request)
    }

    fn shared(&self, request: &Request<B>) -> Option<bool> {
        Some((self.is_shared)(&RequestHead::from(request)))
    }
}

impl<K: fmt::Debug, F> fmt::Debug for SharedForHead<K, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedForHead").field("key", &self.key).finish_non_exhaustive()
    }
}
