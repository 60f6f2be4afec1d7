//! The call of a service under the lock of its key, and the future of a webhook.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body::Body;
use pin_project::pin_project;
use tower_service::Service;

use super::{CompletesHttp, completion::SuccessCompletion};
use crate::{
    guard::{LockContext, LockContexts},
    layer::{ReadyCall, http::HttpBody, token_header::TokenHeader},
    once::{OnceError, Unchecked, Work, call::OnceCall, outcome::OnceOutcome},
    reject::{OnReject, RejectReason, Rejection, RequestOutcome},
    resource::Resource,
};

/// Calls the service with the lock's context in the request's extensions.
#[derive(Debug)]
pub(in crate::once) struct HttpCall<S, B> {
    service: S,
    request: Request<B>,
    token_header: TokenHeader,
    layer: Arc<str>,
}

impl<S, B> HttpCall<S, B> {
    pub(in crate::once) const fn new(
        service: S,
        request: Request<B>,
        token_header: TokenHeader,
        layer: Arc<str>,
    ) -> Self {
        Self { service, request, token_header, layer }
    }
}

impl<S: Service<Request<B>>, B> Work for HttpCall<S, B> {
    type Future = ReadyCall<S, Request<B>>;
    type Success = S::Response;
    type Failure = S::Error;

    fn begin(mut self, context: LockContext) -> Self::Future {
        self.token_header.set(self.request.headers_mut(), context.fencing_token());
        LockContexts::enter(self.request.extensions_mut(), Some(self.layer), context);
        ReadyCall::new(self.service, self.request)
    }
}

type GuardedHttpCall<S, B, C> = OnceCall<HttpCall<S, B>, Unchecked, SuccessCompletion<C>>;

/// The future of a webhook behind an [`OnceLayer`](crate::OnceLayer).
///
/// # Cancel safety
///
/// Dropping it before the call of the service frees the key. After that the service runs to its end,
/// which is recorded, unless [`detached`](crate::OnceLayer::detached) is off.
///
/// # Panics
///
/// If polled again after it was ready, or if the service panics: see [`UnknownOutcome`](crate::once::UnknownOutcome).
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct OnceHttpFuture<S: Service<Request<B>>, B, C, R> {
    #[pin]
    call: GuardedHttpCall<S, B, C>,
    on_reject: R,
}

impl<S: Service<Request<B>>, B, C, R> OnceHttpFuture<S, B, C, R> {
    pub(super) const fn new(call: GuardedHttpCall<S, B, C>, on_reject: R) -> Self {
        Self { call, on_reject }
    }
}

impl<S, B, C, R, A> Future for OnceHttpFuture<S, B, C, R>
where
    S: Service<Request<B>, Response = Response<A>>,
    C: CompletesHttp<A>,
    R: OnReject<Response<Bytes>>,
    A: Body,
{
    type Output = Result<Response<HttpBody<A>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let ended = ready!(this.call.as_mut().poll(cx));
        let (resource, on_reject) = (this.call.resource(), &*this.on_reject);
        let answer = match ended {
            // Also without a record: after an error the sender would send the event again.
            Ok(OnceOutcome::Ran(response) | OnceOutcome::Unrecorded(response, _)) => {
                return Poll::Ready(Ok(response.map(|body| HttpBody::of_service(body, None))));
            }
            Ok(OnceOutcome::Done { .. }) => duplicate(),
            Ok(OnceOutcome::Busy { retry_after, by, unknown }) => {
                let reason = RejectReason::busy(unknown, retry_after, by.as_deref());
                reject(on_reject, reason, resource)
            }
            Err(OnceError::Work(error)) => return Poll::Ready(Err(error)),
            Err(OnceError::Lock(error)) => reject(on_reject, RejectReason::Lock(&error), resource),
        };
        Poll::Ready(Ok(answer.map(HttpBody::of_bytes)))
    }
}

/// Logs the rejection, and makes the response.
pub(super) fn reject(
    on_reject: &impl OnReject<Response<Bytes>>,
    reason: RejectReason<'_>,
    resource: Option<&Resource>,
) -> Response<Bytes> {
    let rejection = Rejection::new(reason, resource);
    rejection.log();
    let (response, outcome) = rejection.answer(on_reject);
    outcome.mark(response)
}

/// A success, as senders go by the status alone.
fn duplicate() -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let name = HeaderName::from_static("once");
    response.headers_mut().insert(name, HeaderValue::from_static("duplicate"));
    RequestOutcome::Done.mark(response)
}

impl<S: Service<Request<B>>, B, C, R> fmt::Debug for OnceHttpFuture<S, B, C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceHttpFuture").field("state", &self.call.name()).finish_non_exhaustive()
    }
}
