use std::{sync::Arc, time::Duration};

use tower_layer::Layer;

use super::{Always, OnceService, Unknown, terms::Terms};
use crate::{
    error::LockError,
    lock::Redlock,
    resource::{Resource, ResourceError},
};

use super::{OnceRequest, terms};

/// Runs each request to success once per key, and tells the rest that it is done or in progress.
///
/// The key is found as for [`RedlockLayer`](crate::RedlockLayer): by a closure, or any
/// [`ResourceKey`](crate::ResourceKey); `None` lets a request pass without one. It is one name: a set
/// of names is an error.
///
/// A layer has a name of its own, which stands before each of its keys: what is done behind one layer
/// is not done behind another. Give the same name where the same work is done (on every replica),
/// and another for each route whose handler does other work. Routes that share a layer share its
/// keys: an id that was handled on one of them is done on the others. To
/// [`Redlock::once`](crate::Redlock::once), the key of the layer `shop` and the request `evt_1` is
/// `shop:evt_1`.
///
/// Settings that are not made here are the manager's; but a request does not wait for another that
/// does the same, unless [`wait`](Self::wait) says so.
///
/// `C` tells which responses complete the key: all that are `Ok`, or what
/// [`complete_when`](Self::complete_when) says. `F` is the face that the outcomes have: with [`Plain`]
/// the response is [`Once<S::Response>`](super::Once); over HTTP (feature `http`) it is one for
/// webhooks, by `http()` or [`by_body`](OnceLayer::by_body), or for requests with an
/// `Idempotency-Key`, by [`idempotency`](OnceLayer::idempotency); over gRPC (feature `tonic`) it is a
/// status, by `grpc()`.
///
/// ```
/// use std::convert::Infallible;
/// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
/// use tower_redlock::{Once, OnceError, OnceLayer, Redlock};
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
pub struct OnceLayer<K, C = Always, F = Plain> {
    pub(super) redlock: Redlock,
    name: Arc<str>,
    pub(super) key: K,
    pub(super) complete: C,
    pub(super) face: F,
    settings: Settings,
}

/// Outcomes are part of the response: [`Once`](super::Once).
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain(());

/// What the layer asks for with each request.
#[derive(Clone, Copy, Debug)]
struct Settings {
    ttl: Option<Duration>,
    wait: Option<Duration>,
    max_hold: Option<Duration>,
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
        let settings = Settings { ttl: None, wait: None, max_hold: None, terms: Terms::DEFAULT };
        let name = terms::layer_name(name);
        Self { redlock, name, key, complete: Always(()), face: Plain(()), settings }
    }
}

impl<K, C, F> OnceLayer<K, C, F> {
    /// How long the servers keep the lock without renewal. Default: the manager's (10 s). A crash in
    /// the middle of a request blocks its key for at most this long.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = Some(ttl);
        self
    }

    /// How long a request waits while another with its key runs, or too few nodes answer. Default:
    /// zero.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.settings.wait = Some(wait);
        self
    }

    /// The longest time that a request runs. Default: the manager's (5 min). A handler that takes
    /// longer is stopped in the middle, and never done: choose it above the slowest.
    pub const fn max_hold(mut self, max_hold: Duration) -> Self {
        self.settings.max_hold = Some(max_hold);
        self
    }

    /// How long the nodes keep that a key is done. Default: 96 hours. See
    /// [`OnceRequest::retain`].
    pub const fn retain(mut self, retain: Duration) -> Self {
        self.settings.terms.retain = retain;
        self
    }

    /// What becomes of a key where nobody knows how far its request came. Default:
    /// [`Unknown::Release`].
    pub const fn unknown(mut self, unknown: Unknown) -> Self {
        self.settings.terms.unknown = unknown;
        self
    }

    /// Which responses mean that the key is done. After another its key is free, for the next try.
    /// Errors of the service never complete. Over gRPC it goes by the status: see `grpc()`.
    ///
    /// Over HTTP a response that says by itself what became of its request (`RequestOutcome`) is taken
    /// at its word, and this is not asked; after a 5xx that this does not call done, the key is what
    /// `server_errors` says, free by default.
    ///
    /// Closures need the type of their argument where they are written apart from this call.
    pub fn complete_when<G>(self, complete: G) -> OnceLayer<K, G, F> {
        let Self { redlock, name, key, face, settings, .. } = self;
        OnceLayer { redlock, name, key, complete, face, settings }
    }

    /// The same with another face.
    #[cfg(feature = "http")]
    pub(super) fn with_face<D, G>(self, change: impl FnOnce(C, F) -> (D, G)) -> OnceLayer<K, D, G> {
        let Self { redlock, name, key, complete, face, settings } = self;
        let (complete, face) = change(complete, face);
        OnceLayer { redlock, name, key, complete, face, settings }
    }

    /// The same with another key.
    #[cfg(feature = "http")]
    pub(super) fn with_key<L>(self, key: L) -> OnceLayer<L, C, F> {
        let Self { redlock, name, complete, face, settings, .. } = self;
        OnceLayer { redlock, name, key, complete, face, settings }
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
        let Settings { ttl, wait, max_hold, terms } = self.settings;
        if let Some(ttl) = ttl {
            request = request.ttl(ttl);
        }
        if let Some(wait) = wait {
            request = request.wait(wait);
        }
        if let Some(max_hold) = max_hold {
            request = request.max_hold(max_hold);
        }
        request.terms = terms;
        request
    }
}

impl<S, K: Clone, C: Clone, F: Clone> Layer<S> for OnceLayer<K, C, F> {
    type Service = OnceService<S, K, C, F>;

    fn layer(&self, inner: S) -> Self::Service {
        OnceService::new(inner, self.clone())
    }
}
