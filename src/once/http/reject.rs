use std::{borrow::Cow, time::Duration};

use bytes::Bytes;
use http::{Response, StatusCode, header};

use crate::{
    error::LockError,
    layer::http::{self as lock, RequestOutcome, in_whole_seconds, problem_of},
    once::StoreError,
    resource::Resource,
};

/// A request that was turned away, or whose outcome is not known.
#[derive(Clone, Copy, Debug)]
pub struct Rejection<'a> {
    reason: Refused<'a>,
    resource: Option<&'a Resource>,
}

/// Why a request was turned away. The names that it has are for logs, not for strangers.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Refused<'a> {
    /// The key itself, its lock, or what is recorded of it. Nothing ran; but with
    /// [`LockError::Lost`] the handler ran, and was stopped: its outcome is unknown.
    Lock(&'a LockError),
    /// Another request with the key runs.
    #[non_exhaustive]
    InProgress {
        /// When to come back: an estimate from the usual duration of such work.
        retry_after: Option<Duration>,
        /// Who runs it, as that client calls itself.
        by: Option<&'a str>,
    },
    /// A request with the key was stopped in the middle, and the key is
    /// [held](crate::Unknown::Hold) for somebody to decide.
    #[non_exhaustive]
    Unknown {
        /// When the key is free by itself.
        remaining: Option<Duration>,
        /// Who began it, as that client calls itself.
        by: Option<&'a str>,
    },
    /// The request's body is larger than is taken.
    #[non_exhaustive]
    BodyTooLarge {
        /// The most that is taken, in bytes.
        limit: usize,
    },
    /// The request's body did not come in time.
    #[non_exhaustive]
    BodyTimedOut {
        /// How long it may take.
        limit: Duration,
    },
    /// There is no room for the request's body beside those of requests that wait:
    /// [`max_waiting_body_bytes`](crate::RedlockBuilder::max_waiting_body_bytes).
    TooManyBodies,
    /// The request's body ended with an error.
    BodyFailed,
    /// The key was used for another request: of another method, path or body.
    KeyReused,
    /// It is done, and its response is not there to be sent again: it was not kept, as it was too large,
    /// or too many others are kept, or its process ended before, or the store has lost it.
    #[non_exhaustive]
    NotKept {
        /// The status of that response, if it is known.
        status: Option<StatusCode>,
    },
    /// It is done, and its response is encoded in a way that the request's `Accept-Encoding` does not
    /// allow.
    NotAcceptable,
    /// It is done, and the store could not tell its response.
    StoreFailed(&'a StoreError),
}

/// A store that could not be read may be readable after so long, and bodies that wait may have gone.
const RETRY: Duration = Duration::from_secs(1);

impl<'a> Rejection<'a> {
    pub(in crate::once) const fn new(reason: Refused<'a>, resource: Option<&'a Resource>) -> Self {
        Self { reason, resource }
    }

    /// What happened, with the nodes and owners that it names.
    pub const fn reason(&self) -> Refused<'a> {
        self.reason
    }

    /// What is locked for the request's key, `once:` and a name; `None` if it has no usable key.
    pub const fn resource(&self) -> Option<&'a Resource> {
        self.resource
    }

    pub(in crate::once) const fn lock(&self, error: &'a LockError) -> lock::Rejection<'a> {
        lock::Rejection::new(error, self.resource)
    }

    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        match self.reason {
            Refused::Lock(error) => self.lock(error).status(),
            Refused::InProgress { .. } | Refused::Unknown { .. } | Refused::NotKept { .. } => {
                StatusCode::CONFLICT
            }
            Refused::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Refused::BodyTimedOut { .. } => StatusCode::REQUEST_TIMEOUT,
            Refused::BodyFailed => StatusCode::BAD_REQUEST,
            Refused::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Refused::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
            Refused::StoreFailed(_) | Refused::TooManyBodies => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// When it makes sense to come back: whole seconds, one at least. `None` where nobody knows, or
    /// where the same request can't be sent again as it is.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.reason {
            Refused::Lock(error) => self.lock(error).retry_after(),
            Refused::InProgress { retry_after, .. } => Some(in_whole_seconds(retry_after)),
            Refused::StoreFailed(_) | Refused::TooManyBodies => Some(RETRY),
            _ => None,
        }
    }

    /// A word for what happened, for programs.
    pub fn code(&self) -> &'static str {
        match self.reason {
            Refused::Lock(error) => self.lock(error).code(),
            Refused::InProgress { .. } => "in-progress",
            Refused::Unknown { .. } => "unknown-outcome",
            Refused::BodyTooLarge { .. } => "body-too-large",
            Refused::BodyTimedOut { .. } => "body-timed-out",
            Refused::TooManyBodies => "too-many-bodies",
            Refused::BodyFailed => "body-failed",
            Refused::KeyReused => "key-reused",
            Refused::NotKept { .. } => "response-not-kept",
            Refused::NotAcceptable => "not-acceptable",
            Refused::StoreFailed(_) => "store-unavailable",
        }
    }

    /// What became of the work that the key stands for, as far as this request can tell: `not-run`,
    /// `unknown` or `done`. `not-run` says that *this* request did nothing.
    pub fn outcome(&self) -> &'static str {
        match self.reason {
            Refused::Lock(error) if self.lock(error).has_begun() => "unknown",
            Refused::Unknown { .. } => "unknown",
            Refused::NotKept { .. } | Refused::NotAcceptable | Refused::StoreFailed(_) => "done",
            _ => "not-run",
        }
    }

    /// What happened, in words for whoever sent the request: it names no node and no owner.
    pub fn detail(&self) -> Cow<'static, str> {
        match self.reason {
            Refused::Lock(error) => self.lock(error).detail(),
            Refused::InProgress { .. } => {
                "another request with this key is being handled; nothing was done".into()
            }
            Refused::Unknown { .. } => {
                "an earlier request with this key was stopped in the middle: it may have happened, \
                 or happened in part, and that is still to be found out"
                    .into()
            }
            Refused::BodyTooLarge { limit } => {
                format!("the body has more than {limit} bytes; nothing was done").into()
            }
            Refused::BodyTimedOut { limit } => {
                format!("the body did not come within {limit:?}; nothing was done").into()
            }
            Refused::TooManyBodies => {
                "too many requests wait with their bodies; nothing was done".into()
            }
            Refused::BodyFailed => "the body did not come to its end; nothing was done".into(),
            Refused::KeyReused => {
                "the key was used for another request: a new request needs a new key; nothing was \
                 done"
                    .into()
            }
            Refused::NotKept { status: Some(status) } => format!(
                "this is done already, and was answered {}; that answer was not kept, so it can't \
                 be sent again: don't retry",
                status.as_u16()
            )
            .into(),
            Refused::NotKept { status: None } => {
                "this is done already; its answer was not kept, so it can't be sent again: don't \
                 retry"
                    .into()
            }
            Refused::NotAcceptable => {
                "this is done already; its answer has a content coding that the request's \
                 Accept-Encoding does not allow"
                    .into()
            }
            Refused::StoreFailed(_) => {
                "this is done already; its answer can't be read at present".into()
            }
        }
    }

    /// The answer that is given where nothing else was asked for: a problem body after RFC 9457
    /// (of the type `about:blank`), with the members `code` and `outcome` of our own, and
    /// `Retry-After` where it makes sense.
    pub fn response(&self) -> Response<Bytes> {
        let mut response = problem_of(self.status(), self.code(), &self.detail(), self.outcome());
        if let Some(after) = self.retry_after() {
            response.headers_mut().insert(header::RETRY_AFTER, after.as_secs().into());
        }
        response
    }

    /// For the person who asks why: the answer itself says less.
    pub(in crate::once) fn log(&self) {
        let resource = self.resource.map(tracing::field::display);
        let outcome = self.code();
        match self.reason {
            Refused::Lock(error) => self.lock(error).log(),
            Refused::StoreFailed(error) => {
                crate::log::warn!(resource, error = %error.cause(), outcome, "request turned away");
            }
            reason => crate::log::debug!(resource, ?reason, outcome, "request turned away"),
        }
    }
}

/// What requests are answered that were turned away, or whose outcome is not known.
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

/// Says why, and answers.
pub(super) fn reject(
    on_reject: &impl OnReject,
    reason: Refused<'_>,
    resource: Option<&Resource>,
) -> Response<Bytes> {
    let rejection = Rejection::new(reason, resource);
    rejection.log();
    let is_unknown = rejection.outcome() == "unknown";
    RequestOutcome::of_rejection(is_unknown).mark(on_reject.answer(rejection))
}

/// The same for a key that is not free, and not done.
pub(super) fn reject_busy(
    on_reject: &impl OnReject,
    (retry_after, by, unknown): (Option<Duration>, Option<&str>, bool),
    resource: Option<&Resource>,
) -> Response<Bytes> {
    let reason = if unknown {
        Refused::Unknown { remaining: retry_after, by }
    } else {
        Refused::InProgress { retry_after, by }
    };
    reject(on_reject, reason, resource)
}
