//! A body that was not read to its end.

use std::{fmt, pin::Pin, time::Duration};

use http_body::Body;

use super::{RestoredBody, WholeBody};
use crate::{
    error::LockError,
    resource::{BodyFault, ResourceError},
};

/// A body that was not read to its end, with the data that was read.
pub struct Incomplete<B: Body> {
    error: ReadBodyError<B::Error>,
    read: WholeBody,
    rest: Option<Pin<Box<B>>>,
}

impl<B: Body> Incomplete<B> {
    pub(super) const fn new(
        error: ReadBodyError<B::Error>,
        read: WholeBody,
        rest: Option<Pin<Box<B>>>,
    ) -> Self {
        Self { error, read, rest }
    }

    /// Returns why the body was not read to its end.
    pub const fn error(&self) -> &ReadBodyError<B::Error> {
        &self.error
    }

    /// Returns the error of a request that is rejected for this reason.
    pub(crate) const fn lock_error(&self) -> LockError {
        LockError::InvalidResource(ResourceError::Body(match self.error {
            ReadBodyError::TooLarge { limit } => BodyFault::TooLarge { limit },
            ReadBodyError::Crowded { limit } => BodyFault::Crowded { limit },
            ReadBodyError::TimedOut { limit } => BodyFault::TimedOut { limit },
            ReadBodyError::Body(_) => BodyFault::Failed,
        }))
    }

    /// Returns why the body was not read to its end, and drops the body.
    pub fn into_error(self) -> ReadBodyError<B::Error> {
        self.error
    }

    /// Returns a body that yields the data that was read, then the rest or the error.
    pub fn into_body(self) -> RestoredBody<B> {
        match (self.error, self.rest) {
            (_, Some(rest)) => RestoredBody::begun(self.read, rest),
            (ReadBodyError::Body(error), None) => RestoredBody::failing(self.read, error),
            (_, None) => self.read.into(),
        }
    }
}

impl<B: Body> fmt::Debug for Incomplete<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.error {
            ReadBodyError::TooLarge { .. } => "too large",
            ReadBodyError::Crowded { .. } => "crowded",
            ReadBodyError::TimedOut { .. } => "timed out",
            ReadBodyError::Body(_) => "failed",
        };
        f.debug_struct("Incomplete")
            .field("reason", &reason)
            .field("read", &self.read)
            .finish_non_exhaustive()
    }
}

/// The error of a body that was not read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadBodyError<E> {
    /// The body exceeds the limit: for a request, 413.
    TooLarge {
        /// Maximum size, in bytes.
        limit: usize,
    },
    /// The bodies of other waiting requests take too much memory: 503. Only in layers.
    Crowded {
        /// Maximum size of all these bodies, in bytes:
        /// [`max_waiting_body_bytes`](crate::RedlockBuilder::max_waiting_body_bytes).
        limit: usize,
    },
    /// The body was not received in time: 408. Only in layers.
    TimedOut {
        /// The timeout.
        limit: Duration,
    },
    /// The body failed: for a request, 400.
    Body(E),
}

impl<E: fmt::Display> fmt::Display for ReadBodyError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { limit } => {
                write!(f, "the body is too large: at most {limit} bytes are accepted")
            }
            Self::Crowded { limit } => {
                write!(
                    f,
                    "the bodies of waiting requests take too much memory: at most {limit} bytes are allowed"
                )
            }
            Self::TimedOut { limit } => write!(f, "the body was not received within {limit:?}"),
            Self::Body(error) => write!(f, "the body failed: {error}"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for ReadBodyError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::TooLarge { .. } | Self::Crowded { .. } | Self::TimedOut { .. } => None,
            Self::Body(error) => error.source(),
        }
    }
}
