//! A key of HTTP requests, and the methods that change it.

use std::{fmt::Display, marker::PhantomData, str::FromStr};

use http::{Method, Request};

use super::{
    BodyKey, BodySource, Hashed, HashedWith, Only, Optional, Parsed, Prefixed, RequestHead, Source,
    When, source::NoKey,
};
use crate::{
    layer::{KeyError, ResourceKey},
    resource::Resource,
};

/// A key for [`http::Request`]s with any body, or for their bodies (a [`BodyKey`]). Created by the
/// functions of [this module](crate::key).
///
/// The methods apply in the order in which they are called: `.prefixed("mail:").hashed()` hashes
/// the prefix too, `.hashed().prefixed("mail:")` leaves it readable.
#[derive(Clone, Copy, Debug)]
#[must_use = "a key does nothing until a layer uses it"]
pub struct Key<S> {
    source: S,
}

impl<S> Key<S> {
    pub(super) const fn new(source: S) -> Self {
        Self { source }
    }

    pub(super) const fn source(&self) -> &S {
        &self.source
    }
}

/// # Names
impl<S: BodySource> Key<S> {
    /// Parses each name as a `T`, and formats it by `T`'s `Display`. A request with an invalid name is
    /// rejected. Call it first.
    ///
    /// For handlers that take other types than text. For axum's `Path<u64>`, `42`, `042` and `+42` are one
    /// account; for a `Uuid`, upper-case and lower-case letters are equal. As text they are different
    /// names, and a client can evade the lock by another spelling.
    ///
    /// ```
    /// use tower_redlock::{key, layer::ResourceKey};
    ///
    /// let key = key::path_segment(1).parsed::<u64>().prefixed("account:");
    /// for path in ["/accounts/42", "/accounts/042", "/accounts/+42"] {
    ///     let request = http::Request::get(path).body(())?;
    ///     assert_eq!(key.key(&request).unwrap().unwrap().to_string(), "account:42");
    /// }
    /// assert!(key.key(&http::Request::get("/accounts/x").body(())?).is_err());
    /// # Ok::<(), http::Error>(())
    /// ```
    pub fn parsed<T>(self) -> Key<Parsed<S, T>>
    where
        T: FromStr + Display,
    {
        Key::new(Parsed { source: self.source, of: PhantomData })
    }

    /// Adds `prefix`, with its separator `:`, before each name. Keys of different kinds need different
    /// prefixes; otherwise account 42 and order 42 share a lock.
    ///
    /// In the text of the request, `:` becomes `%3A` and `%` becomes `%25`. So `eu:1` after `shop:` is
    /// another name than `1` after `shop:eu:`, and a client can't leave its prefix. The prefixes of earlier
    /// calls do not change.
    ///
    /// ```
    /// use tower_redlock::{key, layer::ResourceKey};
    ///
    /// let key = key::path_segment(1).prefixed("account:");
    /// let request = http::Request::get("/accounts/42").body(())?;
    /// assert_eq!(key.key(&request).unwrap().unwrap().to_string(), "account:42");
    /// # Ok::<(), http::Error>(())
    /// ```
    pub fn prefixed(self, prefix: impl Into<String>) -> Key<Prefixed<S>> {
        Key::new(Prefixed { source: self.source, prefix: prefix.into().into() })
    }

    /// Replaces each name by its SHA-256 in 64 hexadecimal digits: for long names, and for personal data
    /// that must not be readable on the servers or in logs.
    ///
    /// It does not protect values that can be guessed, such as e-mail addresses and telephone numbers: use
    /// [`hashed_with`](Self::hashed_with) for them.
    ///
    /// ```
    /// use tower_redlock::{key, layer::ResourceKey};
    ///
    /// let key = key::header("x-session").hashed().prefixed("session:");
    /// let request = http::Request::get("/").header("x-session", "abc").body(())?;
    /// let name = key.key(&request).unwrap().unwrap().to_string();
    /// assert!(name.starts_with("session:ba7816bf8f01cfea"));
    /// # Ok::<(), http::Error>(())
    /// ```
    pub fn hashed(self) -> Key<Hashed<S>> {
        Key::new(Hashed { source: self.source })
    }

    /// Replaces each name by its HMAC-SHA-256 under `secret`, in 64 hexadecimal digits: without the
    /// secret, a guess cannot be verified.
    ///
    /// All processes that lock the same resources need the same secret; 32 random bytes are enough. A
    /// process with another secret locks other names, also during a change of secrets.
    ///
    /// # Panics
    ///
    /// If the secret is empty.
    ///
    /// ```
    /// use tower_redlock::{key, layer::ResourceKey};
    ///
    /// # let secret = [7; 32];
    /// let key = key::query("email").hashed_with(secret).prefixed("user:");
    /// let request = http::Request::get("/?email=a%40example.org").body(())?;
    /// let name = key.key(&request).unwrap().unwrap().to_string();
    /// assert_eq!(name.len(), "user:".len() + 64);
    /// # Ok::<(), http::Error>(())
    /// ```
    pub fn hashed_with(self, secret: impl AsRef<[u8]>) -> Key<HashedWith<S>> {
        Key::new(HashedWith::new(self.source, secret.as_ref()))
    }
}

/// # Requests without a lock
impl<S: BodySource> Key<S> {
    /// Lets requests pass without a lock if the part that names the resource is missing. If it is empty or
    /// invalid, the request is still rejected.
    ///
    /// ```
    /// use tower_redlock::{key, layer::ResourceKey};
    ///
    /// let key = key::header("idempotency-key").optional();
    /// assert_eq!(key.key(&http::Request::new(())), Ok(None));
    /// let empty = http::Request::get("/").header("idempotency-key", "").body(())?;
    /// assert!(key.key(&empty).is_err());
    /// # Ok::<(), http::Error>(())
    /// ```
    pub fn optional(self) -> Key<Optional<S>> {
        Key::new(Optional { source: self.source })
    }

    /// Locks only for these methods; other requests pass without a lock. GET includes HEAD, which routers
    /// pass to the handler of GET.
    ///
    /// ```
    /// use http::Method;
    /// use tower_redlock::{key, layer::ResourceKey};
    ///
    /// let key = key::path_segment(0).only([Method::POST, Method::PUT]);
    /// assert_eq!(key.key(&http::Request::get("/a").body(())?), Ok(None));
    /// assert!(key.key(&http::Request::post("/a").body(())?).unwrap().is_some());
    /// # Ok::<(), http::Error>(())
    /// ```
    pub fn only(self, methods: impl IntoIterator<Item = Method>) -> Key<Only<S>> {
        Key::new(Only { source: self.source, methods: methods.into_iter().collect() })
    }

    /// Locks only if `predicate` returns `true`; other requests pass without a lock.
    ///
    /// ```
    /// use tower_redlock::{key, layer::ResourceKey};
    ///
    /// let key = key::path_segment(0).when(|head| !head.headers().contains_key("x-dry-run"));
    /// let dry = http::Request::post("/a").header("x-dry-run", "1").body(())?;
    /// assert_eq!(key.key(&dry), Ok(None));
    /// # Ok::<(), http::Error>(())
    /// ```
    pub fn when<P>(self, predicate: P) -> Key<When<S, P>>
    where
        P: Fn(&RequestHead<'_>) -> bool,
    {
        Key::new(When { source: self.source, predicate })
    }
}

impl<S: Source, B> ResourceKey<Request<B>> for Key<S> {
    fn key(&self, request: &Request<B>) -> Result<Option<Resource>, KeyError> {
        self.resource(&RequestHead::from(request))
    }
}

impl<S: BodySource> BodyKey for Key<S> {
    fn body_key(&self, head: &RequestHead<'_>, body: &[u8]) -> Result<Option<Resource>, KeyError> {
        self.resource(&head.with_body(body))
    }
}

impl<S: BodySource> Key<S> {
    fn resource(&self, head: &RequestHead<'_>) -> Result<Option<Resource>, KeyError> {
        match self.source.find(head) {
            Ok(names) => Ok(Some(names.into_resource()?)),
            Err(NoKey::LockNotNeeded) => Ok(None),
            Err(NoKey::Missing(error) | NoKey::Invalid(error)) => Err(error),
        }
    }
}
