//! The result of a once request.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

#[cfg(feature = "http")]
use super::OnceError;
#[cfg(feature = "http")]
use crate::reject::RejectReason;
use crate::{error::LockError, protocol::Record, token::FencingToken};

/// The result of work that runs once.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Once<T> {
    /// The work ran, with this output. A majority of the nodes stores that it is done, unless the
    /// output does not [complete](super::OnceLayer::complete_when) the key: the key is then free.
    Ran(T),
    /// The work was done before. It did not run.
    #[non_exhaustive]
    AlreadyDone {
        /// Owner name of the client that did it.
        by: Arc<str>,
        /// Time of the record, by that client's wall clock.
        at: SystemTime,
        /// Fencing token under which it was done; zero without fencing.
        token: FencingToken,
        /// Time until the record expires.
        remaining: Duration,
    },
    /// Another client runs the work, or its outcome is unknown. It did not run here.
    #[non_exhaustive]
    InProgress {
        /// Estimated time until the other run ends, from the usual duration of such work in this
        /// process ([`LockError::Held`]). With `unknown`, the time until the key is free. `None` if
        /// not known.
        retry_after: Option<Duration>,
        /// Owner name of that client.
        by: Option<Arc<str>>,
        /// The work started and did not end, and its key is [held](super::UnknownOutcome::Hold).
        unknown: bool,
    },
    /// The work ran to success, but too few nodes have stored its record so far; the error is the reason.
    /// This process keeps the lock and sends the record until a quorum has stored it
    /// ([`Snapshot::owed`](crate::lock::Snapshot::owed)); meanwhile it answers further requests with
    /// [`AlreadyDone`](Self::AlreadyDone), and others find the work in progress. The work may run again if
    /// the process ends before, or the lock. [`LockError::Lost`]: the lock was no longer valid when the work
    /// ended, so it may have run elsewhere.
    RanUnrecorded(T, LockError),
}

impl<T> Once<T> {
    /// The output of the work, if it ran here.
    pub fn into_output(self) -> Option<T> {
        match self {
            Self::Ran(output) | Self::RanUnrecorded(output, _) => Some(output),
            Self::AlreadyDone { .. } | Self::InProgress { .. } => None,
        }
    }
}

/// The state of a key after its work ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyEnd {
    /// It is done, and a quorum stores that.
    Done,
    Free,
    /// The outcome is unknown.
    Unknown,
}

/// A [`Once`] with the record itself.
#[derive(Debug)]
pub(crate) enum OnceOutcome<T> {
    Ran(T, KeyEnd),
    Unrecorded(T, LockError),
    Done { record: Arc<Record>, remaining: Duration },
    Busy { retry_after: Option<Duration>, by: Option<Arc<str>>, unknown: bool },
}

impl<T> From<OnceOutcome<T>> for Once<T> {
    fn from(outcome: OnceOutcome<T>) -> Self {
        match outcome {
            OnceOutcome::Ran(output, _) => Self::Ran(output),
            OnceOutcome::Unrecorded(output, error) => Self::RanUnrecorded(output, error),
            OnceOutcome::Done { record, remaining } => Self::AlreadyDone {
                by: Arc::clone(&record.lease.owner),
                at: UNIX_EPOCH.checked_add(record.lease.since).unwrap_or(UNIX_EPOCH),
                token: FencingToken::new(record.lease.token),
                remaining,
            },
            OnceOutcome::Busy { retry_after, by, unknown } => {
                Self::InProgress { retry_after, by, unknown }
            }
        }
    }
}

/// How a request ends for its client. `X` is the response to a rejected one.
#[cfg(feature = "http")]
pub(super) enum RequestEnd<T, X> {
    Ran(T),
    Done(Arc<Record>),
    Rejected(X),
}

#[cfg(feature = "http")]
impl<T, X> RequestEnd<T, X> {
    /// Calls `reject` for a request that did not run, or was stopped.
    ///
    /// # Errors
    ///
    /// The service's own.
    pub(super) fn of<E>(
        ended: Result<OnceOutcome<T>, OnceError<E>>,
        reject: impl FnOnce(RejectReason<'_>) -> X,
    ) -> Result<Self, E> {
        Ok(match ended {
            // Also without a record: after an error the client would repeat the request.
            Ok(OnceOutcome::Ran(output, _) | OnceOutcome::Unrecorded(output, _)) => {
                Self::Ran(output)
            }
            Ok(OnceOutcome::Done { record, .. }) => Self::Done(record),
            Ok(OnceOutcome::Busy { retry_after, by, unknown }) => {
                Self::Rejected(reject(RejectReason::busy(unknown, retry_after, by.as_deref())))
            }
            Err(OnceError::Lock(error)) => Self::Rejected(reject(RejectReason::Lock(&error))),
            Err(OnceError::Work(error)) => return Err(error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LossCause;

    #[test]
    fn only_own_run_has_output() {
        let unknown = Once::InProgress { retry_after: None, by: None, unknown: true };
        assert_eq!(Once::Ran(7).into_output(), Some(7));
        let lost = LockError::lost(LossCause::Released);
        assert_eq!(Once::RanUnrecorded(7, lost).into_output(), Some(7));
        assert_eq!(Once::<u8>::into_output(unknown), None);
    }
}
