use std::borrow::Cow;

use super::{RequestHead, names::Names};
use crate::layer::KeyError;

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
    /// What should name the resource is not there; an optional key lets the request pass.
    Absent(KeyError),
    /// It is there, and it is no name.
    Bad(KeyError),
}

impl Miss {
    pub(super) fn absent(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Absent(KeyError::missing(reason))
    }

    /// The key is at the wrong place: nothing that any request can help.
    pub(super) fn misplaced(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Absent(KeyError::setup(reason))
    }

    pub(super) fn bad(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Bad(KeyError::new(reason))
    }
}
