use std::collections::HashMap;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::{error::LockError, layer::http::Rejection};

/// Which status says what.
pub(super) fn status(rejection: &Rejection<'_>) -> Status {
    let code = match rejection.error().root() {
        LockError::Held { .. } => Code::Aborted,
        LockError::Lost { .. } => Code::Unknown,
        LockError::InvalidResource(_) => Code::InvalidArgument,
        LockError::InvalidRequest(_) => Code::Internal,
        _ => Code::Unavailable,
    };
    let mut details = ErrorDetails::new();
    if let Some(after) = rejection.retry_after() {
        details.set_retry_info(Some(after));
    }
    if rejection.has_begun() {
        let metadata = HashMap::from([("outcome".to_owned(), "unknown".to_owned())]);
        details.set_error_info("LOCK_LOST", "tower-redlock", metadata);
    }
    Status::with_error_details(code, rejection.detail(), details)
}
