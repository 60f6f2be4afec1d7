use std::{fmt, sync::Arc};

use http::Method;

use super::{
    RequestHead,
    names::Names,
    source::{Miss, sealed::Find},
};

/// A key that a request may lack. Made by [`Key::optional`](super::Key::optional).
#[derive(Clone, Copy, Debug)]
pub struct Optional<S> {
    source: S,
}

impl<S> Optional<S> {
    pub(super) const fn new(source: S) -> Self {
        Self { source }
    }
}

impl<S: Find> Find for Optional<S> {
    const IS_JOINED: bool = S::IS_JOINED;

    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, Miss> {
        self.source.find(head).map_err(|miss| match miss {
            Miss::Absent(_) => Miss::Unguarded,
            miss => miss,
        })
    }
}

/// A key for some methods. Made by [`Key::only`](super::Key::only).
#[derive(Clone, Debug)]
pub struct Only<S> {
    source: S,
    methods: Arc<[Method]>,
}

impl<S> Only<S> {
    pub(super) fn new(source: S, methods: impl IntoIterator<Item = Method>) -> Self {
        Self { source, methods: methods.into_iter().collect() }
    }
}

impl<S: Find> Find for Only<S> {
    const IS_JOINED: bool = S::IS_JOINED;

    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, Miss> {
        let is_one = |method: &Method| self.methods.contains(method);
        if is_one(head.method()) || is_one(head.handled_as()) {
            self.source.find(head)
        } else {
            Err(Miss::Unguarded)
        }
    }
}

/// A key for some requests. Made by [`Key::when`](super::Key::when).
#[derive(Clone, Copy)]
pub struct When<S, P> {
    source: S,
    predicate: P,
}

impl<S, P> When<S, P> {
    pub(super) const fn new(source: S, predicate: P) -> Self {
        Self { source, predicate }
    }
}

impl<S, P> Find for When<S, P>
where
    S: Find,
    P: Fn(&RequestHead<'_>) -> bool,
{
    const IS_JOINED: bool = S::IS_JOINED;

    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, Miss> {
        if (self.predicate)(head) { self.source.find(head) } else { Err(Miss::Unguarded) }
    }
}

impl<S: fmt::Debug, P> fmt::Debug for When<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("When").field("source", &self.source).finish_non_exhaustive()
    }
}
