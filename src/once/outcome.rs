use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{error::LockError, protocol::Record, token::FencingToken};

/// What came of work that is to be done once.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Once<T> {
    /// It ran, and this is what it made. A majority of the nodes keeps that it is done; unless this
    /// is an output that does not [complete](super::OnceLayer::complete_when) the key, which is free
    /// then.
    Ran(T),
    /// It was done before. It did not run.
    #[non_exhaustive]
    AlreadyDone {
        /// Who did it, as that client calls itself.
        by: Arc<str>,
        /// When it was recorded, by the wall clock of who did it.
        at: SystemTime,
        /// The fencing token under which it was done; zero without fencing.
        token: FencingToken,
        /// For how long still that is remembered.
        remaining: Duration,
    },
    /// Somebody does it, or nobody knows what became of it. It did not run here.
    #[non_exhaustive]
    InProgress {
        /// When to ask again: an estimate from the usual duration of work with such keys in this
        /// process ([`LockError::Held`]). With `unknown`, when it is free by itself. `None` where that is not known.
        retry_after: Option<Duration>,
        /// Who, as that client calls itself.
        by: Option<Arc<str>>,
        /// It was begun and stopped in the middle, and the key is
        /// [held](super::UnknownOutcome::Hold) for somebody to decide.
        unknown: bool,
    },
    /// It ran to success, but too few nodes keep that it is done: it may run again, or may run again
    /// somewhere else at this moment. The error says why: [`LockError::Lost`] where the lock was over
    /// when the work ended, so that nobody may say that it is done.
    RanUnrecorded(T, LockError),
}

impl<T> Once<T> {
    /// What the work made, where it ran here.
    pub fn into_output(self) -> Option<T> {
        match self {
            Self::Ran(output) | Self::RanUnrecorded(output, _) => Some(output),
            Self::AlreadyDone { .. } | Self::InProgress { .. } => None,
        }
    }
}

/// The same, for the faces: with the record itself.
#[derive(Debug)]
pub(crate) enum Outcome<T> {
    Ran(T),
    Unrecorded(T, LockError),
    Done { record: Arc<Record>, remaining: Duration },
    Busy { retry_after: Option<Duration>, by: Option<Arc<str>>, unknown: bool },
}

impl<T> From<Outcome<T>> for Once<T> {
    fn from(outcome: Outcome<T>) -> Self {
        match outcome {
            Outcome::Ran(output) => Self::Ran(output),
            Outcome::Unrecorded(output, error) => Self::RanUnrecorded(output, error),
            Outcome::Done { record, remaining } => Self::AlreadyDone {
                by: Arc::clone(&record.lease.owner),
                at: UNIX_EPOCH.checked_add(record.lease.since).unwrap_or(UNIX_EPOCH),
                token: FencingToken::new(record.lease.token),
                remaining,
            },
            Outcome::Busy { retry_after, by, unknown } => {
                Self::InProgress { retry_after, by, unknown }
            }
        }
    }
}
