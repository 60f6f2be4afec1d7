use std::{borrow::Cow, sync::Arc};

use super::{
    RequestHead,
    decode::part,
    names::Names,
    source::{Miss, sealed::Find},
};

/// Names with a text before them. Made by [`Key::prefixed`](super::Key::prefixed).
#[derive(Clone, Debug)]
pub struct Prefixed<S> {
    source: S,
    prefix: Arc<str>,
}

impl<S> Prefixed<S> {
    pub(super) fn new(source: S, prefix: String) -> Self {
        Self { source, prefix: prefix.into() }
    }
}

impl<S: Find> Find for Prefixed<S> {
    const IS_JOINED: bool = true;

    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, Miss> {
        let names = self.source.find(head)?;
        Ok(names.map(|name| {
            let name = if S::IS_JOINED { name } else { part(name) };
            Cow::Owned([&*self.prefix, &*name].concat())
        }))
    }
}
