//! Requests whose body is read before their lock is asked for.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::{Request, Response, request::Parts};
use http_body::Body;
use pin_project::pin_project;
use tower_service::Service;

use super::{Http, HttpBody, HttpFuture, OnReject, Streamed, future::Asked};
use crate::{
    body::{Intact, ReadBody, ReadBodyError},
    error::LockError,
    layer::{RedlockLayer, RedlockService, ResourceKey, call::Call},
    lock::LockRequest,
    resource::{BodyFault, Resource, ResourceError},
};

/// How long a request's body may take to come, where nothing else is said: 30 s.
pub const DEFAULT_BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The request's body is read before its lock is asked for. Made by
/// [`RedlockLayer::read_body_first`].
#[derive(Clone, Copy, Debug)]
pub struct ReadFirst {
    limit: usize,
    timeout: Duration,
}

impl<K, R> RedlockLayer<K, Http<R>> {
    /// Reads each guarded request's body, of at most `limit` bytes, before its lock is asked for, and
    /// hands it on as it was: see [`Intact`](crate::once::Intact), which also says what takes it. The
    /// key is found first, in the head.
    ///
    /// For routes that strangers reach: otherwise one client that sends half a body and no more keeps
    /// what it names locked until `max_hold`. Each request may take `limit` bytes of memory before it
    /// waits for its lock, and all together no more than
    /// [`max_waiting_body_bytes`](crate::RedlockBuilder::max_waiting_body_bytes).
    ///
    /// | what happened | status | `code` |
    /// |---|---|---|
    /// | the body is larger, or announced as larger | 413 | `body-too-large` |
    /// | it did not come in time: [`body_timeout`](RedlockLayer::body_timeout) | 408 | `body-timed-out` |
    /// | it ended with an error | 400 | `body-failed` |
    /// | other requests hold too many bytes: [`max_waiting_body_bytes`](crate::RedlockBuilder::max_waiting_body_bytes) | 503, `Retry-After` | `too-many-bodies` |
    ///
    /// Nothing ran then. Requests that need no lock are passed on unread.
    ///
    /// ```
    /// use axum::{Router, routing::post};
    /// use tower_redlock::{Redlock, RedlockLayer, key};
    ///
    /// let account = key::path_param("id").prefixed("account:");
    /// let layer = RedlockLayer::new(Redlock::embedded(), account).http().read_body_first(64 * 1024);
    /// let app: Router = Router::new()
    ///     .route("/accounts/{id}", post(async |order: String| order))
    ///     .route_layer(layer);
    /// # let _ = app;
    /// ```
    pub fn read_body_first(self, limit: usize) -> RedlockLayer<K, Http<R, ReadFirst>> {
        let mode = ReadFirst { limit, timeout: DEFAULT_BODY_TIMEOUT };
        self.with_face(|face| face.with_mode(mode))
    }
}

impl<K, R> RedlockLayer<K, Http<R, ReadFirst>> {
    /// How long a request's body may take to come, from its head to its end. Default:
    /// [`DEFAULT_BODY_TIMEOUT`], 30 s.
    pub fn body_timeout(mut self, timeout: Duration) -> Self {
        self.face.mode.timeout = timeout;
        self
    }
}

impl<S, K, R, B, A> Service<Request<B>> for RedlockService<S, K, Http<R, ReadFirst>>
where
    S: Service<Request<Intact<B>>, Response = Response<A>> + Clone,
    K: ResourceKey<Request<B>>,
    R: OnReject + Clone,
    B: Body + Unpin,
    A: Body,
{
    type Response = Response<HttpBody<A>>;
    type Error = S::Error;
    type Future = ReadFirstFuture<S, B, R, A>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        self.face().token_header.strip(request.headers_mut());
        let asked = Asked::of(&mut request, self.face());
        let face = self.face().clone().with_mode(Streamed(()));
        let call = match self.layer().key.key(&request) {
            Ok(Some(resource)) => {
                let ReadFirst { limit, timeout } = self.face().mode;
                let (parts, body) = request.into_parts();
                let redlock = &self.layer().redlock;
                let read = ReadBody::new(&parts.headers, body, limit).for_layer(redlock, timeout);
                let lock = self.ask(&resource);
                let layer = self.layer().name.clone();
                let start =
                    Start { service: self.take_ready(), face, asked, parts, lock, resource, layer };
                let state = State::Reading { read, start: Some(start) };
                return ReadFirstFuture { state };
            }
            Ok(None) => Call::unguarded(self.inner.call(request.map(Intact::untouched))),
            Err(error) => Call::rejected(LockError::InvalidResource(error.into()), None),
        };
        ReadFirstFuture { state: State::Calling { future: HttpFuture::new(call, face, asked) } }
    }
}

/// The future of a request behind [`RedlockLayer::read_body_first`]: reads the body, then is as
/// [`HttpFuture`].
///
/// # Cancel safety
///
/// Dropping it drops the body or the inner future, then gives the lock back.
///
/// # Panics
///
/// If polled again after it was ready, and where the service panics; the lock is given back then.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct ReadFirstFuture<S: Service<Request<Intact<B>>>, B: Body, R, A> {
    #[pin]
    state: State<S, B, R, A>,
}

#[pin_project(project = StateProj)]
#[expect(
    clippy::large_enum_variant,
    reason = "what a task keeps in its own memory need not be allocated once more"
)]
enum State<S: Service<Request<Intact<B>>>, B: Body, R, A> {
    Reading {
        read: ReadBody<B>,
        start: Option<Start<S, R>>,
    },
    Calling {
        #[pin]
        future: HttpFuture<S, Intact<B>, R, A>,
    },
}

struct Start<S, R> {
    /// It is ready.
    service: S,
    face: Http<R>,
    asked: Asked,
    parts: Parts,
    lock: LockRequest,
    resource: Resource,
    layer: Option<Arc<str>>,
}

impl<S, B, R, A> Future for ReadFirstFuture<S, B, R, A>
where
    S: Service<Request<Intact<B>>, Response = Response<A>>,
    R: OnReject + Clone,
    B: Body + Unpin,
    A: Body,
{
    type Output = Result<Response<HttpBody<A>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                StateProj::Reading { read, start } => {
                    let ended = ready!(Pin::new(&mut *read).poll(cx));
                    let start = start.take().expect("polled after it was ready");
                    let Start { service, face, asked, parts, lock, resource, layer } = start;
                    let call = match ended {
                        Ok(body) => {
                            let body = Intact::from(body).holding(read.take_held());
                            let request = Request::from_parts(parts, body);
                            Call::acquiring(lock, resource, layer, (service, request, face.clone()))
                        }
                        Err(incomplete) => {
                            let fault = match *incomplete.error() {
                                ReadBodyError::TooLarge { limit } => BodyFault::TooLarge { limit },
                                ReadBodyError::Crowded { limit } => BodyFault::Crowded { limit },
                                ReadBodyError::TimedOut { limit } => BodyFault::TimedOut { limit },
                                ReadBodyError::Body(_) => BodyFault::Failed,
                            };
                            let error = LockError::InvalidResource(ResourceError::Body(fault));
                            Call::rejected(error, Some(resource))
                        }
                    };
                    let future = HttpFuture::new(call, face, asked);
                    this.state.set(State::Calling { future });
                }
                StateProj::Calling { future } => return future.poll(cx),
            }
        }
    }
}

impl<S: Service<Request<Intact<B>>>, B: Body, R, A> fmt::Debug for ReadFirstFuture<S, B, R, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ReadFirstFuture");
        match &self.state {
            State::Reading { read, .. } => shown.field("reading", read),
            State::Calling { future } => shown.field("calling", future),
        };
        shown.finish_non_exhaustive()
    }
}
