//! What a response does to the key of its request.

use std::time::Duration;

use http::{Response, StatusCode};

use crate::{
    once::{Always, work::WorkVerdict},
    reject::RequestOutcome,
};

/// Decides which responses mean that a key is done. Implemented by closures, for
/// [`complete_when`](crate::OnceLayer::complete_when); without one, the layer decides by the status.
pub trait CompletesHttp<A> {
    /// Returns whether the key is done; `rule` is the layer's own.
    fn completes(&self, response: &Response<A>, rule: &dyn Fn(StatusCode) -> bool) -> bool;
}

impl<A> CompletesHttp<A> for Always {
    fn completes(&self, response: &Response<A>, rule: &dyn Fn(StatusCode) -> bool) -> bool {
        rule(response.status())
    }
}

impl<A, F: Fn(&Response<A>) -> bool> CompletesHttp<A> for F {
    fn completes(&self, response: &Response<A>, _: &dyn Fn(StatusCode) -> bool) -> bool {
        self(response)
    }
}

/// The settings that decide what a response does to its key.
#[derive(Clone, Copy, Debug)]
pub(in crate::once) struct CompletionRules<C> {
    pub(in crate::once) complete: C,
    pub(in crate::once) server_errors: ServerErrors,
}

impl<C> CompletionRules<C> {
    /// `rule` is the layer's own. The response's [`RequestOutcome`] takes precedence, so that nothing
    /// that was refused, or whose outcome is unknown, counts as done.
    pub(super) fn verdict<A>(
        &self,
        response: &Response<A>,
        rule: &dyn Fn(StatusCode) -> bool,
    ) -> WorkVerdict
    where
        C: CompletesHttp<A>,
    {
        let is_server_error = response.status().is_server_error();
        match RequestOutcome::of(response) {
            Some(RequestOutcome::Done) => WorkVerdict::done(),
            Some(RequestOutcome::Unknown) => {
                let hold = self.server_errors.hold().filter(|_| is_server_error);
                WorkVerdict::Unknown { hold }
            }
            None if self.complete.completes(response, rule) => WorkVerdict::done(),
            None if is_server_error => self.server_errors.verdict(),
            Some(RequestOutcome::Refused) | None => WorkVerdict::Free,
        }
    }

    /// Returns the verdict on a request that was answered with a 5xx instead of the response of its
    /// handler.
    pub(super) const fn unknown_error(&self) -> WorkVerdict {
        WorkVerdict::Unknown { hold: self.server_errors.hold() }
    }
}

/// What happens to a key whose request was answered with a server error, a 5xx.
///
/// See [`server_errors`](crate::OnceLayer::server_errors).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerErrors {
    /// It is free: the next try runs. For handlers that do nothing before they fail, or whose steps
    /// can be repeated.
    #[default]
    Release,
    /// It is done. A layer for `Idempotency-Key` stores the response and replays it; the next try of a
    /// webhook's sender is answered as a duplicate.
    Keep,
    /// It is held for this time after the response, like that of work whose outcome is unknown: see
    /// [`UnknownOutcome::Hold`](crate::once::UnknownOutcome::Hold). If the layer sets that too, its time applies.
    ///
    /// Costs a round trip after the response. If too few nodes store the record, the key is free, and
    /// a WARN is logged.
    Hold(Duration),
}

impl ServerErrors {
    /// Returns the time for which keys are held.
    pub(in crate::once) const fn hold(self) -> Option<Duration> {
        match self {
            Self::Hold(time) => Some(time),
            Self::Release | Self::Keep => None,
        }
    }

    fn verdict(self) -> WorkVerdict {
        match self {
            Self::Release => WorkVerdict::Free,
            Self::Keep => WorkVerdict::done(),
            Self::Hold(time) => WorkVerdict::Unknown { hold: Some(time) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        defaults::{assert_documented, bytes, duration, variant},
        layer::http::DEFAULT_BODY_TIMEOUT,
        once::{DEFAULT_BODY_LIMIT, http::DEFAULT_RESPONSE_LIMIT},
    };

    #[test]
    fn defaults_are_in_the_guide() {
        assert_documented("server_errors", &variant("ServerErrors", ServerErrors::default()));
        assert_documented("response_limit", &bytes(DEFAULT_RESPONSE_LIMIT));
        assert_documented("body_limit", &bytes(DEFAULT_BODY_LIMIT));
        assert_documented("body_timeout", &duration(DEFAULT_BODY_TIMEOUT));
    }

    fn verdict(status: u16, outcome: Option<RequestOutcome>) -> WorkVerdict {
        let server_errors = ServerErrors::Hold(Duration::from_secs(9));
        let rules = CompletionRules { complete: Always::default(), server_errors };
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        if let Some(outcome) = outcome {
            response.extensions_mut().insert(outcome);
        }
        rules.verdict(&response, &|status| status.is_success())
    }

    #[test]
    fn only_server_errors_are_held() {
        let unknown = |seconds| WorkVerdict::Unknown { hold: seconds };
        let hold = Some(Duration::from_secs(9));
        assert_eq!(verdict(500, None), unknown(hold));
        assert_eq!(verdict(500, Some(RequestOutcome::Unknown)), unknown(hold));
        assert_eq!(verdict(202, Some(RequestOutcome::Unknown)), unknown(None));
        assert_eq!(verdict(404, None), WorkVerdict::Free);
        assert_eq!(verdict(500, Some(RequestOutcome::Refused)), WorkVerdict::Free);
        assert_eq!(verdict(200, None), WorkVerdict::done());
    }
}
