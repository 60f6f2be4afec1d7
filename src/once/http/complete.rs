use http::{Response, StatusCode};

use crate::once::{Always, Completes};

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

/// Done is what the service says was a success.
#[derive(Clone, Copy, Debug)]
pub(super) struct Successes<C>(pub(super) C);

impl<A, C: CompletesHttp<A>> Completes<Response<A>> for Successes<C> {
    fn completes(&self, response: &Response<A>) -> bool {
        self.0.completes(response, |status| status.is_success())
    }
}
