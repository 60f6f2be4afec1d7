//! Requests that take a shared lock, and others that take an exclusive one.

use std::fmt;

use super::{KeyError, RedlockLayer, ResourceKey};
use crate::{lock::LockOptions, resource::Resource};

/// The key of a layer whose closure decides by the request whether its lock is shared. Created by
/// [`RedlockLayer::shared_for`].
#[derive(Clone, Copy)]
pub struct SharedFor<K, F> {
    key: K,
    is_shared: F,
}

impl<K, P> RedlockLayer<K, P> {
    /// Replaces the key by one that decides which requests take a shared lock.
    pub(crate) fn with_shared<L>(self, with: impl FnOnce(K) -> L) -> RedlockLayer<L, P> {
        // The check of the settings is the one of a shared lock, which is the stricter one.
        let Self { redlock, key, options, protocol, name } =
            self.options(LockOptions::new().shared(true));
        RedlockLayer { redlock, key: with(key), options, protocol, name }
    }
}

/// # Readers and writers
impl<K> RedlockLayer<K> {
    /// Lets the requests for which the closure returns `true` run beside each other: they take a shared
    /// lock ([`LockOptions::shared`]). Others take an exclusive lock, and run alone. Default: all run alone,
    /// or as [`shared`](Self::shared) says, which this replaces.
    ///
    /// The closure is called for each request that has a key. It needs the type of its argument. After
    /// `http()` or `grpc()` it gets the request's head, and needs no type.
    ///
    /// ```
    /// use std::convert::Infallible;
    /// use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
    /// use tower_redlock::{LockContext, Redlock, RedlockLayer, layer::GuardError};
    ///
    /// enum Query { Read, Write(String) }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), GuardError<Infallible>> {
    /// let mut catalogue = ServiceBuilder::new()
    ///     .layer(
    ///         RedlockLayer::new(Redlock::embedded(), |_: &Query| "catalogue")
    ///             .shared_for(|query: &Query| matches!(query, Query::Read)),
    ///     )
    ///     .service(service_fn(|_: Query| async {
    ///         Ok::<_, Infallible>(LockContext::current().expect("runs under the lock").is_shared())
    ///     }));
    /// assert!(catalogue.ready().await?.call(Query::Read).await?);
    /// assert!(!catalogue.ready().await?.call(Query::Write("tea".into())).await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A request that is refused gets what a held lock gets. That may also happen to a reader while only
    /// readers run, if a writer [waits](Self::wait): the writer is next.
    ///
    /// [`build`](Self::build) refuses options that do not apply to shared locks, such as `slots` and
    /// `linger`. A key that finds a set of names is an error of the request if its lock is shared.
    ///
    /// # Panics
    ///
    /// A panic of the closure is one of the service's `call`, before any lock is requested.
    pub fn shared_for<Request, F>(self, is_shared: F) -> RedlockLayer<SharedFor<K, F>>
    where
        F: Fn(&Request) -> bool,
    {
        self.with_shared(|key| SharedFor { key, is_shared })
    }
}

impl<Request, K, F> ResourceKey<Request> for SharedFor<K, F>
where
    K: ResourceKey<Request>,
    F: Fn(&Request) -> bool,
{
    fn key(&self, request: &Request) -> Result<Option<Resource>, KeyError> {
        self.key.key(request)
    }

    fn shared(&self, request: &Request) -> Option<bool> {
        Some((self.is_shared)(request))
    }
}

impl<K: fmt::Debug, F> fmt::Debug for SharedFor<K, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedFor").field("key", &self.key).finish_non_exhaustive()
    }
}
