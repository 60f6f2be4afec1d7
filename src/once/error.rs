//! The error of a once request.

use std::{
    convert::Infallible,
    fmt::{self, Display},
};

use crate::{error::LockError, guard::GuardError, layer::AsResponse};

/// The error of a once request: the work is not known to be done.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum OnceError<E> {
    /// The lock of the key, or its record, failed. Nothing ran; except with [`LockError::Lost`]: the
    /// work was stopped, and its outcome is unknown.
    Lock(LockError),
    /// The work, or the check before it, failed. The key is free again, unless
    /// [`UnknownOutcome::Hold`](super::UnknownOutcome::Hold) holds it.
    Work(E),
}

impl<E> From<LockError> for OnceError<E> {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl<E> From<OnceError<E>> for GuardError<E> {
    fn from(error: OnceError<E>) -> Self {
        match error {
            OnceError::Lock(error) => Self::Lock(error),
            OnceError::Work(error) => Self::Work(error),
        }
    }
}

/// For the compiler's message if `.http()` is missing: see [`AsResponse`].
impl<E: AsResponse + Display> From<OnceError<E>> for Infallible {
    fn from(error: OnceError<E>) -> Self {
        E::never(&error)
    }
}

impl<E: Display> Display for OnceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) => error.fmt(f),
            Self::Work(error) => error.fmt(f),
        }
    }
}

/// Also where `E` is a `Box<dyn Error + Send + Sync>`; for the chain of causes, see
/// [`GuardError`](crate::layer::GuardError#impl-Error-for-GuardError<E>).
impl<E: fmt::Debug + Display + 'static> std::error::Error for OnceError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // Transparent: Display already shows the inner error.
        match self {
            Self::Lock(error) => error.source(),
            Self::Work(error) => crate::error::source_of(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{error::Error, time::Duration};

    use super::*;
    use crate::error::ReleaseError;

    type Boxed = Box<dyn Error + Send + Sync>;

    fn timed_out() -> LockError {
        let last = Box::new(ReleaseError::Foreign.into());
        LockError::WaitTimedOut { waited: Duration::ZERO, last }
    }

    #[test]
    fn is_transparent_for_both_errors() {
        let lock = OnceError::<Boxed>::from(timed_out());
        let work = OnceError::Work(Boxed::from(timed_out()));
        for error in [lock, work] {
            assert_eq!(error.to_string(), timed_out().to_string());
            assert!(error.source().is_some_and(<dyn Error>::is::<LockError>));
        }
    }
}
