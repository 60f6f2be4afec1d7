use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::{Request, Response, StatusCode};
use http_body::Body;
use pin_project::pin_project;
use tower_service::Service;

use super::{Http, HttpBody, OnReject, Rejection};
use crate::layer::{Error, call::Call};

/// The future of an HTTP request behind a [`RedlockLayer`](crate::RedlockLayer).
///
/// # Cancel safety
///
/// Dropping it drops the inner future, then gives the lock back.
///
/// # Panics
///
/// If polled again after it was ready, and where the service panics; the lock is given back then.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct HttpFuture<S: Service<Request<B>>, B, R> {
    #[pin]
    call: Call<S, Request<B>, Http<R>>,
    face: Http<R>,
    connects: bool,
}

impl<S: Service<Request<B>>, B, R> HttpFuture<S, B, R> {
    pub(super) const fn new(
        call: Call<S, Request<B>, Http<R>>,
        face: Http<R>,
        connects: bool,
    ) -> Self {
        Self { call, face, connects }
    }
}

impl<S, B, R, A> Future for HttpFuture<S, B, R>
where
    S: Service<Request<B>, Response = Response<A>>,
    R: OnReject,
    A: Body,
{
    type Output = Result<Response<HttpBody<A>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        Poll::Ready(match ready!(this.call.as_mut().poll(cx)) {
            Ok((response, hold)) => {
                let upgrades = response.status() == StatusCode::SWITCHING_PROTOCOLS
                    || (*this.connects && response.status().is_success());
                let hold = hold.filter(|_| this.face.hold_body && !upgrades);
                Ok(response.map(|body| HttpBody::of_service(body, hold)))
            }
            Err(Error::Service(error)) => Err(error),
            Err(Error::Lock(error)) => {
                let rejection = Rejection::new(&error, this.call.resource());
                rejection.log();
                Ok(this.face.on_reject.answer(rejection).map(HttpBody::of_rejection))
            }
        })
    }
}

impl<S: Service<Request<B>>, B, R> fmt::Debug for HttpFuture<S, B, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpFuture").field("state", &self.call.name()).finish_non_exhaustive()
    }
}
