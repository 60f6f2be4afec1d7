use std::{fmt, sync::Arc};

/// What a node tells one that waits for a name. None of it is a promise: who is told tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// From now on releases of the name are told. What was released before was not.
    Listening,
    /// From now on they may be missed.
    Deaf,
    /// A lease gave the name back on this node.
    Freed {
        /// How many processes listen for the name there, if that is known.
        listening: Option<usize>,
    },
}

/// Where a node sends its hints about one name.
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
    /// Hints that go to a closure. It must not block, and not call the node.
    pub fn from_fn(f: impl Fn(Hint) + Send + Sync + 'static) -> Self {
        Self(HintTarget::Fn(Arc::new(f)))
    }

    pub(crate) fn to_watch(sink: Arc<dyn HintSink>, node: usize) -> Self {
        Self(HintTarget::Watch { node, sink })
    }

    /// Tells.
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

/// Keeps a node listening for a name until it is dropped.
#[must_use = "nothing is told any more once it is dropped"]
pub struct Subscription(
    #[expect(dead_code, reason = "dropped with it")] Option<Box<dyn Send + Sync>>,
);

impl Subscription {
    /// Of a node that tells nothing.
    pub const fn none() -> Self {
        Self(None)
    }

    /// A subscription that ends when `guard` is dropped.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self(Some(Box::new(guard)))
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}
