use std::time::Duration;

use tower_layer::Layer;

use super::RedlockService;
use crate::lock::{LockRequest, Redlock};

/// Runs each request only while the lock on its resource is held.
///
/// Wrapping many services (one a route, say) is cheap: they share the manager's connections.
/// Settings that are not made here are the manager's.
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it wraps a service"]
pub struct RedlockLayer<K> {
    redlock: Redlock,
    key: K,
    terms: Terms,
}

/// What the layer asks for with each request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Terms {
    ttl: Option<Duration>,
    wait: Option<Duration>,
    max_hold: Option<Duration>,
}

impl<K> RedlockLayer<K> {
    /// A layer that locks what `key` finds in each request: a closure, or any
    /// [`ResourceKey`](super::ResourceKey).
    pub const fn new(redlock: Redlock, key: K) -> Self {
        Self { redlock, key, terms: Terms { ttl: None, wait: None, max_hold: None } }
    }

    /// How long the servers keep the key without renewal. Default: the manager's (10 s).
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.terms.ttl = Some(ttl);
        self
    }

    /// How long a request waits for its turn. Default: the manager's (zero: it is turned away at
    /// once).
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.terms.wait = Some(wait);
        self
    }

    /// The longest time that a request runs under the lock. Default: the manager's (5 min).
    pub const fn max_hold(mut self, max_hold: Duration) -> Self {
        self.terms.max_hold = Some(max_hold);
        self
    }
}

impl<S, K: Clone> Layer<S> for RedlockLayer<K> {
    type Service = RedlockService<S, K>;

    fn layer(&self, inner: S) -> Self::Service {
        RedlockService::new(inner, self.redlock.clone(), self.key.clone(), self.terms)
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
        request
    }
}
