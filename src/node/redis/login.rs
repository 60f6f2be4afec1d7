//! A login: a user and a password, which may expire.

use std::{fmt, sync::Arc, time::Duration};

use ::redis::{Pipeline, Value};
use tokio::time::Instant;

use super::server_error::reason;
use crate::error::{Reason, UnfitServer};

/// A user, if it is not the default one, and a password.
#[derive(Clone)]
pub(super) struct Login {
    pub(super) username: Option<Arc<str>>,
    pub(super) password: Arc<str>,
    /// `None` if the password does not expire.
    pub(super) term: Option<LoginTerm>,
}

/// The time for which a password is accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoginTerm {
    renewal: Instant,
    end: Instant,
}

impl LoginTerm {
    /// Returns `None` if the expiry is beyond the range of the clock.
    pub(super) fn new(begin: Instant, valid_for: Duration) -> Option<Self> {
        let end = begin.checked_add(valid_for)?;
        let tenth = valid_for / 10;
        let renewal = begin + crate::random::within(&(tenth * 7..=tenth * 8));
        debug_assert!(renewal <= end, "a login is renewed before it expires");
        Some(Self { renewal, end })
    }

    /// Returns the time at which the next password is requested.
    pub(super) const fn renewal(&self) -> Instant {
        self.renewal
    }

    pub(super) const fn end(&self) -> Instant {
        self.end
    }
}

impl Login {
    pub(super) fn has_ended(&self) -> bool {
        self.term.is_some_and(|term| term.end <= Instant::now())
    }

    /// Adds the `AUTH` command.
    pub(super) fn add_to(&self, pipeline: &mut Pipeline) {
        let auth = pipeline.cmd("AUTH");
        if let Some(username) = &self.username {
            auth.arg(&**username);
        }
        auth.arg(&*self.password);
    }

    /// Hides the password in an error, as servers may repeat it.
    pub(super) fn hide(&self, mut reason: Reason) -> Reason {
        if self.password.is_empty() {
            return reason;
        }
        let hidden = |text: &str| text.replace(&*self.password, "***");
        match &mut reason {
            Reason::Auth(text)
            | Reason::NoPermission(text)
            | Reason::Server(text)
            | Reason::NotConnected(text)
            | Reason::Tls(text)
            | Reason::NotLocated(text)
            | Reason::Unfit(
                UnfitServer::NoScripts { error: text } | UnfitServer::NoDatabase { error: text },
            ) => *text = hidden(text).into(),
            Reason::Protocol(text) => *text = hidden(text).into(),
            _ => {}
        }
        reason
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("username", &self.username)
            .field("term", &self.term)
            .finish_non_exhaustive()
    }
}

/// Classifies the error of `AUTH` or of `SELECT`. Errors that are not known to be temporary are due
/// to the settings. A server without a password, for example, answers `AUTH` with a general error.
pub(super) fn refused_login(answer: &Value, is_auth: bool) -> Result<(), Reason> {
    let Value::ServerError(error) = answer else { return Ok(()) };
    Err(match reason(error) {
        Reason::Server(text) if is_auth => Reason::Auth(text),
        Reason::Server(error) => Reason::Unfit(UnfitServer::NoDatabase { error }),
        other => other,
    })
}
