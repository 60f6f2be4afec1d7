//! The traits behind keys, and why a key finds no name.

use std::borrow::Cow;

use super::{RequestHead, names::Names};
use crate::{
    layer::{IntoKey, KeyError},
    resource::Resource,
};

/// Where a [`Key`](super::Key) takes its names from that needs no more than a request's head.
/// Implemented by the keys of this module alone; for one of your own, a closure is a
/// [`ResourceKey`](crate::layer::ResourceKey).
pub trait Source: BodySource + sealed::OfHead {}

impl<S: sealed::Find + sealed::OfHead> Source for S {}

/// Where a [`Key`](super::Key) takes its names from that may need the request's whole body; every
/// [`Source`] is one. Implemented by the keys of this module alone; for one of your own, a closure
/// is a [`BodyKey`](super::BodyKey).
pub trait BodySource: sealed::Find {}

impl<S: sealed::Find> BodySource for S {}

/// Finds the resource that a request is about, with the help of its body.
///
/// Implemented by every [`Key`](super::Key), and by closures from the request's head and its whole body
/// to what a [`ResourceKey`](crate::layer::ResourceKey) closure returns. The text of an error goes to the
/// client: it should not quote the body. Closures need the types of their arguments, as below, or
/// [`from_body_fn`](super::from_body_fn).
///
/// ```
/// use tower_redlock::key::{BodyKey, RequestHead};
///
/// // The first line of the body.
/// let key = |_: &RequestHead<'_>, body: &[u8]| {
///     body.split(|byte| *byte == b'\n').next().map(|line| String::from_utf8_lossy(line).into_owned())
/// };
/// let request = http::Request::new(());
/// let resource = key.body_key(&RequestHead::from(&request), b"evt_1\nrest").unwrap();
/// assert_eq!(resource.unwrap().to_string(), "evt_1");
/// ```
pub trait BodyKey {
    /// The resource of a request; `None` if it needs none.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if the request has no usable key; it does not run then.
    fn body_key(&self, head: &RequestHead<'_>, body: &[u8]) -> Result<Option<Resource>, KeyError>;
}

impl<F, K> BodyKey for F
where
    F: Fn(&RequestHead<'_>, &[u8]) -> K,
    K: IntoKey,
{
    fn body_key(&self, head: &RequestHead<'_>, body: &[u8]) -> Result<Option<Resource>, KeyError> {
        self(head, body).into_key()
    }
}

pub(super) mod sealed {
    use super::{Miss, Names, RequestHead};

    /// Finds names in a request.
    pub trait Find {
        /// Whether the names are made of a prefix or of parts, in which `:` and `%` of what the request
        /// said are escaped already.
        const IS_JOINED: bool = false;

        fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, Miss>;
    }

    /// Does so without the body.
    pub trait OfHead {}
}

macro_rules! of_head {
    ($([$($generics:tt)*] $source:ty),* $(,)?) => {$(
        impl<$($generics)*> sealed::OfHead for $source {}
    )*};
}
of_head!(
    [] super::Header,
    [] super::IdempotencyKey,
    [] super::MethodAndPath,
    [] super::PathSegment,
    [] super::Query,
    [F] super::FromFn<F>,
    [T, F] super::Extension<T, F>,
    [S: sealed::OfHead] super::Hashed<S>,
    [S: sealed::OfHead] super::HashedWith<S>,
    [S: sealed::OfHead] super::Only<S>,
    [S: sealed::OfHead] super::Optional<S>,
    [S: sealed::OfHead, T] super::Parsed<S, T>,
    [S: sealed::OfHead] super::Prefixed<S>,
    [S: sealed::OfHead, P] super::When<S, P>,
);
#[cfg(feature = "axum")]
of_head!([] super::PathParam);

/// Why there are no names.
#[derive(Debug)]
pub enum Miss {
    /// The request needs no lock.
    Unguarded,
    /// The key is missing; an optional one lets the request pass.
    Absent(KeyError),
    /// The key is malformed.
    Bad(KeyError),
}

impl Miss {
    pub(super) fn absent(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Absent(KeyError::missing(reason))
    }

    /// The key is at the wrong place: an error of the setup.
    pub(super) fn misplaced(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Absent(KeyError::setup(reason))
    }

    pub(super) fn bad(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Bad(KeyError::new(reason))
    }
}
