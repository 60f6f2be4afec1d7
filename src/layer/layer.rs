//! The settings of the layer.

use std::{sync::Arc, time::Duration};

use super::Plain;
use crate::{
    error::LockError,
    lock::{LockOptions, Redlock, option_setters},
};

/// Runs each request only while the lock on its resource is held.
///
/// Wrapping many services, such as one per route, is cheap: they share the manager's connections.
/// Settings that are not made here are the manager's.
///
/// `P` is the form of a lock error. With [`Plain`] it is part of the service's error type, after `http()`
/// (feature `http`) it is a response, and after `grpc()` (feature `tonic`) a status.
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it wraps a service"]
pub struct RedlockLayer<K, P = Plain> {
    pub(super) redlock: Redlock,
    pub(super) key: K,
    pub(super) options: LockOptions,
    pub(super) protocol: P,
    pub(super) name: Option<Arc<str>>,
}

impl<K> RedlockLayer<K> {
    /// Creates a layer that locks the resource that `key` finds in each request. The key is a closure, or
    /// any [`ResourceKey`](super::ResourceKey).
    pub const fn new(redlock: Redlock, key: K) -> Self {
        let options = LockOptions::new();
        Self { redlock, key, options, protocol: Plain(()), name: None }
    }
}

/// # Lock options
impl<K, P> RedlockLayer<K, P> {
    /// Sets each option that is set in `options`. The others keep their values.
    ///
    /// Options that the manager refuses are an error of [`build`](Self::build), or without it of every
    /// request.
    pub const fn options(mut self, options: LockOptions) -> Self {
        self.options = options.or(self.options);
        self
    }

    option_setters! {
        /// See [`LockOptions::ttl`].
        pub const fn ttl(self, ttl: Duration) -> Self;

        /// See [`LockOptions::wait`].
        pub const fn wait(self, wait: Duration) -> Self;

        /// See [`LockOptions::wait_without_quorum`]. Default: no, a request fails as soon as a quorum is known
        /// to be away.
        pub const fn wait_without_quorum(self, wait: bool) -> Self;

        /// See [`LockOptions::max_hold`].
        pub const fn max_hold(self, max_hold: Duration) -> Self;

        /// See [`LockOptions::linger`].
        pub const fn linger(self, linger: Duration) -> Self;
    }

    /// Lets all requests for a key run beside each other, and beside no exclusive lock on it: for a layer
    /// around routes that only read. See [`LockOptions::shared`]. `shared_for` decides by the request.
    pub const fn shared(self) -> Self {
        self.options(LockOptions::new().shared(true))
    }

    option_setters! {
        /// Lets this number of requests for a key run at a time, in all processes together: tower's
        /// `ConcurrencyLimit`, across the fleet. See [`LockOptions::slots`].
        ///
        /// A request that finds all slots held, and does not [wait](Self::wait) for one, gets 503 with the
        /// code `full` and `Retry-After`; over gRPC `RESOURCE_EXHAUSTED`. [`on_reject`](Self::on_reject)
        /// answers 429 instead.
        pub const fn slots(self, slots: u32) -> Self;

        /// See [`LockOptions::max_retry_after`].
        pub const fn max_retry_after(self, max: Duration) -> Self;
    }
}

/// # Name and check
impl<K, P> RedlockLayer<K, P> {
    /// Sets the name by which handlers inside several layers find the lock of this one in
    /// `LockContexts` (feature `http`). Default: none. The name is not part of what is locked.
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Checks the settings against the manager's, before the first request.
    ///
    /// Without this check, a layer whose settings the manager refuses rejects every request, and logs an
    /// ERROR when it wraps a service.
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
    /// `max_ttl` or not above the drift, or a zero for another option that has to be positive.
    pub fn build(self) -> Result<Self, LockError> {
        self.check()?;
        Ok(self)
    }

    pub(super) fn check(&self) -> Result<(), LockError> {
        self.redlock.lock("settings").options(self.options).check_options()
    }

    #[cfg(all(test, feature = "scheduler"))]
    pub(crate) fn lock_request(&self) -> crate::lock::LockRequest {
        self.redlock.lock("x").for_client().options(self.options)
    }

    #[cfg(feature = "http")]
    pub(super) fn map_protocol<Q>(self, map: impl FnOnce(P) -> Q) -> RedlockLayer<K, Q> {
        let Self { redlock, key, options, protocol, name } = self;
        RedlockLayer { redlock, key, options, protocol: map(protocol), name }
    }
}
