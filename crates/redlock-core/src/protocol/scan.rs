//! Pages of the names that a node keeps.

use std::sync::Arc;

/// What a [`ScanOp`] enumerates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScanKind {
    /// Names of locks.
    Locks,
    /// Names of records of work that is done or was begun.
    Records,
    /// Jobs with a claim.
    Jobs,
}

impl ScanKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Locks, Self::Records, Self::Jobs];
}

/// The parameters of [`Op::Scan`](super::Op::Scan).
#[derive(Clone, Debug)]
pub struct ScanOp {
    /// What is enumerated.
    pub kind: ScanKind,
    /// The [`ScannedAnswer::next`] of the page before; `None` for the first page.
    pub cursor: Option<Arc<str>>,
    /// Number of keys to look at.
    pub count: u32,
}

impl ScanOp {
    /// Creates a request for the page after `cursor`.
    pub const fn new(kind: ScanKind, cursor: Option<Arc<str>>, count: u32) -> Self {
        Self { kind, cursor, count }
    }
}

/// The content of [`Answer::Scanned`](super::Answer::Scanned).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScannedAnswer {
    /// Names of this page: none, or more than the requested number. One may be repeated on a later
    /// page.
    pub names: Vec<Arc<str>>,
    /// The cursor of the next page; `None` after the last one.
    pub next: Option<Arc<str>>,
}

impl ScannedAnswer {
    /// Creates an answer from its parts.
    pub const fn new(names: Vec<Arc<str>>, next: Option<Arc<str>>) -> Self {
        Self { names, next }
    }
}
