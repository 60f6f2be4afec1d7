//! Hints from a node: releases, for waiters, and refused requests, for owners of idle leases.

use std::{fmt, sync::Arc};

/// A hint from a node. A waiter retries when it gets one; the owner of an idle lease releases it.
/// Hints may be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// The node reports releases of the name from now on; earlier releases were not reported.
    Listening,
    /// The node may miss releases from now on.
    Deaf,
    /// A lease released the name on this node.
    Freed {
        /// Number of processes that listen for the name on the node, if known.
        listening: Option<usize>,
    },
    /// Another client was refused a name whose lease may be idle. Sent at that client's first
    /// refusal.
    Asked {
        /// The name.
        name: Arc<str>,
    },
    /// No exclusive request waits any more for a name whose shared lease the owner has.
    Withdrawn {
        /// The name.
        name: Arc<str>,
    },
}

/// The receiver of a node's hints about one name, or for one owner.
#[derive(Clone)]
pub struct Hints(Arc<dyn Fn(Hint) + Send + Sync>);

impl Hints {
    /// Creates hints that are passed to a closure, which must not block or call the node.
    pub fn from_fn(f: impl Fn(Hint) + Send + Sync + 'static) -> Self {
        Self(Arc::new(f))
    }

    /// Sends a hint.
    pub fn send(&self, hint: Hint) {
        (self.0)(hint);
    }
}

impl fmt::Debug for Hints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hints").finish_non_exhaustive()
    }
}

/// A subscription to the releases of a name, which ends when dropped.
#[must_use = "hints stop once it is dropped"]
pub struct Subscription(
    #[expect(dead_code, reason = "dropped with it")] Option<Box<dyn Send + Sync>>,
);

impl Subscription {
    /// Returns the subscription of a node that sends no hints.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Returns a subscription that ends when `guard` is dropped.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self(Some(Box::new(guard)))
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}
