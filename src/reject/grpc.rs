//! The gRPC status of a rejected request.

use std::{collections::HashMap, time::Duration};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::{
    RejectReason, Rejection,
    outcome::grpc::{DOMAIN, LOCK_LOST},
};
use crate::{error::LockError, guard::GuardError, resource::ResourceError};

impl Rejection<'_> {
    /// Makes the default status over gRPC. [`RedlockLayer::grpc`](crate::RedlockLayer::grpc),
    /// [`OnceLayer::grpc`](crate::OnceLayer::grpc) and [`FencingLayer::grpc`](crate::FencingLayer::grpc)
    /// list the codes. Its text names no node and no owner.
    pub fn grpc_status(&self) -> Status {
        let (code, reason) = match self.reason() {
            RejectReason::Lock(error) => match error.root() {
                LockError::Held { slots, .. } if !slots.is_empty() => {
                    (Code::ResourceExhausted, Some("FULL"))
                }
                LockError::Held { .. } => (Code::Aborted, None),
                LockError::Lost { .. } => (Code::Unknown, Some(LOCK_LOST)),
                LockError::InvalidRequest(_)
                | LockError::InvalidResource(ResourceError::Setup(_)) => (Code::Internal, None),
                LockError::InvalidResource(ResourceError::NotFound(_)) => {
                    (Code::Unimplemented, None)
                }
                LockError::InvalidResource(_) => (Code::InvalidArgument, None),
                _ => (Code::Unavailable, None),
            },
            RejectReason::InProgress { .. } => (Code::Aborted, Some("IN_PROGRESS")),
            RejectReason::UnknownOutcome { .. } => {
                (Code::FailedPrecondition, Some("UNKNOWN_OUTCOME"))
            }
            RejectReason::KeyReused => (Code::InvalidArgument, Some("KEY_REUSED")),
            RejectReason::NotKept { .. } => (Code::AlreadyExists, Some("RESPONSE_NOT_KEPT")),
            RejectReason::NotAcceptable => (Code::AlreadyExists, Some("NOT_ACCEPTABLE")),
            RejectReason::StoreFailed(_) => (Code::Unavailable, Some("STORE_UNAVAILABLE")),
            RejectReason::StaleToken { .. } | RejectReason::Overtaken { .. } => {
                (Code::FailedPrecondition, Some("STALE_TOKEN"))
            }
            RejectReason::MissingToken(_) | RejectReason::InvalidToken(_) => {
                (Code::InvalidArgument, None)
            }
        };
        let mut details =
            reason.map_or_else(ErrorDetails::new, |reason| error_info(reason, self.outcome()));
        if let Some(delay) = self.exact_retry_after().or(self.retry_after()) {
            details.set_retry_info(Some(delay));
        }
        Status::with_error_details(code, self.detail(), details)
    }

    /// Returns the estimate that [`retry_after`](Self::retry_after) rounds up for HTTP.
    fn exact_retry_after(&self) -> Option<Duration> {
        let estimate = match self.reason() {
            RejectReason::InProgress { retry_after, .. } => retry_after,
            RejectReason::Lock(error) => match error.root() {
                LockError::Held { retry_after, .. } => *retry_after,
                _ => None,
            },
            _ => None,
        };
        estimate.filter(|estimate| !estimate.is_zero())
    }
}

/// Creates details with an `ErrorInfo` whose metadata has the outcome.
pub(crate) fn error_info(reason: &str, outcome: &str) -> ErrorDetails {
    let metadata = HashMap::from([("outcome".to_owned(), outcome.to_owned())]);
    ErrorDetails::with_error_info(reason, DOMAIN, metadata)
}

/// Converts to the status of a [`RedlockLayer`](crate::RedlockLayer), for a method that acquires
/// its lock itself before it has any effect.
impl From<LockError> for Status {
    fn from(error: LockError) -> Self {
        Rejection::new(RejectReason::Lock(&error), None).grpc_status()
    }
}

/// Returns the method's own status unchanged, or for a lock error the status of a
/// [`RedlockLayer`](crate::RedlockLayer), so that a method can use `try_run(…).await?`.
impl From<GuardError<Status>> for Status {
    fn from(error: GuardError<Status>) -> Self {
        match error {
            GuardError::Lock(error) => error.into(),
            GuardError::Work(status) => status,
        }
    }
}
