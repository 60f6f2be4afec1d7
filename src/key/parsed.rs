use std::{any::type_name, borrow::Cow, fmt, marker::PhantomData, str::FromStr};

use super::{
    RequestHead,
    names::Names,
    source::{Miss, sealed::Find},
};

/// Names read as values of a type, and written as it writes them. Made by
/// [`Key::parsed`](super::Key::parsed).
pub struct Parsed<S, T> {
    source: S,
    of: PhantomData<fn() -> T>,
}

impl<S, T> Parsed<S, T> {
    pub(super) const fn new(source: S) -> Self {
        Self { source, of: PhantomData }
    }
}

impl<S: Find, T: FromStr + fmt::Display> Find for Parsed<S, T> {
    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, Miss> {
        self.source.find(head)?.try_map(|name| match name.parse::<T>() {
            Ok(value) => Ok(Cow::Owned(value.to_string())),
            Err(_) => {
                Err(Miss::bad("what names the resource is not of the form that it must have"))
            }
        })
    }
}

impl<S: Clone, T> Clone for Parsed<S, T> {
    fn clone(&self) -> Self {
        Self { source: self.source.clone(), of: PhantomData }
    }
}

impl<S: Copy, T> Copy for Parsed<S, T> {}

impl<S: fmt::Debug, T> fmt::Debug for Parsed<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parsed")
            .field("source", &self.source)
            .field("as", &type_name::<T>())
            .finish()
    }
}
