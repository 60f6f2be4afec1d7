use std::{borrow::Cow, time::Duration};

use bytes::Bytes;
use http::{Response, StatusCode, header};

use super::problem::problem;
use crate::{
    error::LockError,
    resource::{BodyFault, Resource, ResourceError},
};

/// A request that was turned away, or that lost its lock before it was answered.
#[derive(Clone, Copy, Debug)]
pub struct Rejection<'a> {
    error: &'a LockError,
    resource: Option<&'a Resource>,
}

/// Without anything better to go by, clients are told to come back after so long.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Longest time after which clients are told to come back where records are to expire first: an
/// operator may make room before.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

/// What `Retry-After` can say, and not at once.
pub(crate) fn in_whole_seconds(after: Option<Duration>) -> Duration {
    let after = after.unwrap_or(RETRY_AFTER);
    let seconds = after.as_secs().saturating_add((after.subsec_nanos() > 0).into());
    Duration::from_secs(seconds.max(1))
}

impl<'a> Rejection<'a> {
    pub(crate) const fn new(error: &'a LockError, resource: Option<&'a Resource>) -> Self {
        Self { error, resource }
    }

    /// What happened, with the nodes and owners that it names: for logs, not for strangers.
    pub const fn error(&self) -> &'a LockError {
        self.error
    }

    /// What the request is about; `None` if it has no usable key.
    pub const fn resource(&self) -> Option<&'a Resource> {
        self.resource
    }

    /// Whether the handler ran, so that the outcome is unknown.
    pub fn has_begun(&self) -> bool {
        matches!(self.error.root(), LockError::Lost { .. })
    }

    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        match self.error.root() {
            LockError::Held { .. } => StatusCode::CONFLICT,
            LockError::Lost { .. }
            | LockError::InvalidRequest(_)
            | LockError::InvalidResource(ResourceError::Setup(_)) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            LockError::InvalidResource(ResourceError::NotFound(_)) => StatusCode::NOT_FOUND,
            LockError::InvalidResource(ResourceError::Body(fault)) => match fault {
                BodyFault::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
                BodyFault::TimedOut { .. } => StatusCode::REQUEST_TIMEOUT,
                BodyFault::Crowded { .. } => StatusCode::SERVICE_UNAVAILABLE,
                BodyFault::Failed => StatusCode::BAD_REQUEST,
            },
            LockError::InvalidResource(_) => StatusCode::BAD_REQUEST,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// When it makes sense to come back: whole seconds, one at least. `None` where the same
    /// request can't be sent again as it is.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.error.root() {
            LockError::Held { retry_after, .. } => Some(in_whole_seconds(*retry_after)),
            LockError::InvalidResource(ResourceError::Body(BodyFault::Crowded { .. })) => {
                Some(RETRY_AFTER)
            }
            LockError::InvalidResource(_)
            | LockError::Lost { .. }
            | LockError::InvalidRequest(_) => None,
            LockError::TooManyRecords { retry_after, .. } => {
                Some(in_whole_seconds(*retry_after).min(MAX_RETRY_AFTER))
            }
            _ => Some(RETRY_AFTER),
        }
    }

    /// A word for what happened, for programs.
    pub fn code(&self) -> &'static str {
        match self.error.root() {
            LockError::Held { .. } => "held",
            LockError::NoQuorum { .. } => "no-quorum",
            LockError::TooSlow { .. } => "too-slow",
            LockError::Lost { .. } => "lost",
            LockError::InvalidRequest(_) | LockError::InvalidResource(ResourceError::Setup(_)) => {
                "bad-settings"
            }
            LockError::InvalidResource(ResourceError::NotFound(_)) => "not-found",
            LockError::InvalidResource(ResourceError::Body(fault)) => match fault {
                BodyFault::TooLarge { .. } => "body-too-large",
                BodyFault::TimedOut { .. } => "body-timed-out",
                BodyFault::Crowded { .. } => "too-many-bodies",
                BodyFault::Failed => "body-failed",
            },
            LockError::InvalidResource(_) => "bad-key",
            LockError::TooManyRecords { .. } => "too-many-records",
            LockError::Closed => "shut-down",
            _ => "unavailable",
        }
    }

    /// What happened, in words for whoever sent the request: it names no node and no owner.
    pub fn detail(&self) -> Cow<'static, str> {
        match self.error.root() {
            LockError::Held { .. } => "another request is at work on this; nothing was done".into(),
            LockError::Lost { .. } => {
                "the lock was lost while the request ran: it may have happened, or happened in part"
                    .into()
            }
            LockError::InvalidResource(ResourceError::Setup(_)) => {
                "the service does not find what to lock; nothing was done".into()
            }
            LockError::InvalidResource(error) => format!("{error}; nothing was done").into(),
            LockError::InvalidRequest(_) => {
                "the lock's settings do not fit together; nothing was done".into()
            }
            LockError::TooManyRecords { .. } => {
                "the service remembers as many requests as it may; nothing was done".into()
            }
            LockError::Closed => "the service is shutting down; nothing was done".into(),
            _ => "the lock could not be taken at present; nothing was done".into(),
        }
    }

    /// The answer that is given where nothing else was asked for: a problem body after RFC 9457
    /// (of the type `about:blank`, so the title is the status's own), with the members `code` and
    /// `outcome` (`not-run` or `unknown`) of our own, and `Retry-After` where it makes sense.
    pub fn response(&self) -> Response<Bytes> {
        let status = self.status();
        let mut response = problem(status, self.code(), &self.detail(), self.has_begun());
        if let Some(after) = self.retry_after() {
            response.headers_mut().insert(header::RETRY_AFTER, after.as_secs().into());
        }
        response
    }

    /// For the person who asks why: the answer itself says less.
    pub(crate) fn log(&self) {
        let resource = self.resource.map(tracing::field::display);
        let (error, outcome) = (self.error, self.code());
        match self.error.root() {
            LockError::InvalidResource(ResourceError::Setup(_)) => {
                crate::log::error!(resource, %error, outcome, "request turned away");
            }
            // Of full records the quota warns, not each request.
            LockError::Held { .. }
            | LockError::InvalidResource(_)
            | LockError::TooManyRecords { .. } => {
                crate::log::debug!(resource, %error, outcome, "request turned away");
            }
            // The hard stop has said so already.
            LockError::Lost { .. } => {}
            _ => crate::log::warn!(resource, %error, outcome, "request turned away"),
        }
    }
}

/// What requests are answered that did not get, or keep, their lock.
///
/// Closures are: `Fn(Rejection<'_>) -> http::Response<Bytes>`.
pub trait OnReject {
    /// The answer.
    fn answer(&self, rejection: Rejection<'_>) -> Response<Bytes>;
}

impl<F> OnReject for F
where
    F: Fn(Rejection<'_>) -> Response<Bytes>,
{
    fn answer(&self, rejection: Rejection<'_>) -> Response<Bytes> {
        self(rejection)
    }
}

/// [`Rejection::response`]: problem bodies.
#[derive(Clone, Copy, Debug)]
pub struct Problems(pub(super) ());

impl OnReject for Problems {
    fn answer(&self, rejection: Rejection<'_>) -> Response<Bytes> {
        rejection.response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LossCause;

    fn held(retry_after: Option<Duration>) -> LockError {
        let votes = crate::error::Votes::default();
        LockError::Held { retry_after, expires_in: None, owner: None, votes }
    }

    fn after(retry_after: Option<Duration>) -> Option<Duration> {
        let error = held(retry_after);
        Rejection::new(&error, None).retry_after()
    }

    #[test]
    fn clients_come_back_in_whole_seconds_and_not_at_once() {
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!(after(None), seconds(1));
        assert_eq!(after(Some(Duration::ZERO)), seconds(1));
        assert_eq!(after(Some(Duration::from_millis(1))), seconds(1));
        assert_eq!(after(Some(Duration::from_millis(1_001))), seconds(2));
        assert_eq!(after(seconds(3)), seconds(3));
    }

    #[test]
    fn what_the_wait_met_last_makes_the_answer() {
        let last = Box::new(held(None));
        let waited = LockError::WaitTimedOut { waited: Duration::ZERO, last };
        assert_eq!(Rejection::new(&waited, None).status(), StatusCode::CONFLICT);
        let stopped = LockError::Lost { cause: LossCause::Released };
        let rejection = Rejection::new(&stopped, None);
        assert!(rejection.has_begun() && rejection.retry_after().is_none());
    }
}
