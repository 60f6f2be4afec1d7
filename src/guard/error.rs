//! The error of guarded work.

use std::fmt;

use crate::error::{LockError, source_of};

/// The error of guarded work that can itself fail: an error of the lock, or of the work.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GuardError<E> {
    /// The lock was not acquired, and the work did not start. With [`LockError::Lost`], the lock was lost
    /// while the work ran, and the outcome is unknown.
    Lock(LockError),
    /// The work ran under the lock, and failed.
    Work(E),
}

impl<E> From<LockError> for GuardError<E> {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl<E: fmt::Display> fmt::Display for GuardError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) => error.fmt(f),
            Self::Work(error) => error.fmt(f),
        }
    }
}

/// Also implemented if `E` is a `Box<dyn Error + Send + Sync>`, as inside tower's `Buffer` or
/// `Timeout`. `Display` shows the inner error. The chain of causes continues below it for such
/// boxes, [`LockError`], [`std::io::Error`] and the errors of axum and tonic; the chain of another
/// `E` is reached through [`Work`](GuardError::Work).
impl<E: fmt::Debug + fmt::Display + 'static> std::error::Error for GuardError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // `Display` already shows the inner error, so the chain continues below it.
        match self {
            Self::Lock(error) => error.source(),
            Self::Work(error) => source_of(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[derive(Debug)]
    struct Outer(fmt::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("outer")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn is_transparent_for_services_error() {
        let error = GuardError::Work(Box::<dyn Error + Send + Sync>::from(Outer(fmt::Error)));
        assert_eq!(error.to_string(), "outer");
        assert!(error.source().is_some_and(<dyn Error>::is::<fmt::Error>));
    }
}
