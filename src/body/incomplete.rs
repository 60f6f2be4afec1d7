//! A body that was not read to its end.

use std::{fmt, pin::Pin, time::Duration};

use http_body::Body;

use super::{Intact, WholeBody};

/// A body that was not read to its end, with what was read of it.
pub struct Incomplete<B: Body> {
    error: ReadBodyError<B::Error>,
    read: WholeBody,
    rest: Option<Pin<Box<B>>>,
}

impl<B: Body> Incomplete<B> {
    pub(super) const fn too_large(limit: usize, read: WholeBody, rest: Pin<Box<B>>) -> Self {
        Self { error: ReadBodyError::TooLarge { limit }, read, rest: Some(rest) }
    }

    pub(super) const fn crowded(limit: usize, read: WholeBody, rest: Pin<Box<B>>) -> Self {
        Self { error: ReadBodyError::Crowded { limit }, read, rest: Some(rest) }
    }

    pub(super) const fn timed_out(limit: Duration, read: WholeBody, rest: Pin<Box<B>>) -> Self {
        Self { error: ReadBodyError::TimedOut { limit }, read, rest: Some(rest) }
    }

    pub(super) const fn failed(read: WholeBody, error: B::Error) -> Self {
        Self { error: ReadBodyError::Body(error), read, rest: None }
    }

    /// Why it was not read to its end.
    pub const fn error(&self) -> &ReadBodyError<B::Error> {
        &self.error
    }

    /// Why it was not read to its end. Drops what was read, and the rest.
    pub fn into_error(self) -> ReadBodyError<B::Error> {
        self.error
    }

    /// The body as if nobody had begun to read it: what was read, then the rest of it, or its
    /// error.
    pub fn into_body(self) -> Intact<B> {
        match (self.error, self.rest) {
            (_, Some(rest)) => Intact::begun(self.read, rest),
            (ReadBodyError::Body(error), None) => Intact::failing(self.read, error),
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

/// Why a body was not read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadBodyError<E> {
    /// It has more data than is taken: for a request, 413.
    TooLarge {
        /// The most that is taken, in bytes.
        limit: usize,
    },
    /// There is no room for it beside the bodies of other requests that wait: 503. Only in layers,
    /// which have that room.
    Crowded {
        /// The most that bodies may take together, in bytes:
        /// [`max_waiting_body_bytes`](crate::RedlockBuilder::max_waiting_body_bytes).
        limit: usize,
    },
    /// It did not come in time: 408. Only in layers, which have a time-out.
    TimedOut {
        /// How long it may take.
        limit: Duration,
    },
    /// The body itself failed: for a request, 400, if anybody is still there to be answered.
    Body(E),
}

impl<E: fmt::Display> fmt::Display for ReadBodyError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { limit } => {
                write!(f, "the body is too large: at most {limit} bytes are taken")
            }
            Self::Crowded { limit } => {
                write!(f, "requests that wait hold too many bodies: at most {limit} bytes are held")
            }
            Self::TimedOut { limit } => write!(f, "the body did not come within {limit:?}"),
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
