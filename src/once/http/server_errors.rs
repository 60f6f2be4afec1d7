use std::time::Duration;

use super::Http;
use crate::{
    error::LockError,
    layer::KeyError,
    once::{OnceLayer, terms, work::Verdict},
    resource::Resource,
};

/// What becomes of a key whose request was answered with a server error, a 5xx.
///
/// See [`server_errors`](crate::OnceLayer::server_errors).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerErrors {
    /// It is free: the next try runs. For handlers that do nothing before they fail, or whose steps
    /// may be repeated.
    #[default]
    Free,
    /// It is done. A layer for `Idempotency-Key` keeps the response and sends it again; a webhook's
    /// sender is told at its next try that the event was handled, and stops.
    Keep,
    /// It is held for so long, from the response on, as that of work whose outcome is unknown, until a
    /// person or a reconciler decides: see [`Unknown::Hold`](crate::Unknown::Hold). Where the layer
    /// holds such keys anyhow, that one's time counts.
    ///
    /// Costs a round trip after the response. Where too few nodes keep it, the key is free; a WARN
    /// says so.
    Hold(Duration),
}

impl<K, C, R, M> OnceLayer<K, C, Http<R, M>> {
    /// What becomes of a key whose request was answered with a 5xx. Default: [`ServerErrors::Free`].
    ///
    /// Two things go before it: what the response itself [says](crate::RequestOutcome), and
    /// [`complete_when`](OnceLayer::complete_when): a 5xx that this calls done is done, and of the
    /// others the server errors are dealt with as it is said here.
    ///
    /// A service that fails without a response (its `Error`) leaves the key free.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_redlock::{OnceLayer, Redlock, Unknown, key, once::ServerErrors};
    ///
    /// let hold = Duration::from_secs(24 * 3600);
    /// # let _layer: OnceLayer<_, _, tower_redlock::once::http::Http> =
    /// OnceLayer::new(Redlock::embedded(), "ledger", key::header("webhook-id"))
    ///     .http()
    ///     // A person looks into what failed, in whatever way.
    ///     .unknown(Unknown::Hold(hold))
    ///     .server_errors(ServerErrors::Hold(hold));
    /// ```
    pub fn server_errors(mut self, errors: ServerErrors) -> Self {
        self.face.server_errors = errors;
        self
    }
}

impl ServerErrors {
    /// A request's key, unless what is to be done with it can't be.
    pub(super) fn check_with(
        self,
        found: Result<Option<Resource>, KeyError>,
    ) -> Result<Option<Resource>, LockError> {
        let found = found.map_err(|error| LockError::InvalidResource(error.into()))?;
        if let (Some(_), Self::Hold(time)) = (&found, self) {
            terms::check_time("ServerErrors::Hold", time)?;
        }
        Ok(found)
    }

    pub(super) const fn verdict(self) -> Verdict {
        match self {
            Self::Free => Verdict::Free,
            Self::Keep => Verdict::Done,
            Self::Hold(time) => Verdict::Unknown { hold: Some(time) },
        }
    }

    /// For how long it holds the keys of server errors.
    pub(super) const fn hold(self) -> Option<Duration> {
        match self {
            Self::Free | Self::Keep => None,
            Self::Hold(time) => Some(time),
        }
    }
}
