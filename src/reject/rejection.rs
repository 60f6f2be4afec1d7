//! The rejection of a request, its reason, and its HTTP response.

use std::{borrow::Cow, error::Error, time::Duration};

use bytes::Bytes;
use http::{Response, StatusCode, header};

use super::problem;
use crate::{
    error::LockError,
    resource::{BodyFault, Resource, ResourceError},
    token::FencingToken,
};

/// A request that a layer refuses, or whose outcome is unknown.
#[derive(Clone, Copy, Debug)]
pub struct Rejection<'a> {
    reason: RejectReason<'a>,
    resource: Option<&'a Resource>,
}

/// Why a request is rejected. For logs, not for clients, as it may name nodes and owners.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum RejectReason<'a> {
    /// An error of the key, its lock, the body of the request ([`ResourceError::Body`]), or the
    /// key's record. The service was not called, except with [`LockError::Lost`]: then it was
    /// called and stopped, and the outcome is unknown.
    Lock(&'a LockError),
    /// Another request with the key is running.
    #[non_exhaustive]
    InProgress {
        /// Estimated time until it ends, from the usual duration of such work.
        retry_after: Option<Duration>,
        /// The owner name of the client that runs it.
        by: Option<&'a str>,
    },
    /// A request with the key was stopped before its end, and the key is
    /// [held](crate::once::UnknownOutcome::Hold) until it is decided on or expires.
    #[non_exhaustive]
    UnknownOutcome {
        /// Time until the key expires.
        remaining: Option<Duration>,
        /// The owner name of the client that started it.
        by: Option<&'a str>,
    },
    /// The key was used for a request with another method, path or body.
    KeyReused,
    /// The work is done, and its response cannot be replayed: it was too large, the quota for
    /// responses was used up, its process ended before it was stored, or the store lost it.
    #[non_exhaustive]
    NotKept {
        /// Status of that response, if known.
        status: Option<StatusCode>,
    },
    /// The work is done, and the request's `Accept-Encoding` does not allow the encoding of the response.
    NotAcceptable,
    /// The work is done, and the store failed to return the response: a
    /// [`StoreError`](crate::once::StoreError).
    StoreFailed(&'a (dyn Error + Send + Sync + 'static)),
    /// A newer fencing token was seen before.
    #[non_exhaustive]
    StaleToken {
        /// Token of the request.
        token: FencingToken,
        /// Newest token seen.
        newest: FencingToken,
    },
    /// A newer fencing token arrived while the request ran; the outcome is unknown.
    #[non_exhaustive]
    Overtaken {
        /// Token of the request.
        token: FencingToken,
        /// Newest token seen.
        newest: FencingToken,
    },
    /// The request has no fencing token; the text says where it was expected.
    MissingToken(&'a str),
    /// The fencing token cannot be read; the text says why.
    InvalidToken(&'a str),
}

/// `Retry-After` without an estimate.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Maximum `Retry-After` until records expire, as an operator may raise the limit earlier.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

/// Rounds up to whole seconds of `Retry-After`, at least one.
fn in_whole_seconds(after: Option<Duration>) -> Duration {
    let after = after.unwrap_or(RETRY_AFTER);
    let seconds = after.as_secs().saturating_add((after.subsec_nanos() > 0).into());
    Duration::from_secs(seconds.max(1))
}

impl<'a> RejectReason<'a> {
    /// Returns the reason for a key that is neither free nor done.
    pub(crate) const fn busy(
        is_unknown: bool,
        after: Option<Duration>,
        by: Option<&'a str>,
    ) -> Self {
        if is_unknown {
            Self::UnknownOutcome { remaining: after, by }
        } else {
            Self::InProgress { retry_after: after, by }
        }
    }
}

impl<'a> Rejection<'a> {
    pub(crate) const fn new(reason: RejectReason<'a>, resource: Option<&'a Resource>) -> Self {
        Self { reason, resource }
    }

    /// Returns the reason why the request is rejected.
    pub const fn reason(&self) -> RejectReason<'a> {
        self.reason
    }

    /// Returns the error of [`RejectReason::Lock`].
    pub const fn lock_error(&self) -> Option<&'a LockError> {
        match self.reason {
            RejectReason::Lock(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the resource of the request; `None` if it has no usable key. In a
    /// [`OnceLayer`](crate::OnceLayer) its name is `once:` and the key.
    pub const fn resource(&self) -> Option<&'a Resource> {
        self.resource
    }

    /// Returns whether the service was called, so that the outcome is unknown.
    pub fn has_begun(&self) -> bool {
        match self.reason {
            RejectReason::Lock(error) => matches!(error.root(), LockError::Lost { .. }),
            reason => matches!(reason, RejectReason::Overtaken { .. }),
        }
    }

    /// Returns the outcome of the request's work, as known to the layer: `not-run`, `unknown` or
    /// `done`. `not-run` means that *this* request had no effect.
    pub fn outcome(&self) -> &'static str {
        match self.reason {
            RejectReason::UnknownOutcome { .. } => "unknown",
            RejectReason::NotKept { .. }
            | RejectReason::NotAcceptable
            | RejectReason::StoreFailed(_) => "done",
            _ if self.has_begun() => "unknown",
            _ => "not-run",
        }
    }

    /// Returns the status of the response.
    pub fn status(&self) -> StatusCode {
        self.status_and_code().0
    }

    /// Returns an identifier of the reason, for programs: the member `code` of a problem body.
    pub fn code(&self) -> &'static str {
        self.status_and_code().1
    }

    fn status_and_code(&self) -> (StatusCode, &'static str) {
        match self.reason {
            RejectReason::Lock(error) => match error.root() {
                LockError::Held { slots, .. } if !slots.is_empty() => {
                    (StatusCode::SERVICE_UNAVAILABLE, "full")
                }
                LockError::Held { .. } => (StatusCode::CONFLICT, "held"),
                LockError::NoQuorum { .. } => (StatusCode::SERVICE_UNAVAILABLE, "no-quorum"),
                LockError::TooSlow { .. } => (StatusCode::SERVICE_UNAVAILABLE, "too-slow"),
                LockError::Lost { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "lost"),
                LockError::InvalidRequest(_)
                | LockError::InvalidResource(ResourceError::Setup(_)) => {
                    (StatusCode::INTERNAL_SERVER_ERROR, "bad-settings")
                }
                LockError::InvalidResource(ResourceError::NotFound(_)) => {
                    (StatusCode::NOT_FOUND, "not-found")
                }
                LockError::InvalidResource(ResourceError::Body(fault)) => match fault {
                    BodyFault::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "body-too-large"),
                    BodyFault::TimedOut { .. } => (StatusCode::REQUEST_TIMEOUT, "body-timed-out"),
                    BodyFault::Crowded { .. } => {
                        (StatusCode::SERVICE_UNAVAILABLE, "too-many-bodies")
                    }
                    _ => (StatusCode::BAD_REQUEST, "body-failed"),
                },
                LockError::InvalidResource(_) => (StatusCode::BAD_REQUEST, "bad-key"),
                LockError::TooManyRecords { .. } => {
                    (StatusCode::SERVICE_UNAVAILABLE, "too-many-records")
                }
                LockError::Closed => (StatusCode::SERVICE_UNAVAILABLE, "shut-down"),
                _ => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            },
            RejectReason::InProgress { .. } => (StatusCode::CONFLICT, "in-progress"),
            RejectReason::UnknownOutcome { .. } => (StatusCode::CONFLICT, "unknown-outcome"),
            RejectReason::KeyReused => (StatusCode::UNPROCESSABLE_ENTITY, "key-reused"),
            RejectReason::NotKept { .. } => (StatusCode::CONFLICT, "response-not-kept"),
            RejectReason::NotAcceptable => (StatusCode::NOT_ACCEPTABLE, "not-acceptable"),
            RejectReason::StoreFailed(_) => (StatusCode::SERVICE_UNAVAILABLE, "store-unavailable"),
            RejectReason::StaleToken { .. } | RejectReason::Overtaken { .. } => {
                (StatusCode::PRECONDITION_FAILED, "stale-token")
            }
            RejectReason::MissingToken(_) => (StatusCode::PRECONDITION_REQUIRED, "missing-token"),
            RejectReason::InvalidToken(_) => (StatusCode::BAD_REQUEST, "bad-token"),
        }
    }

    /// Returns the time after which the client may repeat the request, in whole seconds, at least
    /// one. `None` if it is unknown, or if the same request can't succeed.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.reason {
            RejectReason::Lock(error) => match error.root() {
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
            },
            RejectReason::InProgress { retry_after, .. } => Some(in_whole_seconds(retry_after)),
            RejectReason::StoreFailed(_) => Some(RETRY_AFTER),
            _ => None,
        }
    }

    /// Returns a text for the client, which names no node, no owner and no newer token.
    pub fn detail(&self) -> Cow<'static, str> {
        let detail = match self.reason {
            RejectReason::Lock(error) => match error.root() {
                LockError::Held { slots, .. } if !slots.is_empty() => {
                    "as many requests as are allowed at a time are using this resource; nothing was done"
                }
                LockError::Held { .. } => {
                    "another request is using this resource; nothing was done"
                }
                LockError::Lost { .. } => {
                    "the lock was lost while the request ran: it may have happened, or happened in part"
                }
                LockError::InvalidResource(ResourceError::Setup(_)) => {
                    "the service is misconfigured for this request; nothing was done"
                }
                LockError::InvalidResource(error) => {
                    return format!("{error}; nothing was done").into();
                }
                LockError::InvalidRequest(_) => {
                    "the lock's settings contradict each other; nothing was done"
                }
                LockError::TooManyRecords { .. } => {
                    "the service has reached its limit of stored requests; nothing was done"
                }
                LockError::Closed => "the service is shutting down; nothing was done",
                _ => "the lock could not be acquired at present; nothing was done",
            },
            RejectReason::InProgress { .. } => {
                "another request with this key is running; nothing was done"
            }
            RejectReason::UnknownOutcome { .. } => {
                "an earlier request with this key was stopped in the middle: it may have happened, \
                 or happened in part, and that is still to be found out"
            }
            RejectReason::KeyReused => {
                "the key was used for another request: a new request needs a new key; nothing was \
                 done"
            }
            RejectReason::NotKept { status: Some(status) } => {
                return format!(
                    "this was done already, and the response was {}; that response was not kept, so it \
                     can't be sent again: don't retry",
                    status.as_u16()
                )
                .into();
            }
            RejectReason::NotKept { status: None } => {
                "this was done already; its response was not kept, so it can't be sent again: don't \
                 retry"
            }
            RejectReason::NotAcceptable => {
                "this was done already; its response has a content coding that the request's \
                 Accept-Encoding does not allow"
            }
            RejectReason::StoreFailed(_) => {
                "this was done already; its response can't be read at present"
            }
            // The newest token is omitted, as an overtaken holder must acquire the lock again.
            RejectReason::StaleToken { .. } => {
                "the fencing token is stale: a newer one was seen before; nothing was done"
            }
            RejectReason::Overtaken { .. } => {
                "a newer fencing token arrived while the request ran: it may have happened, or \
                 happened in part"
            }
            RejectReason::MissingToken(text) | RejectReason::InvalidToken(text) => {
                return format!("{text}; nothing was done").into();
            }
        };
        detail.into()
    }

    /// Creates the default response: a problem body after RFC 9457 (of the type `about:blank`, so
    /// the title is the reason phrase of the status), with the members [`code`](Self::code) and
    /// [`outcome`](Self::outcome) of this crate, and the `Retry-After` of
    /// [`retry_after`](Self::retry_after).
    pub fn response(&self) -> Response<Bytes> {
        let mut response = problem(self.status(), self.code(), &self.detail(), self.outcome());
        if let Some(after) = self.retry_after() {
            response.headers_mut().insert(header::RETRY_AFTER, after.as_secs().into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LossCause;

    fn held(retry_after: Option<Duration>) -> LockError {
        let votes = crate::error::Votes::default();
        LockError::Held {
            retry_after,
            expires_in: None,
            owner: None,
            lingers: false,
            readers: 0,
            waiter: None,
            slots: Box::default(),
            votes,
        }
    }

    fn after(retry_after: Option<Duration>) -> Option<Duration> {
        let error = held(retry_after);
        Rejection::new(RejectReason::Lock(&error), None).retry_after()
    }

    #[test]
    fn retry_after_is_in_whole_seconds() {
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!(after(None), seconds(1));
        assert_eq!(after(Some(Duration::ZERO)), seconds(1));
        assert_eq!(after(Some(Duration::from_millis(1))), seconds(1));
        assert_eq!(after(Some(Duration::from_millis(1_001))), seconds(2));
        assert_eq!(after(seconds(3)), seconds(3));
    }

    #[test]
    fn root_of_the_error_decides() {
        let last = Box::new(held(None));
        let waited = LockError::WaitTimedOut { waited: Duration::ZERO, last };
        let rejection = Rejection::new(RejectReason::Lock(&waited), None);
        assert_eq!(rejection.status(), StatusCode::CONFLICT);
        let stopped = LockError::Lost { cause: LossCause::Released };
        let rejection = Rejection::new(RejectReason::Lock(&stopped), None);
        assert!(rejection.has_begun() && rejection.retry_after().is_none());
    }
}
