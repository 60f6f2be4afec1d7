use std::sync::Arc;

use tower_layer::Layer;

use super::{DefaultHeader, FencingService, memory::Memory};

/// How many resources are remembered, unless something else is said.
pub const DEFAULT_CAPACITY: usize = 100_000;

/// Turns away requests whose fencing token is older than the newest that was seen for their
/// resource. See [the module](crate::fencing) for what that protects from, and what not.
///
/// `K` finds the resource and `T` the token; requests for which `K` finds `None` pass without a
/// token. A resource of several names is checked against the newest token of each. What was seen
/// is shared by all clones of the layer and all services that it wraps.
///
/// `F` is the face of [`FencingError`](super::FencingError)s: [`Plain`] makes them part of the
/// service's error type; with the feature `http`, `http()` makes them responses, and with `tonic`,
/// `grpc()` makes them statuses.
///
/// ```
/// use std::convert::Infallible;
/// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
/// use tower_redlock::{FencingLayer, fencing::{Error, FencingError}};
///
/// struct Write { account: u64, token: Option<u64> }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error<Infallible>> {
/// let key = |write: &Write| format!("account:{}", write.account);
/// let mut storage = ServiceBuilder::new()
///     .layer(FencingLayer::new(key).token(|write: &Write| write.token))
///     .service(service_fn(|_: Write| async { Ok::<_, Infallible>(()) }));
/// storage.ready().await?.call(Write { account: 42, token: Some(8) }).await?;
/// let late = storage.ready().await?.call(Write { account: 42, token: Some(7) }).await;
/// assert!(matches!(late, Err(Error::Fencing(FencingError::Stale { .. }))));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it wraps a service"]
pub struct FencingLayer<K, T = DefaultHeader, F = Plain> {
    pub(super) key: K,
    pub(super) token: T,
    pub(super) memory: Arc<Memory>,
    pub(super) face: F,
}

/// [`FencingError`](super::FencingError)s are part of the service's error type:
/// [`fencing::Error`](super::Error).
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain(());

impl<K> FencingLayer<K> {
    /// A layer that fences what `key` finds in each request: a closure, or any
    /// [`ResourceKey`](crate::layer::ResourceKey). The names need not be those of the locks; each resource
    /// needs one that is its own.
    ///
    /// The token is found in the header `fencing-token`, in decimal digits, unless
    /// [`token`](Self::token) says otherwise.
    pub fn new(key: K) -> Self {
        let memory = Arc::new(Memory::new(DEFAULT_CAPACITY));
        Self { key, token: DefaultHeader::default(), memory, face: Plain(()) }
    }
}

impl<K, T, F> FencingLayer<K, T, F> {
    /// Where the token is found: a header's name ([`http`](https://docs.rs/http)'s `HeaderName`;
    /// decimal digits, once), a closure, or any [`TokenSource`](super::TokenSource).
    pub fn token<U>(self, token: U) -> FencingLayer<K, U, F> {
        let Self { key, memory, face, .. } = self;
        FencingLayer { key, token, memory, face }
    }

    /// How many resources are remembered. Default: 100,000, at some 300 bytes and the name for each.
    /// What was seen so far is forgotten; clones made before keep their own memory.
    ///
    /// Beyond it, the least recently used resource goes out first: that for which no request has
    /// come or ended for the longest time, those that were turned away included. Resources with a
    /// request running stay in any case, in addition if need be.
    ///
    /// A resource that went out accepts any token again, until a newer one is seen. So this must be
    /// more than the number of resources that are written within the longest time that a stale
    /// holder can be late; or let the store check the token in its own write, as
    /// [the module](crate::fencing) shows.
    pub fn capacity(mut self, resources: usize) -> Self {
        self.memory = Arc::new(Memory::new(resources));
        self
    }

    /// The same with another face.
    #[cfg(feature = "http")]
    pub(super) fn with_face<G>(self, face: G) -> FencingLayer<K, T, G> {
        let Self { key, token, memory, .. } = self;
        FencingLayer { key, token, memory, face }
    }
}

impl<S, K: Clone, T: Clone, F: Clone> Layer<S> for FencingLayer<K, T, F> {
    type Service = FencingService<S, K, T, F>;

    fn layer(&self, inner: S) -> Self::Service {
        FencingService::new(inner, self.clone())
    }
}
