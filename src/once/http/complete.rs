use http::{Response, StatusCode};

use crate::{
    layer::http::RequestOutcome,
    once::{Always, Completes, judge::Verdict},
};

/// Tells which responses mean that a key is done: closures do
/// ([`complete_when`](crate::OnceLayer::complete_when)); without one, the face has its own rule for
/// the status.
pub trait CompletesHttp<A> {
    /// Whether the key is done; `rule` is the face's own.
    fn completes(&self, response: &Response<A>, rule: fn(StatusCode) -> bool) -> bool;
}

impl<A> CompletesHttp<A> for Always {
    fn completes(&self, response: &Response<A>, rule: fn(StatusCode) -> bool) -> bool {
        rule(response.status())
    }
}

impl<A, F: Fn(&Response<A>) -> bool> CompletesHttp<A> for F {
    fn completes(&self, response: &Response<A>, _: fn(StatusCode) -> bool) -> bool {
        self(response)
    }
}

/// What becomes of the key of a request with this response: what the response says goes before all
/// else, so that nothing that was turned away, or whose outcome is not known, counts as done.
pub(super) fn verdict<A>(
    response: &Response<A>,
    complete: &impl CompletesHttp<A>,
    rule: fn(StatusCode) -> bool,
) -> Verdict {
    match RequestOutcome::of(response) {
        Some(RequestOutcome::Done) => Verdict::Done,
        Some(RequestOutcome::Unknown) => Verdict::Unknown,
        None if complete.completes(response, rule) => Verdict::Done,
        Some(RequestOutcome::Refused) | None => Verdict::Free,
    }
}

/// Done is what the service says was a success.
#[derive(Clone, Copy, Debug)]
pub(super) struct Successes<C>(pub(super) C);

impl<A, C: CompletesHttp<A>> Completes<Response<A>> for Successes<C> {
    fn completes(&self, response: &Response<A>) -> bool {
        self.verdict(response) == Verdict::Done
    }

    fn verdict(&self, response: &Response<A>) -> Verdict {
        verdict(response, &self.0, |status| status.is_success())
    }
}
