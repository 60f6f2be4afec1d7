//! Whose keys they are.

use super::Idempotency;
use crate::{
    layer::{KeyError, ResourceKey},
    once::{OnceLayer, http::Http},
    resource::Resource,
};

impl<C, R, St> OnceLayer<Unscoped, C, Http<R, Idempotency<St>>> {
    /// Whose keys they are: the authenticated principal of a request, found by a closure or any
    /// [`ResourceKey`](crate::layer::ResourceKey). A key of one principal means nothing to another.
    ///
    /// Whoever sends a request must not be able to choose it: what finds it out (a layer that checks
    /// credentials, and puts the principal into the request's extensions, say) belongs outside of
    /// this layer. A request where it is `None` passes as it is, and one where it is an error is turned
    /// away, also with [`Missing::Run`](crate::once::http::Missing). [`Scope::none`]
    /// says that all callers share their keys.
    ///
    /// A closure tells the type of its argument, or is given to [`key::from_fn`](crate::key::from_fn):
    ///
    /// ```
    /// use axum::{Router, extract::Request, routing::post};
    /// use tower_redlock::{OnceLayer, Redlock, key};
    ///
    /// # let redlock = Redlock::embedded();
    /// let pay = post(async || "paid");
    /// let app: Router = Router::new()
    ///     .route("/payments", pay.clone())
    ///     .route_layer(
    ///         OnceLayer::idempotency(redlock.clone(), "payments")
    ///             .scope(|request: &Request<_>| request.extensions().get::<String>().cloned()),
    ///     )
    ///     .route("/refunds", pay.layer(
    ///         OnceLayer::idempotency(redlock, "refunds")
    ///             .scope(key::from_fn(|head| head.extensions().get::<String>().cloned())),
    ///     ));
    /// # let _ = app;
    /// ```
    ///
    /// It is one name. A set of names (`[tenant, user]`, or [`key::all`](crate::key::all)) is refused: it has no
    /// order, so tenant `a` with user `b` would share its keys with tenant `b` and user `a`. For a scope of several
    /// parts there is [`key::joined`](crate::key::joined), which keeps them apart:
    ///
    /// ```
    /// use tower_redlock::{OnceLayer, Redlock, key};
    ///
    /// #[derive(Clone)]
    /// struct Principal { tenant: String, user: String }
    ///
    /// let tenant = key::extension(|caller: &Principal| caller.tenant.clone());
    /// let user = key::extension(|caller: &Principal| caller.user.clone());
    /// let once = OnceLayer::idempotency(Redlock::embedded(), "payments")
    ///     .scope(key::joined((tenant, user)));
    /// # use axum::{Router, routing::post};
    /// # let app: Router = Router::new().route("/payments", post(async || "paid")).route_layer(once);
    /// # let _ = app;
    /// ```
    ///
    /// It may be read on the nodes and in logs: see [`hashed`](crate::key::Key::hashed).
    ///
    /// The host that a request was sent to is part of the scope too: see [`any_host`](Self::any_host).
    pub fn scope<K>(self, scope: K) -> OnceLayer<K, C, Http<R, Idempotency<St>>> {
        self.with_key(scope)
    }
}

/// Keys of `Idempotency-Key` that all callers share: see [`Scope::none`].
#[derive(Clone, Copy, Debug)]
pub struct Scope(());

impl Scope {
    /// No scope: all callers share their keys, and **whoever sends the key of another, with the same
    /// request, is answered with the other's response**. For services with one caller only, or where
    /// every response is public.
    pub const fn none() -> Self {
        Self(())
    }
}

/// A name that no principal should have.
const NONE: &str = "(no scope)";

impl<Request> ResourceKey<Request> for Scope {
    fn key(&self, _: &Request) -> Result<Option<Resource>, KeyError> {
        Ok(Some(Resource::try_from(NONE)?))
    }
}

/// Implemented by nothing: the impl below makes the compiler show the message of [`ResourceKey`].
pub trait Scoped {}

impl<Request: Scoped> ResourceKey<Request> for Unscoped {
    fn key(&self, _: &Request) -> Result<Option<Resource>, KeyError> {
        Err(KeyError::setup("the layer was not told whose keys they are"))
    }
}

/// A layer for `Idempotency-Key` that was not told whose keys they are: it is no layer before
/// [`scope`](crate::OnceLayer::scope) says so.
#[derive(Clone, Debug)]
pub struct Unscoped(pub(super) ());
