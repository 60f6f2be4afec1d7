//! Why an action was not done, or may not have been.

use std::fmt;

use http::StatusCode;
use tower_redlock::{LockError, error::ReleaseError, lock::NotReady, scheduler::ControlError};

use crate::{pages::problem, reply::Reply};

/// Why an action was not done, or may not have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ActionFailure {
    /// It asks for what can't be; nothing was sent.
    Refused(String),
    /// Too few servers answered: it may be in force or not.
    Unavailable(String),
}

impl ActionFailure {
    pub(super) fn reply(self) -> Reply {
        match self {
            Self::Refused(what) => problem(StatusCode::CONFLICT, "Not done", &what),
            Self::Unavailable(what) => {
                problem(StatusCode::SERVICE_UNAVAILABLE, "Too few servers answered", &what)
            }
        }
    }
}

impl fmt::Display for ActionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Refused(what) | Self::Unavailable(what)) = self;
        f.write_str(what)
    }
}

impl From<NotReady> for ActionFailure {
    fn from(error: NotReady) -> Self {
        Self::Unavailable(format!("nothing was sent: {error}"))
    }
}

impl From<LockError> for ActionFailure {
    fn from(error: LockError) -> Self {
        let text = error.to_string();
        match error.root() {
            LockError::NoQuorum { .. } | LockError::TooSlow { .. } | LockError::Lost { .. } => {
                Self::Unavailable(text)
            }
            _ => Self::Refused(text),
        }
    }
}

impl From<ControlError> for ActionFailure {
    fn from(error: ControlError) -> Self {
        let text = error.to_string();
        match error {
            ControlError::Nodes { .. } | ControlError::Incomplete { .. } => Self::Unavailable(text),
            _ => Self::Refused(text),
        }
    }
}

impl From<ReleaseError> for ActionFailure {
    fn from(error: ReleaseError) -> Self {
        let text = error.to_string();
        match error {
            ReleaseError::NoQuorum { .. } => Self::Unavailable(text),
            _ => Self::Refused(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_tells_what_failed() {
        let status = |failure: ActionFailure| failure.reply().status();
        let votes = tower_redlock::error::Votes::default();
        assert_eq!(status(LockError::NoQuorum { votes: votes.clone() }.into()), 503);
        assert_eq!(status(ReleaseError::NoQuorum { votes }.into()), 503);
        assert_eq!(status(ReleaseError::Foreign.into()), 409);
        assert_eq!(status(LockError::InvalidRequest("x".into()).into()), 409);
    }
}
