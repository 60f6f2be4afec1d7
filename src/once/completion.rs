use std::{sync::Arc, time::Duration};

/// What becomes of a key when its work has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is done.
    Done,
    /// It is free.
    Free,
    /// Nobody knows how far the work came: it is held or free, as [`UnknownOutcome`](super::UnknownOutcome) says.
    Unknown {
        /// It is held for so long where that says "free".
        hold: Option<Duration>,
    },
}

/// Tells whether what the work made means that it is done. Closures are.
pub trait Completes<T> {
    /// Whether the key is done; else it is given back, for the next try.
    fn completes(&self, output: &T) -> bool;

    /// What becomes of the key: for outputs that know more than whether it is done.
    #[doc(hidden)]
    fn verdict(&self, output: &T) -> Verdict {
        if self.completes(output) { Verdict::Done } else { Verdict::Free }
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
