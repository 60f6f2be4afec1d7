//! The future of an HTTP request.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Method, Request, Response, Version, header::CONTENT_LENGTH};
use http_body::Body;
use pin_project::pin_project;
use tower_service::Service;

use super::{
    HttpBody, RedlockHttp,
    buffered_response::{BufferResponse, Unread, too_large},
    connection::{ConnectionUse, unguarded_upgrade},
    upgrade::Offered,
};
use crate::{
    body::is_event_stream,
    error::LockError,
    layer::{GuardError, RedlockFuture},
    reject::{OnReject, RejectReason, Rejection},
};

/// The future of an HTTP request behind a [`RedlockLayer`](crate::RedlockLayer).
///
/// # Cancel safety
///
/// Dropping it drops the inner future, then releases the lock.
///
/// # Panics
///
/// If polled again after it was ready, or if the service panics; the lock is then released.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct RedlockHttpFuture<S: Service<Request<B>>, B, R, A> {
    #[pin]
    call: RedlockFuture<S, Request<B>, RedlockHttp<R>>,
    /// The response whose body is read, under the lock of the call.
    #[pin]
    buffering: Option<BufferResponse<A>>,
    facts: RequestFacts,
}

/// The facts about a request that decide how its response is sent.
#[derive(Debug)]
pub(super) struct RequestFacts {
    connection: ConnectionUse,
    is_head: bool,
    version: Version,
    /// `Some` if the handler may take the lock for the connection that it upgrades.
    offered: Option<Offered>,
}

impl RequestFacts {
    pub(super) fn of<B, R, M>(request: &mut Request<B>, http: &RedlockHttp<R, M>) -> Self {
        Self {
            connection: ConnectionUse::of(request),
            is_head: request.method() == Method::HEAD,
            version: request.version(),
            offered: http.hold_upgrade.then(|| Offered::to(request.extensions_mut())),
        }
    }

    /// Returns whether the end of the connection ends the body, as before HTTP/1.1. A truncated body then
    /// looks complete; an event stream never does.
    fn ends_with_connection<A: Body>(&self, response: &Response<A>) -> bool {
        let body = response.body();
        self.version <= Version::HTTP_10
            && !self.is_head
            && body.size_hint().exact().is_none()
            && !body.is_end_stream()
            && !response.headers().contains_key(CONTENT_LENGTH)
            && !is_event_stream(response.headers())
    }
}

impl<S: Service<Request<B>>, B, R, A> RedlockHttpFuture<S, B, R, A> {
    pub(super) const fn new(
        call: RedlockFuture<S, Request<B>, RedlockHttp<R>>,
        facts: RequestFacts,
    ) -> Self {
        Self { call, buffering: None, facts }
    }
}

impl<S, B, R, A> Future for RedlockHttpFuture<S, B, R, A>
where
    S: Service<Request<B>, Response = Response<A>>,
    R: OnReject<Response<Bytes>>,
    A: Body,
{
    type Output = Result<Response<HttpBody<A>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let connection = this.facts.connection;
        if this.buffering.is_none() {
            let polled = ready!(this.call.as_mut().poll_covered(cx));
            let (response, hold) = match polled {
                Ok(made) => made,
                Err(GuardError::Work(error)) => return Poll::Ready(Err(error)),
                Err(GuardError::Lock(error)) => {
                    return Poll::Ready(Ok(reject(&this.call, connection, &error)));
                }
            };
            let upgrades = hold.is_some() && connection.is_upgraded_by(&response);
            let hold = match (&this.facts.offered, hold) {
                (Some(offered), Some(hold)) if upgrades => offered.keep(hold),
                (_, hold) => hold.filter(|_| this.call.protocol.hold_body),
            };
            if hold.is_some() && upgrades {
                // Dropped before the lock is released.
                drop(response);
                drop(hold);
                let answer = unguarded_upgrade(this.call.resource(), UNGUARDED);
                return Poll::Ready(Ok(connection.refuse(answer)));
            }
            if hold.is_none() || !this.facts.ends_with_connection(&response) {
                return Poll::Ready(Ok(response.map(|body| HttpBody::of_service(body, hold))));
            }
            this.buffering.set(Some(BufferResponse::new(response, hold)));
        }
        let buffering = this.buffering.as_pin_mut().expect("it was set above");
        Poll::Ready(Ok(match ready!(buffering.poll(cx)) {
            Ok(response) => response,
            Err(Unread::Lost(error)) => reject(&this.call, connection, &error),
            Err(Unread::TooLarge) => connection.refuse(too_large(this.call.resource())),
        }))
    }
}

fn reject<S: Service<Request<B>>, B, R: OnReject<Response<Bytes>>, A: Body>(
    call: &RedlockFuture<S, Request<B>, RedlockHttp<R>>,
    connection: ConnectionUse,
    error: &LockError,
) -> Response<HttpBody<A>> {
    let rejection = Rejection::new(RejectReason::Lock(error), call.resource());
    connection.reject(&call.protocol.rejecter, rejection)
}

/// Why a response that upgrades the connection without a handle is refused.
const UNGUARDED: &str = "the connection would outlive the lock that its handler ran under; say \
                         hold_upgrade(true) and take a HeldUpgrade in the handler where it may not, \
                         and hold_body(false) where it may";

impl<S: Service<Request<B>>, B, R, A> fmt::Debug for RedlockHttpFuture<S, B, R, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_buffering = self.buffering.is_some();
        let state = if is_buffering { "reading the response" } else { self.call.state_name() };
        f.debug_struct("RedlockHttpFuture").field("state", &state).finish_non_exhaustive()
    }
}
