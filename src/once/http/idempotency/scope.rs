use crate::{
    layer::{KeyError, ResourceKey},
    resource::Resource,
};

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
