//! The responses of a layer to the requests that it rejects, and their log lines.

use std::{error::Error, sync::Arc};

use tokio::time::Instant;
use tracing::field::{debug, display};

use super::{DefaultResponse, OnReject, RejectReason, Rejection, RequestOutcome};
use crate::{
    error::LockError, log_budget::MessageLevel, request_log::RequestLog, resource::ResourceError,
};

/// Makes the responses of a layer, by its setting `on_reject`, and logs the reasons, which a response does not
/// contain. Clones of a layer share the budget of log lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rejecter<R = DefaultResponse> {
    on_reject: R,
    log: Arc<RequestLog>,
}

impl<R> Rejecter<R> {
    /// Replaces what makes the responses.
    pub(crate) fn with<G>(self, on_reject: G) -> Rejecter<G> {
        Rejecter { on_reject, log: self.log }
    }

    /// Logs the rejection. Returns the response, and the outcome that the caller must mark on it.
    pub(crate) fn reject<T>(&self, rejection: Rejection<'_>) -> (T, RequestOutcome)
    where
        R: OnReject<T>,
    {
        log(&rejection, &self.log);
        rejection.answer(&self.on_reject)
    }
}

/// The level of the line about a rejection, while the budget lasts.
#[derive(Clone, Copy)]
enum RejectionLevel {
    Error,
    Warn,
    Debug,
}

fn log(rejection: &Rejection<'_>, log: &RequestLog) {
    let Some(own_level) = own_level(rejection.reason()) else { return };
    let (resource, outcome) = (rejection.resource().map(display), rejection.code());
    let error: Option<&dyn Error> = match rejection.reason() {
        RejectReason::Lock(error) => Some(error),
        RejectReason::StoreFailed(error) => Some(error.source().unwrap_or(error)),
        _ => None,
    };
    let (error, reason) = (error.map(display), error.is_none().then(|| debug(rejection.reason())));
    let (level, suppressed) = match own_level {
        RejectionLevel::Debug => (MessageLevel::Debug, None),
        RejectionLevel::Error | RejectionLevel::Warn => log.take(outcome, Instant::now()),
    };
    if level == MessageLevel::FirstInExcess {
        RequestLog::announce_excess(outcome);
    }
    match (level, own_level) {
        (MessageLevel::Own, RejectionLevel::Error) => {
            crate::log::error!(resource, error, reason, outcome, suppressed, "request rejected");
        }
        (MessageLevel::Own, RejectionLevel::Warn) => {
            crate::log::warn!(resource, error, reason, outcome, suppressed, "request rejected");
        }
        _ => crate::log::debug!(resource, error, reason, outcome, "request rejected"),
    }
}

/// Returns the level of the line while the budget lasts; `None` if another event reports the rejection.
fn own_level(reason: RejectReason<'_>) -> Option<RejectionLevel> {
    Some(match reason {
        // A client that is wrong, or that guesses keys.
        RejectReason::KeyReused | RejectReason::StoreFailed(_) => RejectionLevel::Warn,
        // The fencing layer logs these.
        RejectReason::StaleToken { .. }
        | RejectReason::Overtaken { .. }
        | RejectReason::MissingToken(_)
        | RejectReason::InvalidToken(_) => return None,
        RejectReason::Lock(error) => match error.root() {
            LockError::InvalidResource(ResourceError::Setup(_)) => RejectionLevel::Error,
            // The quota warns when the records are full.
            LockError::Held { .. }
            | LockError::InvalidResource(_)
            | LockError::TooManyRecords { .. } => RejectionLevel::Debug,
            // The hard stop logs this.
            LockError::Lost { .. } => return None,
            _ => RejectionLevel::Warn,
        },
        _ => RejectionLevel::Debug,
    })
}
