//! The settings of the layer.

use std::{sync::Arc, time::Duration};

use tower_layer::Layer;

use super::{RedlockService, call::Protocol};
use crate::{
    error::LockError,
    guard::LockContext,
    lock::{LockRequest, Redlock},
};

/// Runs each request only while the lock on its resource is held.
///
/// Wrapping many services (one a route, say) is cheap: they share the manager's connections.
/// Settings that are not made here are the manager's.
///
/// `P` decides what a lock error becomes: with [`Plain`] a part of the service's error type, after
/// `http()` (feature `http`) a response, and after `grpc()` (feature `tonic`) a status.
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it wraps a service"]
pub struct RedlockLayer<K, P = Plain> {
    pub(super) redlock: Redlock,
    pub(super) key: K,
    pub(super) terms: Terms,
    pub(super) protocol: P,
    pub(super) name: Option<Arc<str>>,
}

/// The errors of a layer are part of the service's error type: [`layer::Error`](super::Error), and
/// [`fencing::Error`](crate::fencing::Error) behind a [`FencingLayer`](crate::FencingLayer).
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain(pub(crate) ());

impl<Request> Protocol<Request> for Plain {
    fn prepare(&self, _: &mut Request, _: Option<Arc<str>>, _: &LockContext) {}
}

/// What the layer asks for with each request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Terms {
    ttl: Option<Duration>,
    wait: Option<Duration>,
    max_hold: Option<Duration>,
    retry_after: Option<Duration>,
}

impl<K> RedlockLayer<K> {
    /// A layer that locks what `key` finds in each request: a closure, or any
    /// [`ResourceKey`](super::ResourceKey).
    pub const fn new(redlock: Redlock, key: K) -> Self {
        let terms = Terms { ttl: None, wait: None, max_hold: None, retry_after: None };
        Self { redlock, key, terms, protocol: Plain(()), name: None }
    }
}

impl<K, P> RedlockLayer<K, P> {
    /// How long the servers keep the key without renewal. Default: the manager's (10 s).
    ///
    /// One above the manager's `max_ttl`, which is its TTL unless it is set, is an error of
    /// [`build`](Self::build), or else of every request.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.terms.ttl = Some(ttl);
        self
    }

    /// How long a request waits for its turn. Default: the manager's (zero: it is turned away at
    /// once). [`Duration::MAX`] is no limit.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.terms.wait = Some(wait);
        self
    }

    /// The longest time that a request runs under the lock. Default: the manager's (5 min).
    pub const fn max_hold(mut self, max_hold: Duration) -> Self {
        self.terms.max_hold = Some(max_hold);
        self
    }

    /// The longest time after which a request that met a holder is told to come back
    /// ([`LockError::Held::retry_after`](crate::LockError::Held), `Retry-After`, `RetryInfo`).
    /// Default: 30 s.
    ///
    /// The time is estimated: about one usual holding time for the holder, and one for each request
    /// before this one that waits or was turned away here, with jitter. The usual time is a mean of
    /// what this process has measured for names that differ only in parts with digits
    /// (`account:7`, `account:8`).
    pub const fn retry_after(mut self, max: Duration) -> Self {
        self.terms.retry_after = Some(max);
        self
    }

    /// Gives the layer a name, by which handlers find its lock in `LockContexts` (feature `http`) where
    /// several layers are around them. Default: none. It is no part of what is locked.
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Checks the settings against the manager's, before there is any request.
    ///
    /// A layer that is not checked, and whose settings the manager refuses, turns every request
    /// away; it says so at ERROR where it wraps a service.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_redlock::{LockError, Redlock, RedlockLayer};
    ///
    /// let redlock = Redlock::embedded();
    /// let layer = |ttl| RedlockLayer::new(redlock.clone(), |id: &u64| id.to_string()).ttl(ttl).build();
    /// assert!(layer(Duration::from_secs(5)).is_ok());
    /// assert!(matches!(layer(Duration::from_secs(60)), Err(LockError::InvalidRequest(_))));
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidRequest`](crate::LockError::InvalidRequest): a TTL above the manager's
    /// `max_ttl` or not above the drift, or a `max_hold` of zero.
    pub fn build(self) -> Result<Self, LockError> {
        self.check()?;
        Ok(self)
    }

    fn check(&self) -> Result<(), LockError> {
        self.terms.apply(self.redlock.lock("settings")).check()
    }

    #[cfg(feature = "http")]
    pub(super) fn map_protocol<Q>(self, map: impl FnOnce(P) -> Q) -> RedlockLayer<K, Q> {
        let Self { redlock, key, terms, protocol, name } = self;
        RedlockLayer { redlock, key, terms, protocol: map(protocol), name }
    }
}

impl<S, K: Clone, P: Clone> Layer<S> for RedlockLayer<K, P> {
    type Service = RedlockService<S, K, P>;

    fn layer(&self, inner: S) -> Self::Service {
        if let Err(error) = self.check() {
            crate::log::error!(%error, "a RedlockLayer turns every request away");
        }
        RedlockService::new(inner, self.clone())
    }
}

impl Terms {
    pub(super) fn apply(self, mut request: LockRequest) -> LockRequest {
        if let Some(ttl) = self.ttl {
            request = request.ttl(ttl);
        }
        if let Some(wait) = self.wait {
            request = request.wait(wait);
        }
        if let Some(max_hold) = self.max_hold {
            request = request.max_hold(max_hold);
        }
        if let Some(max) = self.retry_after {
            request = request.retry_after(max);
        }
        request
    }
}
