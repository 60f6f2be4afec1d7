//! Requests whose body is read before their lock is acquired.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, request::Parts};
use http_body::Body;
use pin_project::pin_project;
use tower_service::Service;

use super::{HttpBody, RedlockHttp, RedlockHttpFuture, Streamed, future::RequestFacts};
use crate::{
    body::{ReadBody, RestoredBody},
    layer::{RedlockFuture, RedlockLayer, RedlockService, ResourceKey, call::LockedCall},
    lock::LockRequest,
    reject::OnReject,
    resource::Resource,
};

/// Default timeout for reading the body of a request: 30 s.
pub const DEFAULT_BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The mode in which the body of a request is read before its lock is acquired. Created by
/// [`RedlockLayer::read_body_first`].
#[derive(Clone, Copy, Debug)]
pub struct ReadFirst {
    limit: usize,
    timeout: Duration,
}

impl<K, R> RedlockLayer<K, RedlockHttp<R>> {
    /// Reads the body of each guarded request, of at most `limit` bytes, before its lock is
    /// acquired, and passes it on unchanged as an [`RestoredBody`](crate::once::RestoredBody). The key is found
    /// in the head before the body is read.
    ///
    /// Meant for public routes: otherwise a client that sends half a body keeps the resource locked
    /// until `max_hold`. Each request may take `limit` bytes of memory while it waits for its lock,
    /// and all requests together
    /// [`max_waiting_body_bytes`](crate::RedlockBuilder::max_waiting_body_bytes).
    ///
    /// | what happened | status | `code` |
    /// |---|---|---|
    /// | the body is larger, or announced as larger | 413 | `body-too-large` |
    /// | it timed out: [`body_timeout`](RedlockLayer::body_timeout) | 408 | `body-timed-out` |
    /// | it ended with an error | 400 | `body-failed` |
    /// | other requests hold too many bytes: [`max_waiting_body_bytes`](crate::RedlockBuilder::max_waiting_body_bytes) | 503, `Retry-After` | `too-many-bodies` |
    ///
    /// In these cases the service is not called. Requests that need no lock are passed on unread.
    ///
    /// ```
    /// use axum::{Router, routing::post};
    /// use tower_redlock::{Redlock, RedlockLayer, key};
    ///
    /// let account = key::path_param("id").prefixed("account:");
    /// let layer = RedlockLayer::new(Redlock::embedded(), account).http().read_body_first(64 * 1024);
    /// let app: Router = Router::new()
    ///     .route("/accounts/{id}", post(async |order: String| order).route_layer(layer));
    /// # let _ = app;
    /// ```
    pub fn read_body_first(self, limit: usize) -> RedlockLayer<K, RedlockHttp<R, ReadFirst>> {
        let mode = ReadFirst { limit, timeout: DEFAULT_BODY_TIMEOUT };
        self.map_protocol(|http| http.with_mode(mode))
    }
}

impl<K, R> RedlockLayer<K, RedlockHttp<R, ReadFirst>> {
    /// Sets the maximum time from a request's head to the end of its body. Default:
    /// [`DEFAULT_BODY_TIMEOUT`], 30 s.
    ///
    /// # Panics
    ///
    /// If it is zero.
    pub fn body_timeout(mut self, timeout: Duration) -> Self {
        assert!(!timeout.is_zero(), "body_timeout is zero: every body would be late");
        self.protocol.mode.timeout = timeout;
        self
    }
}

impl<S, K, R, B, A> Service<Request<B>> for RedlockService<S, K, RedlockHttp<R, ReadFirst>>
where
    S: Service<Request<RestoredBody<B>>, Response = Response<A>> + Clone,
    K: ResourceKey<Request<B>>,
    R: OnReject<Response<Bytes>> + Clone,
    B: Body + Unpin,
    A: Body,
{
    type Response = Response<HttpBody<A>>;
    type Error = S::Error;
    type Future = ReadFirstFuture<S, B, R, A>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let http = self.layer().protocol.clone();
        http.token_header.strip(request.headers_mut());
        let facts = RequestFacts::of(&mut request, &http);
        let ReadFirst { limit, timeout } = http.mode;
        let http = http.with_mode(Streamed(()));
        let service = self.inner.clone();
        let call = match self.lock_for(&request) {
            Ok(Some((lock, resource))) => {
                let (parts, body) = request.into_parts();
                let redlock = &self.layer().redlock;
                let read = ReadBody::new(&parts.headers, body, limit).for_layer(redlock, timeout);
                let call = LockedCall { service, request: parts, layer: self.layer().name.clone() };
                let start = ReadFirstCall { call, http, facts, lock, resource };
                let state = ReadFirstState::Reading { read, start: Some(start) };
                return ReadFirstFuture { state };
            }
            Ok(None) => {
                let request = request.map(RestoredBody::untouched);
                RedlockFuture::unguarded(service, request, http)
            }
            Err(error) => RedlockFuture::rejected(error, None, http),
        };
        let future = RedlockHttpFuture::new(call, facts);
        ReadFirstFuture { state: ReadFirstState::Calling { future } }
    }
}

/// The future of a request behind [`RedlockLayer::read_body_first`]: reads the body, then behaves as
/// [`RedlockHttpFuture`].
///
/// # Cancel safety
///
/// Dropping it drops the body or the inner future, then releases the lock.
///
/// # Panics
///
/// If polled again after it was ready, or if the service panics; the lock is then released.
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct ReadFirstFuture<S: Service<Request<RestoredBody<B>>>, B: Body, R, A> {
    #[pin]
    state: ReadFirstState<S, B, R, A>,
}

#[pin_project(project = ReadFirstStateProj)]
#[expect(clippy::large_enum_variant, reason = "each call that is read goes on to the larger one")]
enum ReadFirstState<S: Service<Request<RestoredBody<B>>>, B: Body, R, A> {
    Reading {
        read: ReadBody<B>,
        start: Option<ReadFirstCall<S, R>>,
    },
    Calling {
        #[pin]
        future: RedlockHttpFuture<S, RestoredBody<B>, R, A>,
    },
}

/// A request whose body is being read.
struct ReadFirstCall<S, R> {
    /// The call of the service, with the head of the request.
    call: LockedCall<S, Parts>,
    http: RedlockHttp<R>,
    facts: RequestFacts,
    lock: LockRequest,
    resource: Resource,
}

impl<S, B, R, A> Future for ReadFirstFuture<S, B, R, A>
where
    S: Service<Request<RestoredBody<B>>, Response = Response<A>>,
    R: OnReject<Response<Bytes>>,
    B: Body + Unpin,
    A: Body,
{
    type Output = Result<Response<HttpBody<A>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                ReadFirstStateProj::Reading { read, start } => {
                    let ended = ready!(Pin::new(&mut *read).poll(cx));
                    let start = start.take().expect("polled after it was ready");
                    let ReadFirstCall { call, http, facts, lock, resource } = start;
                    let call = match ended {
                        Ok(body) => {
                            let LockedCall { service, request: parts, layer } = call;
                            let body = RestoredBody::from(body).holding(read.take_held());
                            let request = Request::from_parts(parts, body);
                            let call = LockedCall { service, request, layer };
                            RedlockFuture::acquiring(lock, resource, call, http)
                        }
                        Err(incomplete) => {
                            RedlockFuture::rejected(incomplete.lock_error(), Some(resource), http)
                        }
                    };
                    let future = RedlockHttpFuture::new(call, facts);
                    this.state.set(ReadFirstState::Calling { future });
                }
                ReadFirstStateProj::Calling { future } => return future.poll(cx),
            }
        }
    }
}

impl<S: Service<Request<RestoredBody<B>>>, B: Body, R, A> fmt::Debug
    for ReadFirstFuture<S, B, R, A>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ReadFirstFuture");
        match &self.state {
            ReadFirstState::Reading { read, .. } => shown.field("reading", read),
            ReadFirstState::Calling { future } => shown.field("calling", future),
        };
        shown.finish_non_exhaustive()
    }
}
