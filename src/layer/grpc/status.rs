use std::collections::HashMap;

use http::Extensions;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::{
    error::LockError,
    guard,
    layer::http::{Rejection, RequestOutcome},
    resource::ResourceError,
};

/// What requests are answered that did not get, or keep, their lock, where nothing else was asked
/// for: [`Rejection::grpc_status`].
pub(super) type OnReject = fn(Rejection<'_>) -> Status;

pub(super) fn answer(rejection: Rejection<'_>) -> Status {
    rejection.grpc_status()
}

const LOCK_LOST: &str = "LOCK_LOST";
const DOMAIN: &str = "tower-redlock";

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
            details.set_error_info(LOCK_LOST, DOMAIN, metadata);
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

/// What a method's own status says that it was made of the error of a lost lock. tonic's servers
/// leave the status among the response's extensions.
pub(in crate::layer) fn outcome_among(extensions: &Extensions) -> Option<RequestOutcome> {
    let status = extensions.get::<Status>().filter(|status| status.code() == Code::Unknown)?;
    let info = status.get_details_error_info()?;
    let is_lost = info.reason == LOCK_LOST && info.domain == DOMAIN;
    is_lost.then_some(RequestOutcome::Unknown)
}
