//! Errors of a fencing layer.

use std::fmt;

use tokio::time::Instant;

use super::TokenError;
#[cfg(feature = "http")]
use crate::{
    error::LockError,
    reject::{RejectReason, Rejection},
};
use crate::{
    layer::KeyError, log_budget::MessageLevel, request_log::RequestLog, resource::Resource,
    token::FencingToken,
};

/// The error of a request that was refused or stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FencingError {
    /// A newer token was seen before: another holder has overtaken the request. The service was not
    /// called, and this token never passes again. Acquire the lock again, and read the data again
    /// that the write is based on.
    Stale {
        /// Token of the request.
        token: FencingToken,
        /// Newest token seen.
        newest: FencingToken,
    },
    /// A newer token arrived while the request ran. The request was dropped, and its outcome is unknown.
    Overtaken {
        /// Token of the request.
        token: FencingToken,
        /// Newest token seen.
        newest: FencingToken,
    },
    /// The request has no usable token. The service was not called.
    Token(TokenError),
    /// The request has no usable key. The service was not called.
    Key(KeyError),
}

impl FencingError {
    /// Returns whether the service was called, so that the outcome is unknown.
    pub const fn has_begun(&self) -> bool {
        matches!(self, Self::Overtaken { .. })
    }

    /// Creates the response to the request.
    #[cfg(feature = "http")]
    pub(super) fn reject<T>(&self, respond: impl FnOnce(Rejection<'_>) -> T) -> T {
        let lock_error;
        let reason = match self {
            Self::Stale { token, newest } => {
                RejectReason::StaleToken { token: *token, newest: *newest }
            }
            Self::Overtaken { token, newest } => {
                RejectReason::Overtaken { token: *token, newest: *newest }
            }
            Self::Token(TokenError::Missing(text)) => RejectReason::MissingToken(text),
            Self::Token(TokenError::Invalid(text)) => RejectReason::InvalidToken(text),
            Self::Key(error) => {
                lock_error = LockError::InvalidResource(error.clone().into());
                RejectReason::Lock(&lock_error)
            }
        };
        respond(Rejection::new(reason, None))
    }

    /// Logs a request that was refused before it ran: at DEBUG if the client is wrong, and if the lines of the
    /// layer are many.
    pub(super) fn log_refused(&self, resource: Option<&Resource>, log: &RequestLog) {
        let resource = resource.map(tracing::field::display);
        let outcome = match self {
            Self::Stale { .. } | Self::Overtaken { .. } => "stale-token",
            Self::Key(error) if error.is_setup() => "bad-settings",
            Self::Token(_) | Self::Key(_) => {
                crate::log::debug!(resource, error = %self, "request rejected");
                return;
            }
        };
        let (level, suppressed) = log.take(outcome, Instant::now());
        if level == MessageLevel::FirstInExcess {
            RequestLog::announce_excess(outcome);
        }
        match (self, level) {
            (Self::Key(error), MessageLevel::Own) => {
                crate::log::error!(resource, %error, suppressed, "request rejected");
            }
            (Self::Key(error), _) => crate::log::debug!(resource, %error, "request rejected"),
            (_, MessageLevel::Own) => {
                crate::log::warn!(resource, error = %self, suppressed, "fenced off");
            }
            (_, _) => crate::log::debug!(resource, error = %self, "fenced off"),
        }
    }

    /// Logs a request that was stopped while it ran. Its outcome is unknown, so each is logged.
    pub(super) fn log_overtaken(&self, resource: &Resource) {
        crate::log::warn!(%resource, error = %self, "fenced off");
    }
}

impl From<TokenError> for FencingError {
    fn from(error: TokenError) -> Self {
        Self::Token(error)
    }
}

impl From<KeyError> for FencingError {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

impl fmt::Display for FencingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale { token, newest } => {
                write!(f, "the fencing token {token} is stale: {newest} was seen before")
            }
            Self::Overtaken { token, newest } => write!(
                f,
                "the fencing token {newest} came while the request with {token} ran: it was \
                 stopped, and may have happened, or happened in part"
            ),
            Self::Token(error) => error.fmt(f),
            Self::Key(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FencingError {}

/// The error of a request through a [`FencingLayer`](super::FencingLayer) without `http()` or
/// `grpc()`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FencingServiceError<E> {
    /// The layer refused or stopped the request.
    Fencing(FencingError),
    /// The service was called, and failed.
    Service(E),
}

impl<E> From<FencingError> for FencingServiceError<E> {
    fn from(error: FencingError) -> Self {
        Self::Fencing(error)
    }
}

impl<E: fmt::Display> fmt::Display for FencingServiceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fencing(error) => error.fmt(f),
            Self::Service(error) => error.fmt(f),
        }
    }
}

/// Also implemented if `E` is a `Box<dyn Error + Send + Sync>`. For the chain of causes, see
/// [`GuardError`](crate::layer::GuardError#impl-Error-for-GuardError<E>).
impl<E: fmt::Debug + fmt::Display + 'static> std::error::Error for FencingServiceError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // `Display` already shows the inner error, so the chain continues below it.
        match self {
            Self::Fencing(error) => error.source(),
            Self::Service(error) => crate::error::source_of(error),
        }
    }
}
