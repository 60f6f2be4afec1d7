use std::fmt;

use crate::error::LockError;

/// What ended guarded work that can fail by itself: the lock, or the work.
///
/// [`layer::Error`](crate::layer::Error) is the same type.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error<E> {
    /// The lock: it was not acquired and the work did not begin; or, with
    /// [`LockError::Lost`], it was lost while the work ran, and the outcome is unknown.
    Lock(LockError),
    /// The work ran under the lock, and failed.
    Service(E),
}

impl<E> From<LockError> for Error<E> {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl<E: fmt::Display> fmt::Display for Error<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) => error.fmt(f),
            Self::Service(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for Error<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // Transparent: Display already shows the inner error, so the chain goes on below it.
        match self {
            Self::Lock(error) => error.source(),
            Self::Service(error) => error.source(),
        }
    }
}
