use http::{Response, StatusCode};

use super::ServerErrors;
use crate::{
    layer::http::RequestOutcome,
    once::{Always, Completes, work::Verdict},
};

/// Tells which responses mean that a key is done: closures do
/// ([`complete_when`](crate::OnceLayer::complete_when)); without one, the face has its own rule for
/// the status.
pub trait CompletesHttp<A> {
    /// Whether the key is done; `rule` is the face's own.
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

/// What becomes of the key of a request, by its response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules<C> {
    pub(super) complete: C,
    pub(super) server_errors: ServerErrors,
}

impl<C> Rules<C> {
    /// `rule` is the face's own. What the response says goes before all else, so that nothing that was
    /// turned away, or whose outcome is not known, counts as done.
    pub(super) fn verdict<A>(
        &self,
        response: &Response<A>,
        rule: &dyn Fn(StatusCode) -> bool,
    ) -> Verdict
    where
        C: CompletesHttp<A>,
    {
        let is_server_error = response.status().is_server_error();
        match RequestOutcome::of(response) {
            Some(RequestOutcome::Done) => Verdict::Done,
            Some(RequestOutcome::Unknown) => {
                let hold = self.server_errors.hold().filter(|_| is_server_error);
                Verdict::Unknown { hold }
            }
            None if self.complete.completes(response, rule) => Verdict::Done,
            None if is_server_error => self.server_errors.verdict(),
            Some(RequestOutcome::Refused) | None => Verdict::Free,
        }
    }
}

/// Done is what the service says was a success.
#[derive(Clone, Copy, Debug)]
pub(super) struct Successes<C>(pub(super) Rules<C>);

impl<A, C: CompletesHttp<A>> Completes<Response<A>> for Successes<C> {
    fn completes(&self, response: &Response<A>) -> bool {
        self.verdict(response) == Verdict::Done
    }

    fn verdict(&self, response: &Response<A>) -> Verdict {
        self.0.verdict(response, &|status| status.is_success())
    }
}
