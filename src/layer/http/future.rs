use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Version, header::CONTENT_LENGTH};
use http_body::Body;
use pin_project::pin_project;
use tower_service::Service;

use super::{
    Http, HttpBody, OnReject, Rejection, RequestOutcome, gather::Gather, problem::problem,
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
    /// The handler may take the lock for the connection that it upgrades.
    offered: Option<Offered>,
}

impl Asked {
    pub(super) fn of<B, R, M>(request: &mut Request<B>, face: &Http<R, M>) -> Self {
        Self {
            connects: request.method() == Method::CONNECT,
            is_head: request.method() == Method::HEAD,
            version: request.version(),
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
                            return Poll::Ready(Ok(reject(this.face, &error, call.resource())));
                        }
                    };
                    let upgrades = hold.is_some() && this.asked.upgrades(&response);
                    let hold = match (&this.asked.offered, hold) {
                        (Some(offered), Some(hold)) if upgrades => offered.keep(hold),
                        (_, hold) => hold.filter(|_| this.face.hold_body),
                    };
                    if hold.is_some() && upgrades {
                        // Dropped before the lock is given back: the upgrade fails.
                        drop(response);
                        drop(hold);
                        let answer = unguarded_upgrade(call.resource());
                        return Poll::Ready(Ok(answer.map(HttpBody::of_bytes)));
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
                    let gathered = ready!(gather.poll(cx));
                    let lost = |error| reject(this.face, &error, resource.as_ref());
                    return Poll::Ready(Ok(gathered.unwrap_or_else(lost)));
                }
            }
        }
    }
}

fn reject<R: OnReject, A: Body>(
    face: &Http<R>,
    error: &LockError,
    resource: Option<&Resource>,
) -> Response<HttpBody<A>> {
    let rejection = Rejection::new(error, resource);
    rejection.log();
    let answer = face.on_reject.answer(rejection).map(HttpBody::of_bytes);
    RequestOutcome::of_rejection(rejection.has_begun()).mark(answer)
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
