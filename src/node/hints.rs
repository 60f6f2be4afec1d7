//! Hints from a node: of releases to a waiter, and of refused requests to a holder.

use std::{fmt, sync::Arc};

/// A node's hint to a waiter, which then tries again, or to the owner of leases that may linger. Hints
/// are not guaranteed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// Releases of the name are reported from now on; earlier ones were not.
    Listening,
    /// Releases may be missed from now on.
    Deaf,
    /// A lease released the name on this node.
    Freed {
        /// Number of processes that listen for the name on the node, if known.
        listening: Option<usize>,
    },
    /// Another client was refused a name whose lease may linger. Sent at its first refusal.
    Asked {
        /// The name.
        name: Arc<str>,
    },
}

/// The receiver of a node's hints about one name, or to one owner.
#[derive(Clone)]
pub struct Hints(HintTarget);

#[derive(Clone)]
enum HintTarget {
    Watch { node: usize, sink: Arc<dyn HintSink> },
    Fn(Arc<dyn Fn(Hint) + Send + Sync>),
}

pub(crate) trait HintSink: Send + Sync {
    fn hint(&self, node: usize, hint: Hint);
}

impl Hints {
    /// Creates hints that are passed to a closure, which must not block or call the node.
    pub fn from_fn(f: impl Fn(Hint) + Send + Sync + 'static) -> Self {
        Self(HintTarget::Fn(Arc::new(f)))
    }

    pub(crate) fn to_watch(sink: Arc<dyn HintSink>, node: usize) -> Self {
        Self(HintTarget::Watch { node, sink })
    }

    /// Sends a hint.
    pub fn send(&self, hint: Hint) {
        match &self.0 {
            HintTarget::Watch { node, sink } => sink.hint(*node, hint),
            HintTarget::Fn(f) => f(hint),
        }
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
