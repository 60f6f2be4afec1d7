//! The settings of the layer.

use std::sync::Arc;

use super::{DefaultHeader, memory::TokenMemory};
use crate::layer::Plain;

/// Default number of resources whose tokens are remembered.
pub const DEFAULT_CAPACITY: usize = 100_000;

/// Refuses requests whose fencing token is older than the newest that was seen for their resource.
/// [The module](crate::fencing) describes its protection and its limits.
///
/// `K` finds the resource and `T` the token. Requests for which `K` finds `None` pass without a token. A
/// resource of several names is checked against the newest token of each. All clones of the layer, and all
/// services that it wraps, share the tokens.
///
/// `P` is the form of a [`FencingError`](super::FencingError). With [`Plain`] it is part of the service's
/// error type, after `http()` (feature `http`) it is a response, and after `grpc()` (feature `tonic`) a
/// status.
///
/// ```
/// use std::convert::Infallible;
/// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
/// use tower_redlock::{FencingLayer, fencing::{FencingServiceError, FencingError}};
///
/// struct Write { account: u64, token: Option<u64> }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), FencingServiceError<Infallible>> {
/// let key = |write: &Write| format!("account:{}", write.account);
/// let mut storage = ServiceBuilder::new()
///     .layer(FencingLayer::new(key).token(|write: &Write| write.token))
///     .service(service_fn(|_: Write| async { Ok::<_, Infallible>(()) }));
/// storage.ready().await?.call(Write { account: 42, token: Some(8) }).await?;
/// let late = storage.ready().await?.call(Write { account: 42, token: Some(7) }).await;
/// assert!(matches!(late, Err(FencingServiceError::Fencing(FencingError::Stale { .. }))));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it wraps a service"]
pub struct FencingLayer<K, T = DefaultHeader, P = Plain> {
    pub(super) key: K,
    pub(super) token: T,
    pub(super) memory: Arc<TokenMemory>,
    pub(super) protocol: P,
}

impl<K> FencingLayer<K> {
    /// Creates a layer that fences the resource that `key` finds in each request. The key is a
    /// closure, or any [`ResourceKey`](crate::layer::ResourceKey). The names may differ from the
    /// names of the locks; each resource needs its own name.
    ///
    /// The token is read from the header `fencing-token`, in decimal digits, unless
    /// [`token`](Self::token) sets another source.
    pub fn new(key: K) -> Self {
        let memory = Arc::new(TokenMemory::new(DEFAULT_CAPACITY));
        Self { key, token: DefaultHeader::default(), memory, protocol: Plain(()) }
    }
}

impl<K, T, P> FencingLayer<K, T, P> {
    /// Sets the source of the token: a header's name ([`http`](https://docs.rs/http)'s `HeaderName`;
    /// decimal digits, once), a closure, or any [`TokenSource`](super::TokenSource).
    pub fn token<U>(self, token: U) -> FencingLayer<K, U, P> {
        let Self { key, memory, protocol, .. } = self;
        FencingLayer { key, token, memory, protocol }
    }

    /// Sets the maximum number of resources in memory. Default: 100,000, at about 300 bytes plus
    /// the name for each. The layer starts with an empty memory; clones that were made before keep
    /// theirs.
    ///
    /// Beyond the maximum, the least recently used resource is evicted. The arrival and the end of
    /// a request, even of a refused one, count as a use. Resources with a running request are never
    /// evicted, even above the maximum.
    ///
    /// An evicted resource accepts any token until a newer one is seen. So choose more than the
    /// number of resources that are written within the longest delay of a stale holder, or check
    /// the token in the write to the store, as [the module](crate::fencing) shows.
    pub fn capacity(mut self, resources: usize) -> Self {
        self.memory = Arc::new(TokenMemory::new(resources));
        self
    }

    #[cfg(feature = "http")]
    pub(super) fn with_protocol<Q>(self, protocol: Q) -> FencingLayer<K, T, Q> {
        let Self { key, token, memory, .. } = self;
        FencingLayer { key, token, memory, protocol }
    }
}
