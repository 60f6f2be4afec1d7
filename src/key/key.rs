//! A key of HTTP requests, and the methods that change it.

use std::{fmt::Display, marker::PhantomData, str::FromStr};

use http::{Method, Request};

use super::{
    BodyKey, BodySource, Hashed, HashedWith, Only, Optional, Parsed, Prefixed, RequestHead, Source,
    When, source::Miss,
};
use crate::{
    layer::{KeyError, ResourceKey},
    resource::Resource,
};

/// A ready-made key for [`http::Request`]s with any body, or for their bodies (a [`BodyKey`]). Made
/// by the functions of [this module](crate::key).
///
/// The methods apply in the order in which they are called: `.prefixed("mail:").hashed()` hashes
/// the prefix too, `.hashed().prefixed("mail:")` leaves it readable.
#[derive(Clone, Copy, Debug)]
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

impl<S: BodySource> Key<S> {
    /// Reads each name as a `T`, and writes it as `T` does; a request with another one is turned
    /// away. To be called first.
    ///
    /// For handlers that take more than text: for axum's `Path<u64>`, `42`, `042` and `+42` are one
    /// account, and for a `Uuid` upper-case and lower-case letters. As text they are different names, and
    /// a client can choose the spelling to evade the lock.
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

    /// Puts `prefix` before each name, as it is: with the separator that it shall have, `:`. Keys of
    /// different kinds need different prefixes, or account 42 and order 42 share a lock.
    ///
    /// In what the request said, `:` becomes `%3A` and `%` becomes `%25`. So `eu:1` behind `shop:` is
    /// another name than `1` behind `shop:eu:`, and a client can't leave its prefix. Text that earlier
    /// calls of this method put there stays as it is.
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

    /// Replaces each name by its SHA-256 in 64 hexadecimal digits: for names that are long, or that
    /// are personal data and not to be read on the servers or in logs.
    ///
    /// That does not protect values that can be guessed, such as e-mail addresses and telephone numbers.
    /// For those: [`hashed_with`](Self::hashed_with).
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
    /// All processes that lock the same resources need the same secret; 32 random bytes are
    /// enough. A process with another one, during a change of secrets too, locks other names.
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

    /// Lets a request pass without a lock that lacks what should name the resource. One that has
    /// it, and where it is empty or no name, is still turned away.
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

    /// Locks for these methods only; requests with others pass without a lock. GET includes HEAD,
    /// which routers answer by the handler of GET.
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

    /// Locks only where `predicate` says so; other requests pass without a lock.
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
            Err(Miss::Unguarded) => Ok(None),
            Err(Miss::Absent(error) | Miss::Bad(error)) => Err(error),
        }
    }
}
