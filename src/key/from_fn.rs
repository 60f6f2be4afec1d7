//! Keys from closures whose arguments need no type annotations.

use std::fmt;

use super::{
    Key, RequestHead,
    names::Names,
    source::{NoKey, sealed::Find},
};
use crate::layer::{IntoKey, KeyError};

/// Takes the name from a closure over the request's head. It returns what a closure may return as a
/// [`ResourceKey`](crate::layer::ResourceKey): names that it owns, or `None` if no lock is needed.
///
/// Unlike a bare closure, it needs no type for its argument, and has the methods of [`Key`]. With
/// [`optional`](Key::optional), requests with an error of [`KeyError::missing`] pass.
///
/// The closure may return a [`Resource`](crate::Resource) of this library, such as
/// [`of_job`](crate::Resource::of_job). After `prefixed`, or in a set of names, it is an ordinary
/// name.
///
/// ```
/// use axum::{Router, routing::post};
/// use tower_redlock::{OnceLayer, Redlock, key};
///
/// #[derive(Clone)]
/// struct Principal { tenant: u64 }
///
/// let tenant = key::from_fn(|head| Some(head.extensions().get::<Principal>()?.tenant.to_string()));
/// let once = OnceLayer::idempotency(Redlock::embedded(), "payments").scope(tenant.prefixed("tenant:"));
/// let app: Router = Router::new().route("/payments", post(async || "paid").route_layer(once));
/// # let _ = app;
/// ```
pub const fn from_fn<F, K>(name: F) -> Key<FromFn<F>>
where
    F: Fn(&RequestHead<'_>) -> K,
    K: IntoKey,
{
    Key::new(FromFn { name })
}

/// Takes the name from a closure over the request's head and its whole body: a [`BodyKey`](super::BodyKey),
/// like [`from_fn`] for the head alone.
///
/// ```
/// use tower_redlock::{OnceLayer, Redlock, key};
///
/// let first_line = key::from_body_fn(|_, body| {
///     let line = body.split(|byte| *byte == b'\n').next()?;
///     Some(String::from_utf8_lossy(line).into_owned())
/// });
/// # let _layer =
/// OnceLayer::by_body(Redlock::embedded(), "shop", first_line.hashed());
/// ```
pub const fn from_body_fn<F, K>(name: F) -> Key<FromBodyFn<F>>
where
    F: Fn(&RequestHead<'_>, &[u8]) -> K,
    K: IntoKey,
{
    Key::new(FromBodyFn { name })
}

/// Takes the names from a closure. Created by [`from_fn`].
#[derive(Clone, Copy)]
pub struct FromFn<F> {
    name: F,
}

/// Takes the names from a closure over the body. Created by [`from_body_fn`].
#[derive(Clone, Copy)]
pub struct FromBodyFn<F> {
    name: F,
}

fn names<'r>(found: impl IntoKey) -> Result<Names<'r>, NoKey> {
    match found.into_key() {
        Ok(Some(resource)) => Ok(Names::from(resource)),
        Ok(None) => Err(NoKey::LockNotNeeded),
        Err(error) if error.is_missing() => Err(NoKey::Missing(error)),
        Err(error) => Err(NoKey::Invalid(error)),
    }
}

impl<F, K> Find for FromFn<F>
where
    F: Fn(&RequestHead<'_>) -> K,
    K: IntoKey,
{
    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, NoKey> {
        names((self.name)(head))
    }
}

impl<F, K> Find for FromBodyFn<F>
where
    F: Fn(&RequestHead<'_>, &[u8]) -> K,
    K: IntoKey,
{
    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, NoKey> {
        let Some(body) = head.body() else {
            return Err(NoKey::Invalid(KeyError::setup("the body was not read")));
        };
        names((self.name)(head, body))
    }
}

impl<F> fmt::Debug for FromFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFn").finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for FromBodyFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromBodyFn").finish_non_exhaustive()
    }
}
