use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body::Body;
use pin_project::pin_project;
use tower_service::Service;

use super::{
    CompletesHttp, OnReject, Refused,
    call::HttpCall,
    completion::Successes,
    reject::{reject, reject_busy},
};
use crate::{
    layer::http::{HttpBody, RequestOutcome},
    once::{OnceError, Unchecked, call::OnceCall, outcome::OnceOutcome},
};

pub(super) type Call<S, B, C> = OnceCall<HttpCall<S, B>, Unchecked, Successes<C>>;

/// The future of a webhook behind an [`OnceLayer`](crate::OnceLayer).
///
/// # Cancel safety
///
/// Dropping it before the service was called gives the key back. After that the service runs to its
/// end, and that is recorded, unless [`detached`](crate::OnceLayer::detached) says something else.
///
/// # Panics
///
/// If polled again after it was ready, and where the service panics: its outcome is unknown then, see
/// [`Unknown`](crate::Unknown).
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct HttpFuture<S: Service<Request<B>>, B, C, R> {
    #[pin]
    call: Call<S, B, C>,
    on_reject: R,
}

impl<S: Service<Request<B>>, B, C, R> HttpFuture<S, B, C, R> {
    pub(super) const fn new(call: Call<S, B, C>, on_reject: R) -> Self {
        Self { call, on_reject }
    }
}

impl<S, B, C, R, A> Future for HttpFuture<S, B, C, R>
where
    S: Service<Request<B>, Response = Response<A>>,
    C: CompletesHttp<A>,
    R: OnReject,
    A: Body,
{
    type Output = Result<Response<HttpBody<A>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let ended = ready!(this.call.as_mut().poll(cx));
        let (resource, on_reject) = (this.call.resource(), &*this.on_reject);
        let answer = match ended {
            // Also where nobody keeps that it is done: a sender that is told otherwise sends again.
            Ok(OnceOutcome::Ran(response) | OnceOutcome::Unrecorded(response, _)) => {
                return Poll::Ready(Ok(response.map(|body| HttpBody::of_service(body, None))));
            }
            Ok(OnceOutcome::Done { .. }) => duplicate(),
            Ok(OnceOutcome::Busy { retry_after, by, unknown }) => {
                reject_busy(on_reject, (retry_after, by.as_deref(), unknown), resource)
            }
            Err(OnceError::Work(error)) => return Poll::Ready(Err(error)),
            Err(OnceError::Lock(error)) => reject(on_reject, Refused::Lock(&error), resource),
        };
        Poll::Ready(Ok(answer.map(HttpBody::of_bytes)))
    }
}

/// For senders, which look at the status alone, it is a success.
fn duplicate() -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let name = HeaderName::from_static("once");
    response.headers_mut().insert(name, HeaderValue::from_static("duplicate"));
    RequestOutcome::Done.mark(response)
}

impl<S: Service<Request<B>>, B, C, R> fmt::Debug for HttpFuture<S, B, C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpFuture").field("state", &self.call.name()).finish_non_exhaustive()
    }
}
