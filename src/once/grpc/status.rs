use std::collections::HashMap;

use tonic::{Code, Status, metadata::MetadataValue};
use tonic_types::{ErrorDetails, StatusExt};

use super::Rejection;
use crate::once::http::Refused;

/// What calls are answered that did not run, or whose outcome is not known, where nothing else was
/// asked for: [`Rejection::grpc_status`].
pub(super) type OnReject = fn(Rejection<'_>) -> Status;

pub(super) fn answer(rejection: Rejection<'_>) -> Status {
    rejection.grpc_status()
}

/// Of all our `ErrorInfo`s.
const DOMAIN: &str = "tower-redlock";

impl Rejection<'_> {
    /// The status that is answered over gRPC where nothing else was asked for: see
    /// [`OnceLayer::grpc`](crate::OnceLayer::grpc) for which says what. Its text names no node and no
    /// owner.
    pub fn grpc_status(&self) -> Status {
        let (code, reason) = match self.reason() {
            Refused::Lock(error) => return self.lock(error).grpc_status(),
            Refused::InProgress { .. } => (Code::Aborted, "IN_PROGRESS"),
            Refused::Unknown { .. } => (Code::FailedPrecondition, "UNKNOWN_OUTCOME"),
            Refused::BodyTooLarge { .. } => (Code::ResourceExhausted, "BODY_TOO_LARGE"),
            Refused::BodyFailed => (Code::Cancelled, "BODY_FAILED"),
            Refused::BodyTimedOut { .. } => (Code::DeadlineExceeded, "BODY_TIMED_OUT"),
            Refused::TooManyBodies => (Code::ResourceExhausted, "TOO_MANY_BODIES"),
            Refused::KeyReused => (Code::InvalidArgument, "KEY_REUSED"),
            Refused::NotKept { .. } => (Code::AlreadyExists, "RESPONSE_NOT_KEPT"),
            Refused::NotAcceptable => (Code::AlreadyExists, "NOT_ACCEPTABLE"),
            Refused::StoreFailed(_) => (Code::Unavailable, "STORE_UNAVAILABLE"),
        };
        let mut details = details(reason, self.outcome());
        if let Some(seconds) = self.retry_after() {
            // Whole seconds are for HTTP; a turn may be shorter.
            let delay = match self.reason() {
                Refused::InProgress { retry_after: Some(exact), .. } if !exact.is_zero() => exact,
                _ => seconds,
            };
            details.set_retry_info(Some(delay));
        }
        Status::with_error_details(code, self.detail(), details)
    }
}

/// What a call is answered that was done before. It can't be `OK`, which needs a message.
pub(super) fn duplicate() -> Status {
    let text = "this was done before; nothing was done now";
    let details = details("DUPLICATE", "done");
    let mut status = Status::with_error_details(Code::AlreadyExists, text, details);
    status.metadata_mut().insert("once", MetadataValue::from_static("duplicate"));
    status
}

fn details(reason: &str, outcome: &str) -> ErrorDetails {
    let metadata = HashMap::from([("outcome".to_owned(), outcome.to_owned())]);
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, DOMAIN, metadata);
    details
}
