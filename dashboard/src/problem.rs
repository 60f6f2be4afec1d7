//! Why a request gets another answer than it asks for.

use std::{borrow::Cow, error::Error};

use http::StatusCode;
use tower_redlock::{LockError, error::ReleaseError, lock::NotReady, scheduler::ControlError};

/// The status and the words of an answer that is an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) title: &'static str,
    pub(crate) what: Cow<'static, str>,
}

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        title: &'static str,
        what: impl Into<Cow<'static, str>>,
    ) -> Self {
        debug_assert!(status.is_client_error() || status.is_server_error(), "{status}");
        Self { status, title, what: what.into() }
    }

    pub(crate) fn bad_request(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "Bad request", what)
    }

    /// The viewer has access, and asks for more.
    pub(crate) fn denied(what: &'static str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", what)
    }

    pub(crate) fn not_found(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "Not found", what)
    }

    /// An action is impossible; nothing was sent.
    pub(crate) fn not_done(what: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::CONFLICT, "Not done", what)
    }

    /// Too few servers answered: an action may be in force or not.
    fn unavailable(what: String) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "Too few servers answered", what)
    }

    fn of(error: &dyn Error, is_unavailable: bool) -> Self {
        let what = error.to_string();
        if is_unavailable { Self::unavailable(what) } else { Self::not_done(what) }
    }
}

impl From<NotReady> for Problem {
    fn from(error: NotReady) -> Self {
        Self::unavailable(format!("nothing was sent: {error}"))
    }
}

impl From<LockError> for Problem {
    fn from(error: LockError) -> Self {
        use LockError::{Lost, NoQuorum, TooSlow};
        let root = error.root();
        Self::of(&error, matches!(root, NoQuorum { .. } | TooSlow { .. } | Lost { .. }))
    }
}

impl From<ControlError> for Problem {
    fn from(error: ControlError) -> Self {
        use ControlError::{Incomplete, Nodes};
        Self::of(&error, matches!(error, Nodes { .. } | Incomplete { .. }))
    }
}

impl From<ReleaseError> for Problem {
    fn from(error: ReleaseError) -> Self {
        Self::of(&error, matches!(error, ReleaseError::NoQuorum { .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_tells_what_failed() {
        let status = |problem: Problem| problem.status;
        let votes = tower_redlock::error::Votes::default();
        assert_eq!(status(LockError::NoQuorum { votes: votes.clone() }.into()), 503);
        assert_eq!(status(ReleaseError::NoQuorum { votes }.into()), 503);
        assert_eq!(status(ReleaseError::Foreign.into()), 409);
        assert_eq!(status(LockError::InvalidRequest("x".into()).into()), 409);
    }
}
