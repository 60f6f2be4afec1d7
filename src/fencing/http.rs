//! The face that stale tokens have over HTTP.

use std::{
    borrow::Cow,
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use pin_project::pin_project;
use tower_service::Service;

use super::{FencingError, FencingLayer, FencingService, TokenError, TokenSource, call::Fenced};
use crate::layer::{
    ResourceKey,
    http::{HttpBody, problem},
};

/// Stale tokens are HTTP responses. Made by [`FencingLayer::http`].
#[derive(Clone, Copy, Debug)]
pub struct Http(());

impl<K, T> FencingLayer<K, T> {
    /// Makes errors responses, with problem bodies after RFC 9457:
    ///
    /// | what happened | status | `code` | `outcome` |
    /// |---|---|---|---|
    /// | a newer token was seen before | 412 | `stale-token` | `not-run` |
    /// | a newer token came while it ran | 412 | `stale-token` | `unknown` |
    /// | no token | 428 | `missing-token` | `not-run` |
    /// | a token that can't be read | 400 | `bad-token` | `not-run` |
    /// | no usable key | 400 | `bad-key` | `not-run` |
    ///
    /// No answer tells the newest token. A layer outside is told by
    /// [`RequestOutcome`](crate::layer::http::RequestOutcome) what became of the request. The service's own error type stays what it was.
    pub fn http(self) -> FencingLayer<K, T, Http> {
        self.with_face(Http(()))
    }
}

impl FencingError {
    /// The answer to the request: see [`FencingLayer::http`].
    pub fn response(&self) -> Response<Bytes> {
        let (status, code) = match self {
            Self::Stale { .. } | Self::Overtaken { .. } => {
                (StatusCode::PRECONDITION_FAILED, "stale-token")
            }
            Self::Token(TokenError::Missing(_)) => {
                (StatusCode::PRECONDITION_REQUIRED, "missing-token")
            }
            Self::Token(TokenError::Invalid(_)) => (StatusCode::BAD_REQUEST, "bad-token"),
            Self::Key(error) if error.is_setup() => {
                (StatusCode::INTERNAL_SERVER_ERROR, "bad-settings")
            }
            Self::Key(_) => (StatusCode::BAD_REQUEST, "bad-key"),
        };
        problem(status, code, &self.detail(), self.has_begun())
    }

    /// What happened, in words for whoever sent the request. They don't tell the newest token: who
    /// was overtaken must take the lock anew, and not send the number that it was told.
    pub(super) fn detail(&self) -> Cow<'static, str> {
        match self {
            Self::Stale { .. } => {
                "the fencing token is stale: a newer one was seen before; nothing was done".into()
            }
            Self::Overtaken { .. } => {
                "a newer fencing token came while the request ran: it may have happened, or \
                 happened in part"
                    .into()
            }
            Self::Key(error) if error.is_setup() => {
                "the service does not find what is written to; nothing was done".into()
            }
            Self::Token(_) | Self::Key(_) => format!("{self}; nothing was done").into(),
        }
    }
}

impl<S, K, T, B, A> Service<Request<B>> for FencingService<S, K, T, Http>
where
    S: Service<Request<B>, Response = Response<A>>,
    K: ResourceKey<Request<B>>,
    T: TokenSource<Request<B>>,
    A: Body,
{
    type Response = Response<HttpBody<A>>;
    type Error = S::Error;
    type Future = HttpFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        HttpFuture { fenced: self.begin(request) }
    }
}

/// The future of an HTTP request behind a [`FencingLayer`]; `F` is the service's own.
///
/// # Cancel safety
///
/// Dropping it drops the inner future. The token was seen nevertheless.
///
/// # Panics
///
/// If polled again after it was ready, and where the service panics.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct HttpFuture<F> {
    #[pin]
    fenced: Fenced<F>,
}

impl<F, A, E> Future for HttpFuture<F>
where
    F: Future<Output = Result<Response<A>, E>>,
    A: Body,
{
    type Output = Result<Response<HttpBody<A>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(self.project().fenced.poll(cx)) {
            Ok(result) => {
                result.map(|response| response.map(|body| HttpBody::of_service(body, None)))
            }
            Err(error) => Ok(error.response().map(HttpBody::of_bytes)),
        })
    }
}

impl<F> fmt::Debug for HttpFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpFuture").field("state", &self.fenced.name()).finish_non_exhaustive()
    }
}
