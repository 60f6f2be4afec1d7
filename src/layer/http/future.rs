use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{
    HeaderValue, Method, Request, Response, StatusCode, Version,
    header::{CONNECTION, CONTENT_LENGTH, UPGRADE},
};
use http_body::Body;
use pin_project::pin_project;
use tower_service::Service;

use super::{
    Http, HttpBody, OnReject, Rejection, RequestOutcome,
    gather::{Gather, Unread, too_large},
    problem::problem,
    upgrade::Offered,
};
use crate::{
    error::LockError,
    layer::{Error, call::Call},
    resource::Resource,
};

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
pub struct HttpFuture<S: Service<Request<B>>, B, R, A> {
    #[pin]
    state: State<S, B, R, A>,
    face: Http<R>,
    asked: Asked,
}

#[pin_project(project = StateProj)]
#[expect(
    clippy::large_enum_variant,
    reason = "what a task keeps in its own memory need not be allocated once more"
)]
enum State<S: Service<Request<B>>, B, R, A> {
    Calling {
        #[pin]
        call: Call<S, Request<B>, Http<R>>,
    },
    Gathering {
        #[pin]
        gather: Gather<A>,
        resource: Option<Resource>,
    },
}

/// What of a request decides how its response is sent.
#[derive(Debug)]
pub(super) struct Asked {
    connects: bool,
    is_head: bool,
    version: Version,
    /// The handler may have taken the connection, which it gets when that leaves HTTP or ends. In
    /// HTTP/2 a stream is handed over with its response, or never.
    may_upgrade: bool,
    /// The handler may take the lock for the connection that it upgrades.
    offered: Option<Offered>,
}

impl Asked {
    pub(super) fn of<B, R, M>(request: &mut Request<B>, face: &Http<R, M>) -> Self {
        let connects = request.method() == Method::CONNECT;
        Self {
            connects,
            is_head: request.method() == Method::HEAD,
            version: request.version(),
            may_upgrade: request.version() < Version::HTTP_2
                && (connects || request.headers().contains_key(UPGRADE)),
            offered: face.hold_upgrade.then(|| Offered::to(request.extensions_mut())),
        }
    }

    /// Whether the connection changes its protocol.
    fn upgrades<A>(&self, response: &Response<A>) -> bool {
        response.status() == StatusCode::SWITCHING_PROTOCOLS
            || (self.connects && response.status().is_success())
    }

    /// Whether the body's end would be that of the connection, as before HTTP/1.1, so that one that
    /// was cut looks complete.
    fn ends_with_connection<A: Body>(&self, response: &Response<A>) -> bool {
        let body = response.body();
        self.version <= Version::HTTP_10
            && !self.is_head
            && body.size_hint().exact().is_none()
            && !body.is_end_stream()
            && !response.headers().contains_key(CONTENT_LENGTH)
    }

    /// The layer's own answer to a request whose handler began, and has no lock any more: the
    /// handler does not get the connection either.
    fn refuse<A: Body>(&self, mut answer: Response<Bytes>) -> Response<HttpBody<A>> {
        if !self.may_upgrade {
            return answer.map(HttpBody::of_bytes);
        }
        let headers = answer.headers_mut();
        // A server would poll no further than this.
        headers.remove(CONTENT_LENGTH);
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        answer.map(HttpBody::of_last_bytes)
    }
}

impl<S: Service<Request<B>>, B, R, A> HttpFuture<S, B, R, A> {
    pub(super) const fn new(
        call: Call<S, Request<B>, Http<R>>,
        face: Http<R>,
        asked: Asked,
    ) -> Self {
        Self { state: State::Calling { call }, face, asked }
    }
}

impl<S, B, R, A> Future for HttpFuture<S, B, R, A>
where
    S: Service<Request<B>, Response = Response<A>>,
    R: OnReject,
    A: Body,
{
    type Output = Result<Response<HttpBody<A>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                StateProj::Calling { mut call } => {
                    let (response, hold) = match ready!(call.as_mut().poll_covered(cx)) {
                        Ok(made) => made,
                        Err(Error::Service(error)) => return Poll::Ready(Err(error)),
                        Err(Error::Lock(error)) => {
                            let answer = reject(this.face, this.asked, &error, call.resource());
                            return Poll::Ready(Ok(answer));
                        }
                    };
                    let upgrades = hold.is_some() && this.asked.upgrades(&response);
                    let hold = match (&this.asked.offered, hold) {
                        (Some(offered), Some(hold)) if upgrades => offered.keep(hold),
                        (_, hold) => hold.filter(|_| this.face.hold_body),
                    };
                    if hold.is_some() && upgrades {
                        // Dropped before the lock is given back.
                        drop(response);
                        drop(hold);
                        let answer = unguarded_upgrade(call.resource());
                        return Poll::Ready(Ok(this.asked.refuse(answer)));
                    }
                    if hold.is_none() || !this.asked.ends_with_connection(&response) {
                        let response = response.map(|body| HttpBody::of_service(body, hold));
                        return Poll::Ready(Ok(response));
                    }
                    let resource = call.resource().cloned();
                    let gather = Gather::new(response, hold);
                    this.state.set(State::Gathering { gather, resource });
                }
                StateProj::Gathering { gather, resource } => {
                    let answer = match ready!(gather.poll(cx)) {
                        Ok(response) => response,
                        Err(Unread::Lost(error)) => {
                            reject(this.face, this.asked, &error, resource.as_ref())
                        }
                        Err(Unread::TooLarge) => this.asked.refuse(too_large()),
                    };
                    return Poll::Ready(Ok(answer));
                }
            }
        }
    }
}

fn reject<R: OnReject, A: Body>(
    face: &Http<R>,
    asked: &Asked,
    error: &LockError,
    resource: Option<&Resource>,
) -> Response<HttpBody<A>> {
    let rejection = Rejection::new(error, resource);
    rejection.log();
    let answer = face.on_reject.answer(rejection);
    let has_begun = rejection.has_begun();
    let answer = if has_begun { asked.refuse(answer) } else { answer.map(HttpBody::of_bytes) };
    RequestOutcome::of_rejection(has_begun).mark(answer)
}

/// Nothing drops a connection that has left HTTP when the lock ends.
fn unguarded_upgrade(resource: Option<&Resource>) -> Response<Bytes> {
    crate::log::error!(
        resource = resource.map(tracing::field::display),
        "upgrade refused: the connection would outlive the lock that its handler ran under; say \
         hold_upgrade(true) and take a HeldUpgrade in the handler where it may not, and \
         hold_body(false) where it may"
    );
    problem(
        StatusCode::INTERNAL_SERVER_ERROR,
        "upgrade-unguarded",
        "the request ran, and the connection can't be upgraded: it would not be under the lock",
        true,
    )
}

impl<S: Service<Request<B>>, B, R, A> fmt::Debug for HttpFuture<S, B, R, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Calling { call } => call.name(),
            State::Gathering { .. } => "reading the response",
        };
        f.debug_struct("HttpFuture").field("state", &state).finish_non_exhaustive()
    }
}
