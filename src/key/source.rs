//! The traits of keys, and the errors of a key without a name.

use std::borrow::Cow;

use super::{RequestHead, names::Names};
use crate::{
    layer::{IntoKey, KeyError},
    resource::Resource,
};

/// A source of names for a [`Key`](super::Key) that needs only a request's head. Sealed; for other sources,
/// a closure is a [`ResourceKey`](crate::layer::ResourceKey).
pub trait Source: BodySource + sealed::HeadOnly {}

impl<S: sealed::Find + sealed::HeadOnly> Source for S {}

/// A source of names for a [`Key`](super::Key) that may need the request's whole body. Every [`Source`] is
/// one. Sealed; for other sources, a closure is a [`BodyKey`](super::BodyKey).
pub trait BodySource: sealed::Find {}

impl<S: sealed::Find> BodySource for S {}

/// Finds the resource that a request is about, by its head and body.
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
    /// Returns the resource of a request; `None` if it needs no lock.
    ///
    /// # Errors
    ///
    /// [`KeyError`] if the request has no usable key. The request does not run.
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
    use super::{Names, NoKey, RequestHead};

    /// Finds names in a request. A source that needs only the head is also listed in `head_only.rs`;
    /// without that, its key reads the whole body.
    pub trait Find {
        /// Whether `:` and `%` of the request's text are already escaped, as the names have a
        /// prefix or parts.
        const IS_ESCAPED: bool = false;

        fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, NoKey>;
    }

    /// A [`Find`] that does not read the body.
    pub trait HeadOnly {}
}

/// The reason for a request without names.
#[derive(Debug)]
pub enum NoKey {
    /// The request needs no lock.
    LockNotNeeded,
    /// The key is missing; an optional key lets the request pass.
    Missing(KeyError),
    /// The key is malformed.
    Invalid(KeyError),
}

impl NoKey {
    pub(super) fn missing(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Missing(KeyError::missing(reason))
    }

    /// The layer is at a position where the key is never found, which is an error of the setup.
    pub(super) fn misplaced(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Missing(KeyError::setup(reason))
    }

    pub(super) fn invalid(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Invalid(KeyError::new(reason))
    }
}
