use std::borrow::Cow;

use super::{RequestHead, names::Names};
use crate::layer::KeyError;

/// Where a [`Key`](super::Key) takes its names from. Implemented by the keys of this module alone;
/// for one of your own, a closure is a [`ResourceKey`](crate::ResourceKey).
pub trait Source: sealed::Find {}

impl<S: sealed::Find> Source for S {}

pub(super) mod sealed {
    use super::{Miss, Names, RequestHead};

    /// Finds names in a request.
    pub trait Find {
        fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, Miss>;
    }
}

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
        Self::Absent(KeyError::new(reason))
    }

    /// The key is at the wrong place: nothing that any request can help.
    pub(super) fn misplaced(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Absent(KeyError::setup(reason))
    }

    pub(super) fn bad(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Bad(KeyError::new(reason))
    }
}
