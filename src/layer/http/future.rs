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
    layer::{GuardError, call::RedlockCall},
    reject::{OnReject, RejectReason, Rejection},
    resource::Resource,
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
    state: HttpFutureState<S, B, R, A>,
    http: RedlockHttp<R>,
    facts: RequestFacts,
}

#[pin_project(project = HttpFutureStateProj)]
#[expect(
    clippy::large_enum_variant,
    reason = "the task's own memory holds the state: boxing costs an allocation"
)]
enum HttpFutureState<S: Service<Request<B>>, B, R, A> {
    Calling {
        #[pin]
        call: RedlockCall<S, Request<B>, RedlockHttp<R>>,
    },
    Buffering {
        #[pin]
        buffering: BufferResponse<A>,
        resource: Option<Resource>,
    },
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
        call: RedlockCall<S, Request<B>, RedlockHttp<R>>,
        http: RedlockHttp<R>,
        facts: RequestFacts,
    ) -> Self {
        Self { state: HttpFutureState::Calling { call }, http, facts }
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
        loop {
            match this.state.as_mut().project() {
                HttpFutureStateProj::Calling { mut call } => {
                    let (response, hold) = match ready!(call.as_mut().poll_covered(cx)) {
                        Ok(made) => made,
                        Err(GuardError::Service(error)) => return Poll::Ready(Err(error)),
                        Err(GuardError::Lock(error)) => {
                            let answer = reject(this.http, this.facts, &error, call.resource());
                            return Poll::Ready(Ok(answer));
                        }
                    };
                    let upgrades =
                        hold.is_some() && this.facts.connection.is_upgraded_by(&response);
                    let hold = match (&this.facts.offered, hold) {
                        (Some(offered), Some(hold)) if upgrades => offered.keep(hold),
                        (_, hold) => hold.filter(|_| this.http.hold_body),
                    };
                    if hold.is_some() && upgrades {
                        // Dropped before the lock is released.
                        drop(response);
                        drop(hold);
                        let answer = unguarded_upgrade(call.resource(), UNGUARDED);
                        return Poll::Ready(Ok(this.facts.connection.refuse(answer)));
                    }
                    if hold.is_none() || !this.facts.ends_with_connection(&response) {
                        let response = response.map(|body| HttpBody::of_service(body, hold));
                        return Poll::Ready(Ok(response));
                    }
                    let resource = call.resource().cloned();
                    let buffering = BufferResponse::new(response, hold);
                    this.state.set(HttpFutureState::Buffering { buffering, resource });
                }
                HttpFutureStateProj::Buffering { buffering, resource } => {
                    let answer = match ready!(buffering.poll(cx)) {
                        Ok(response) => response,
                        Err(Unread::Lost(error)) => {
                            reject(this.http, this.facts, &error, resource.as_ref())
                        }
                        Err(Unread::TooLarge) => {
                            this.facts.connection.refuse(too_large(resource.as_ref()))
                        }
                    };
                    return Poll::Ready(Ok(answer));
                }
            }
        }
    }
}

fn reject<R: OnReject<Response<Bytes>>, A: Body>(
    http: &RedlockHttp<R>,
    facts: &RequestFacts,
    error: &LockError,
    resource: Option<&Resource>,
) -> Response<HttpBody<A>> {
    let rejection = Rejection::new(RejectReason::Lock(error), resource);
    facts.connection.reject(&http.rejecter, rejection)
}

/// Why a response that upgrades the connection without a handle is refused.
const UNGUARDED: &str = "the connection would outlive the lock that its handler ran under; say \
                         hold_upgrade(true) and take a HeldUpgrade in the handler where it may not, \
                         and hold_body(false) where it may";

impl<S: Service<Request<B>>, B, R, A> fmt::Debug for RedlockHttpFuture<S, B, R, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            HttpFutureState::Calling { call } => call.name(),
            HttpFutureState::Buffering { .. } => "reading the response",
        };
        f.debug_struct("RedlockHttpFuture").field("state", &state).finish_non_exhaustive()
    }
}
