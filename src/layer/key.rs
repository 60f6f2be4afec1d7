//! Keys of requests: the resource that a request is about.

use std::{borrow::Cow, fmt, sync::Arc};

use crate::resource::{Resource, ResourceError};

/// Finds the resource that a request is about.
///
/// Implemented by closures from `&Request` to a name, several names, a [`Resource`], or an `Option`
/// or `Result` of one. Names are owned. `None` lets the request, for example a read, pass without a
/// lock. An error rejects it.
///
/// Closures need the type of their argument: `|request: &http::Request<_>| …`. Without it, the compiler
/// infers a single lifetime, and refuses the layer: "implementation of `FnOnce` is not general enough".
/// Closures of `key::from_fn` (feature `http`) need no types.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key for `{Request}`",
    label = "its key does not say what to lock",
    note = "`OnceLayer::idempotency(…)` is a layer after `.scope(…)`, which says whose keys they are: a \
            key that finds the caller, or `Scope::none()` where all callers share them",
    note = "other keys are those of `tower_redlock::key`, or a closure `|request: &{Request}| …`"
)]
#[doc(alias = "KeyExtractor")]
pub trait ResourceKey<Request> {
    /// Returns the resource of a request; `None` if it needs no lock.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if the request has no usable key. The request does not run.
    fn key(&self, request: &Request) -> Result<Option<Resource>, KeyError>;

    /// Returns whether the request takes a shared lock, for
    /// [`RedlockLayer::shared_for`](crate::RedlockLayer::shared_for); `None`: as the layer is set.
    #[doc(hidden)]
    fn shared(&self, _request: &Request) -> Option<bool> {
        None
    }
}

impl<Request, F, K> ResourceKey<Request> for F
where
    F: Fn(&Request) -> K,
    K: IntoKey,
{
    fn key(&self, request: &Request) -> Result<Option<Resource>, KeyError> {
        self(request).into_key()
    }
}

/// A type that a closure may return as a key.
pub trait IntoKey {
    /// Converts to a resource, or to `None` for a request that needs no lock.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if this is not a valid resource.
    fn into_key(self) -> Result<Option<Resource>, KeyError>;
}

macro_rules! into_key {
    ($([$($generics:tt)*] $type:ty),* $(,)?) => {$(
        impl<$($generics)*> IntoKey for $type {
            fn into_key(self) -> Result<Option<Resource>, KeyError> {
                Ok(Some(Resource::try_from(self).map_err(ResourceError::from)?))
            }
        }
    )*};
}
into_key!(
    [] String,
    [] &'static str,
    [] Arc<str>,
    [] Cow<'static, str>,
    [] Resource,
    [T: Into<Arc<str>>] Vec<T>,
    [T: Into<Arc<str>>, const N: usize] [T; N],
);

impl<K: IntoKey> IntoKey for Option<K> {
    fn into_key(self) -> Result<Option<Resource>, KeyError> {
        self.map_or(Ok(None), K::into_key)
    }
}

impl<K: IntoKey, E: Into<KeyError>> IntoKey for Result<K, E> {
    fn into_key(self) -> Result<Option<Resource>, KeyError> {
        self.map_err(Into::into)?.into_key()
    }
}

/// The error of a request without a usable key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyError(ResourceError);

impl KeyError {
    /// Creates the error of a malformed key. The text is for the client: `the header x-account is empty`.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self(ResourceError::Key(reason.into()))
    }

    /// Creates the error of a missing key. The text is for the client. Layers may let such requests run,
    /// but not those with a malformed key ([`new`](Self::new)).
    pub fn missing(reason: impl Into<Cow<'static, str>>) -> Self {
        Self(ResourceError::Missing(reason.into()))
    }

    /// Creates an error of the service, whose setup provides no key for such requests. The text is
    /// for the log; the response is an internal error (500, `INTERNAL`).
    pub fn setup(reason: impl Into<Cow<'static, str>>) -> Self {
        Self(ResourceError::Setup(reason.into()))
    }

    /// Creates the error of a request for something that the service does not have. It is rejected with
    /// 404 (`UNIMPLEMENTED`).
    pub fn not_found(reason: impl Into<Cow<'static, str>>) -> Self {
        Self(ResourceError::NotFound(reason.into()))
    }

    /// Returns whether the key is [missing](Self::missing).
    pub const fn is_missing(&self) -> bool {
        matches!(self.0, ResourceError::Missing(_))
    }

    /// Returns whether it is an error of the [setup](Self::setup).
    pub const fn is_setup(&self) -> bool {
        matches!(self.0, ResourceError::Setup(_))
    }
}

impl From<ResourceError> for KeyError {
    fn from(error: ResourceError) -> Self {
        Self(error)
    }
}

impl From<KeyError> for ResourceError {
    fn from(error: KeyError) -> Self {
        error.0
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for KeyError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn key<K: IntoKey>(f: impl Fn(&u32) -> K) -> Result<Option<String>, KeyError> {
        Ok(f.key(&7)?.map(|resource| resource.to_string()))
    }

    #[test]
    fn errors_have_their_kinds() {
        let kinds = |error: KeyError| (error.is_missing(), error.is_setup());
        assert_eq!(kinds(KeyError::missing("x")), (true, false));
        assert_eq!(kinds(KeyError::setup("x")), (false, true));
        assert_eq!(kinds(KeyError::new("x")), (false, false));
    }

    #[test]
    fn closures_return_names_options_and_results() {
        let some = |text: &str| Ok(Some(text.to_owned()));

        assert_eq!(key(|n| format!("account:{n}")), some("account:7"));
        assert_eq!(key(|_| "fixed"), some("fixed"));
        assert_eq!(key(|_| ["b", "a"]), some("a + b"));
        assert_eq!(key(|_| vec!["b", "a"]), some("a + b"));
        assert_eq!(key(|n| (*n > 9).then_some("big")), Ok(None));
        assert_eq!(key(|_| Ok::<_, KeyError>("x")), some("x"));
        assert_eq!(key(|_| Ok::<_, KeyError>(None::<String>)), Ok(None));

        let error = KeyError::new("no account");
        assert_eq!(key(|_| Err::<String, _>(KeyError::new("no account"))), Err(error));
        assert_eq!(key(|_| String::new()), Err(ResourceError::EmptyName.into()));
        assert_eq!(key(|_| Vec::<String>::new()), Err(ResourceError::NoNames.into()));
    }
}
