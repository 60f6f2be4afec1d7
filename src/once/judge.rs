use std::sync::Arc;

/// Tells whether what the work made means that it is done. Closures are.
pub trait Completes<T> {
    /// Whether the key is done; else it is given back, for the next try.
    fn completes(&self, output: &T) -> bool;

    /// Whether the outcome of work that does not complete the key is unknown: the key is dealt with
    /// by [`Unknown`](super::Unknown) then. Else it is free.
    #[doc(hidden)]
    fn is_unknown(&self, _output: &T) -> bool {
        false
    }

    /// Whether a record's payload is the last word of whoever did the work, as long as that one holds
    /// the lock still.
    #[doc(hidden)]
    fn is_settled(&self, _payload: &[u8]) -> bool {
        true
    }

    /// What is kept with the record.
    #[doc(hidden)]
    fn payload(&self, _output: &T) -> Arc<[u8]> {
        Arc::from([])
    }
}

/// All that is `Ok` is done; over HTTP and gRPC, each face has its own rule for the status.
#[derive(Clone, Copy, Debug, Default)]
pub struct Always(pub(super) ());

impl<T> Completes<T> for Always {
    fn completes(&self, _: &T) -> bool {
        true
    }
}

impl<T, F: Fn(&T) -> bool> Completes<T> for F {
    fn completes(&self, output: &T) -> bool {
        self(output)
    }
}
