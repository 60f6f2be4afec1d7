use std::collections::HashMap;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::{error::LockError, guard, layer::http::Rejection, resource::ResourceError};

/// What requests are answered that did not get, or keep, their lock, where nothing else was asked
/// for: [`Rejection::grpc_status`].
pub(super) type OnReject = fn(Rejection<'_>) -> Status;

pub(super) fn answer(rejection: Rejection<'_>) -> Status {
    rejection.grpc_status()
}

impl Rejection<'_> {
    /// The status that is answered over gRPC where nothing else was asked for: see
    /// [`RedlockLayer::grpc`](crate::RedlockLayer::grpc) for which says what. Its text names no
    /// node and no owner.
    pub fn grpc_status(&self) -> Status {
        let code = match self.error().root() {
            LockError::Held { .. } => Code::Aborted,
            LockError::Lost { .. } => Code::Unknown,
            LockError::InvalidRequest(_) | LockError::InvalidResource(ResourceError::Setup(_)) => {
                Code::Internal
            }
            LockError::InvalidResource(ResourceError::NotFound(_)) => Code::Unimplemented,
            LockError::InvalidResource(_) => Code::InvalidArgument,
            _ => Code::Unavailable,
        };
        let mut details = ErrorDetails::new();
        if let Some(seconds) = self.retry_after() {
            // Whole seconds are for HTTP; a turn may be shorter.
            let delay = match self.error().root() {
                LockError::Held { retry_after: Some(exact), .. } if !exact.is_zero() => *exact,
                _ => seconds,
            };
            details.set_retry_info(Some(delay));
        }
        if self.has_begun() {
            let metadata = HashMap::from([("outcome".to_owned(), "unknown".to_owned())]);
            details.set_error_info("LOCK_LOST", "tower-redlock", metadata);
        }
        Status::with_error_details(code, self.detail(), details)
    }
}

/// As a [`RedlockLayer`](crate::RedlockLayer) answers: for a method that takes its lock by itself,
/// before it does anything else.
impl From<LockError> for Status {
    fn from(error: LockError) -> Self {
        Rejection::new(&error, None).grpc_status()
    }
}

/// The method's own status as it is, and lock errors as a [`RedlockLayer`](crate::RedlockLayer)
/// answers them: so that `try_run(…).await?` does in a method.
impl From<guard::Error<Status>> for Status {
    fn from(error: guard::Error<Status>) -> Self {
        match error {
            guard::Error::Lock(error) => error.into(),
            guard::Error::Service(status) => status,
        }
    }
}
