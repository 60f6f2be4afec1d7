//! The layer that runs requests once per key.

use std::{sync::Arc, time::Duration};

use super::{
    Always, UnknownOutcome,
    claim::KeyRequest,
    terms::{self, Terms},
};
use crate::{
    error::LockError,
    layer::{KeyError, Plain},
    lock::{LockOptions, Redlock, option_setters},
    resource::{Resource, ResourceError},
};

/// Runs each request to success once per key. Further requests get the outcome: done, or in progress.
///
/// The key is found as for a [`RedlockLayer`](crate::RedlockLayer): by a closure, or any
/// [`ResourceKey`](crate::layer::ResourceKey). A request for which it returns `None` runs each time. The
/// key is one name: a set of names is an error.
///
/// The layer's name is part of its keys. Use the same name on every replica, and different names for
/// routes with different handlers: routes that share a layer share its keys. The key of the layer `shop`
/// and the request `evt_1` is `layer:shop:evt_1` for [`Redlock::once_key`](crate::Redlock::once_key). No
/// key of [`Redlock::once`](crate::Redlock::once) is the same.
///
/// Defaults are the manager's, except for [`wait`](Self::wait).
///
/// `C` decides which responses complete the key: every `Ok`, or those of
/// [`complete_when`](Self::complete_when). `P` is the form of the outcomes:
///
/// | for | created by | the outcome |
/// |---|---|---|
/// | any service ([`Plain`]) | `new` | [`Once<S::Response>`](super::Once) |
/// | webhooks (feature `http`) | `http`, [`by_body`](OnceLayer::by_body) | a response |
/// | requests with an `Idempotency-Key` (feature `http`) | [`idempotency`](OnceLayer::idempotency) | a response |
/// | gRPC calls (feature `tonic`) | `grpc` | a status |
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
#[doc(alias = "idempotent", alias = "dedup")]
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
    /// Creates a layer that runs requests once per key, which `key` finds in them.
    ///
    /// It returns [`Once`](super::Once) and [`OnceError`](super::OnceError). In an axum router it needs
    /// responses instead: add `.http()` (feature `http`), or `.grpc()` (feature `tonic`).
    ///
    /// The name has 1 to 64 visible ASCII characters without a colon: `github`, `/hooks/shop`.
    ///
    /// # Panics
    ///
    /// If the name is invalid, or `idempotency`, which is reserved.
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

/// # Lock options
impl<K, C, P> OnceLayer<K, C, P> {
    /// Sets each option that is set in `options`. The others keep their values. Options that the manager
    /// refuses are an error of [`build`](Self::build), or without it of every request.
    pub const fn options(mut self, options: LockOptions) -> Self {
        self.options = options.or(self.options);
        self
    }

    option_setters! {
        /// See [`LockOptions::ttl`].
        pub const fn ttl(self, ttl: Duration) -> Self;

        /// See [`LockOptions::wait`]: the maximum time to wait for another request with the key. Default: zero.
        pub const fn wait(self, wait: Duration) -> Self;

        /// See [`LockOptions::wait_without_quorum`]. Default: no, a request fails as soon as a quorum is known
        /// to be away.
        pub const fn wait_without_quorum(self, wait: bool) -> Self;

        /// See [`LockOptions::max_hold`]. A handler that takes longer is stopped, and its key is never done:
        /// choose it above the duration of the slowest.
        pub const fn max_hold(self, max_hold: Duration) -> Self;
    }
}

/// # Completion
impl<K, C, P> OnceLayer<K, C, P> {
    /// Sets the closure that decides whether a response completes its key. After other responses the key
    /// is free. Errors of the service never complete it: the outcome is
    /// [unknown](super::UnknownOutcome). Over gRPC the closure gets the status: see `grpc()`.
    ///
    /// Over HTTP, a `RequestOutcome` in the response takes precedence, and the closure is not called.
    /// After a 5xx that does not complete the key, `server_errors` decides: by default the key is free.
    ///
    /// A closure that is not written inside this call needs the type of its argument.
    pub fn complete_when<G>(self, complete: G) -> OnceLayer<K, G, P> {
        let Self { redlock, name, key, protocol, options, terms, .. } = self;
        OnceLayer { redlock, name, key, complete, protocol, options, terms }
    }

    /// Sets the time for which the nodes store that a key is done. Default: 96 hours. See
    /// [`OnceRequest::retain`](super::OnceRequest::retain).
    pub const fn retain(mut self, retain: Duration) -> Self {
        self.terms.retain = retain;
        self
    }

    /// Sets what happens to a key whose request has an unknown outcome. Default:
    /// [`UnknownOutcome::Release`]; of a layer for `Idempotency-Key` [`UnknownOutcome::Hold`], 24 hours.
    pub const fn unknown(mut self, unknown: UnknownOutcome) -> Self {
        self.terms.unknown = unknown;
        self
    }
}

/// # Check
impl<K, C, P> OnceLayer<K, C, P> {
    /// Checks the settings against the manager's, before the first request.
    ///
    /// Without this check, a layer whose settings can't apply rejects every request with a key, and logs
    /// an ERROR when it wraps a service.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_redlock::{LockError, OnceLayer, Redlock};
    ///
    /// let layer = OnceLayer::new(Redlock::embedded(), "orders", |order: &u64| order.to_string());
    /// let longer = layer.clone().ttl(Duration::from_secs(60)).build();
    /// assert!(matches!(longer, Err(LockError::InvalidRequest(_))), "above max_ttl");
    /// assert!(layer.build().is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidRequest`]: a TTL above the manager's `max_ttl` or not above the drift, an option
    /// that does not apply to [once](mod@crate::once), or a time for which keys are kept or held that is
    /// zero or above 100 years.
    pub fn build(self) -> Result<Self, LockError> {
        self.check()?;
        Ok(self)
    }

    pub(super) fn check(&self) -> Result<(), LockError> {
        self.terms.check()?;
        self.request(Resource::try_from("settings")).lock.check_options()
    }
}

impl<K, C, P> OnceLayer<K, C, P> {
    #[cfg(feature = "http")]
    pub(super) fn server_error_hold(mut self, hold: Option<Duration>) -> Self {
        self.terms.server_error_hold = hold;
        self
    }

    #[cfg(all(test, feature = "scheduler"))]
    pub(crate) fn lock_request(&self) -> crate::lock::LockRequest {
        self.request(Resource::try_from("x")).lock
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
    pub(super) const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Turns what was found in a request into the request for its key; `None` if it has no key.
    pub(super) fn request_for(
        &self,
        found: Result<Option<Resource>, KeyError>,
    ) -> Result<Option<KeyRequest>, LockError> {
        let found = found.map_err(|error| LockError::InvalidResource(error.into()))?;
        Ok(found.map(|key| self.request(terms::layer_key(&self.name, &key))))
    }

    /// Creates the request for a key that includes the layer's name, with the layer's settings.
    pub(super) fn request(&self, key: Result<Resource, ResourceError>) -> KeyRequest {
        let resource = key.and_then(|key| terms::resource(&key)).map_err(LockError::from);
        let mut request = KeyRequest::new(&self.redlock, resource);
        request.lock = request.lock.for_client().options(self.options);
        request.terms = self.terms;
        request
    }
}
