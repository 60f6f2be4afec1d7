//! The layer that runs requests once per key.

use std::{sync::Arc, time::Duration};

use tower_layer::Layer;

use super::{Always, OnceService, UnknownOutcome, terms::Terms};
use crate::{
    error::LockError,
    layer::Plain,
    lock::{LockOptions, Redlock},
    resource::{Resource, ResourceError},
};

use super::{OnceRequest, terms};

/// Runs each request to success once per key. Further requests learn that it is done or in progress.
///
/// The key is found as for [`RedlockLayer`](crate::RedlockLayer): by a closure, or any
/// [`ResourceKey`](crate::layer::ResourceKey); `None` lets a request pass without one. It is one name: a set
/// of names is an error.
///
/// The layer's name prefixes its keys, so layers of different names share none. Use the same name on
/// every replica, and another for each route whose handler does other work: routes that share a layer
/// share its keys. To [`Redlock::once`](crate::Redlock::once), the key of the layer `shop` and the
/// request `evt_1` is `shop:evt_1`.
///
/// Defaults are the manager's, except for [`wait`](Self::wait).
///
/// `C` decides which responses complete the key: every `Ok`, or those of
/// [`complete_when`](Self::complete_when). `P` is the form of the outcomes: with [`Plain`] the response
/// is [`Once<S::Response>`](super::Once); over HTTP (feature `http`) it is one for
/// webhooks, by `http()` or [`by_body`](OnceLayer::by_body), or for requests with an
/// `Idempotency-Key`, by [`idempotency`](OnceLayer::idempotency); over gRPC (feature `tonic`) it is a
/// status, by `grpc()`.
///
/// ```
/// use std::convert::Infallible;
/// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
/// use tower_redlock::{once::{Once, OnceError}, OnceLayer, Redlock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), OnceError<Infallible>> {
/// let mut ship = ServiceBuilder::new()
///     .layer(OnceLayer::new(Redlock::embedded(), "orders", |order: &u64| order.to_string()))
///     .service(service_fn(|order: u64| async move { Ok::<_, Infallible>(order) }));
/// assert!(matches!(ship.ready().await?.call(7).await?, Once::Ran(7)));
/// assert!(matches!(ship.ready().await?.call(7).await?, Once::AlreadyDone { .. }));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it wraps a service"]
pub struct OnceLayer<K, C = Always, P = Plain> {
    pub(super) redlock: Redlock,
    name: Arc<str>,
    pub(super) key: K,
    pub(super) complete: C,
    pub(super) protocol: P,
    options: LockOptions,
    terms: Terms,
}

impl<K> OnceLayer<K> {
    /// A layer of this name that runs requests once for what `key` finds in them.
    ///
    /// The name has 1 to 64 visible ASCII characters without a colon: `github`, `/hooks/shop`.
    ///
    /// # Panics
    ///
    /// If the name is none, or `idempotency`, which is taken.
    pub fn new(redlock: Redlock, name: impl Into<Arc<str>>, key: K) -> Self {
        let name = terms::layer_name(name);
        Self {
            redlock,
            name,
            key,
            complete: Always(()),
            protocol: Plain(()),
            options: LockOptions::new(),
            terms: Terms::DEFAULT,
        }
    }
}

impl<K, C, P> OnceLayer<K, C, P> {
    /// Sets all that is set in `options`; what was set before and is not set there stays. What is not
    /// valid is an error of every request.
    pub const fn options(mut self, options: LockOptions) -> Self {
        self.options = options.or(self.options);
        self
    }

    /// See [`LockOptions::ttl`].
    pub const fn ttl(self, ttl: Duration) -> Self {
        self.options(LockOptions::new().ttl(ttl))
    }

    /// See [`LockOptions::wait`]: how long a request waits while another with its key runs. Default:
    /// zero.
    pub const fn wait(self, wait: Duration) -> Self {
        self.options(LockOptions::new().wait(wait))
    }

    /// See [`LockOptions::max_hold`]. A handler that takes longer is stopped in the middle, and never
    /// done: choose it above the slowest.
    pub const fn max_hold(self, max_hold: Duration) -> Self {
        self.options(LockOptions::new().max_hold(max_hold))
    }

    /// How long the nodes keep that a key is done. Default: 96 hours. See
    /// [`OnceRequest::retain`].
    pub const fn retain(mut self, retain: Duration) -> Self {
        self.terms.retain = retain;
        self
    }

    /// What becomes of a key where nobody knows how far its request came. Default:
    /// [`UnknownOutcome::Release`].
    pub const fn unknown(mut self, unknown: UnknownOutcome) -> Self {
        self.terms.unknown = unknown;
        self
    }

    #[cfg(all(test, feature = "scheduler"))]
    pub(crate) fn lock_request(&self) -> crate::lock::LockRequest {
        self.request(Resource::try_from("x")).lock_request()
    }

    /// Which responses mean that the key is done. After another its key is free, for the next try.
    /// Errors of the service never complete. Over gRPC it goes by the status: see `grpc()`.
    ///
    /// Over HTTP a response that says by itself what became of its request (`RequestOutcome`) is taken
    /// at its word, and this is not asked; after a 5xx that this does not call done, the key is what
    /// `server_errors` says, free by default.
    ///
    /// Closures need the type of their argument where they are written apart from this call.
    pub fn complete_when<G>(self, complete: G) -> OnceLayer<K, G, P> {
        let Self { redlock, name, key, protocol, options, terms, .. } = self;
        OnceLayer { redlock, name, key, complete, protocol, options, terms }
    }

    #[cfg(feature = "http")]
    pub(super) fn map_protocol<Q>(self, map: impl FnOnce(P) -> Q) -> OnceLayer<K, C, Q> {
        let Self { redlock, name, key, complete, protocol, options, terms } = self;
        OnceLayer { redlock, name, key, complete, protocol: map(protocol), options, terms }
    }

    #[cfg(feature = "http")]
    pub(super) fn with_key<L>(self, key: L) -> OnceLayer<L, C, P> {
        let Self { redlock, name, complete, protocol, options, terms, .. } = self;
        OnceLayer { redlock, name, key, complete, protocol, options, terms }
    }

    /// The layer's name.
    #[cfg(feature = "http")]
    pub(super) const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// A request for a key that was found in one, on the layer's terms.
    pub(super) fn request_for(&self, key: &Resource) -> OnceRequest {
        self.request(terms::layer_key(&self.name, key))
    }

    /// A request for a key that has the layer's name already, on the layer's terms.
    pub(super) fn request(&self, key: Result<Resource, ResourceError>) -> OnceRequest {
        let resource = key.and_then(|key| terms::resource(&key)).map_err(LockError::from);
        let mut request = OnceRequest::new(&self.redlock, resource);
        request.lock = request.lock.options(self.options);
        request.terms = self.terms;
        request
    }
}

impl<S, K: Clone, C: Clone, P: Clone> Layer<S> for OnceLayer<K, C, P> {
    type Service = OnceService<S, K, C, P>;

    fn layer(&self, inner: S) -> Self::Service {
        OnceService::new(inner, self.clone())
    }
}
