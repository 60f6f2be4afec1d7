//! Webhooks whose key is in the request's body.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, request::Parts};
use http_body::Body;
use pin_project::pin_project;
use tower_service::Service;

use super::{CompletesHttp, OnceHttp, OnceHttpFuture, future::reject};
use crate::{
    key::{BodyKey, RequestHead},
    layer::http::{DEFAULT_BODY_TIMEOUT, HttpBody},
    lock::Redlock,
    once::{Always, DEFAULT_BODY_LIMIT, Intact, OnceLayer, OnceService, ReadBody},
    reject::{DefaultResponse, OnReject, RejectReason},
};

/// The mode for webhooks whose key is in the request's body. Created by [`OnceLayer::by_body`].
#[derive(Clone, Copy, Debug)]
pub struct ByBody {
    limit: usize,
    timeout: Duration,
}

impl<K> OnceLayer<K, Always, OnceHttp<DefaultResponse, ByBody>> {
    /// Creates a layer for webhooks like [`http`](OnceLayer::http), with the key in the body: a JSON
    /// pointer ([`key::json_pointer`](crate::key::json_pointer)), or any
    /// [`BodyKey`](crate::key::BodyKey).
    ///
    /// The body is read before the lock is acquired, and passed on unchanged: see [`Intact`], also for
    /// the services that take it.
    ///
    /// | body | response |
    /// |---|---|
    /// | larger than [`body_limit`](Self::body_limit) | 413 |
    /// | invalid for the key, such as no JSON | 400 |
    /// | slower than [`body_timeout`](Self::body_timeout) | 408, `body-timed-out` |
    /// | above [`max_waiting_body_bytes`](crate::RedlockBuilder::max_waiting_body_bytes), with those of waiting requests | 503, `too-many-bodies`, with `Retry-After` |
    ///
    /// Check signatures *outside* of this layer: they cover the body as it was sent.
    ///
    /// ```
    /// use axum::{Router, routing::post};
    /// use tower_redlock::{OnceLayer, Redlock, key};
    ///
    /// async fn handle(event: String) -> String {
    ///     event
    /// }
    ///
    /// let once = OnceLayer::by_body(Redlock::embedded(), "stripe", key::json_pointer("/id"));
    /// let app: Router = Router::new().route("/stripe", post(handle)).route_layer(once);
    /// # let _ = app;
    /// ```
    ///
    /// # Panics
    ///
    /// If the name is invalid: see [`new`](OnceLayer::new).
    pub fn by_body(redlock: Redlock, name: impl Into<Arc<str>>, key: K) -> Self {
        let mode = ByBody { limit: DEFAULT_BODY_LIMIT, timeout: DEFAULT_BODY_TIMEOUT };
        OnceLayer::new(redlock, name, key).map_protocol(|_| OnceHttp::new(mode))
    }
}

/// # The request's body
impl<K, C, R> OnceLayer<K, C, OnceHttp<R, ByBody>> {
    /// Sets the maximum size of a request's body, in bytes. Default:
    /// [`DEFAULT_BODY_LIMIT`](crate::once::DEFAULT_BODY_LIMIT), 1 MiB.
    pub const fn body_limit(mut self, bytes: usize) -> Self {
        self.protocol.mode.limit = bytes;
        self
    }

    /// Sets the maximum time from a request's head to the end of its body. Default:
    /// [`DEFAULT_BODY_TIMEOUT`](crate::layer::http::DEFAULT_BODY_TIMEOUT), 30 s.
    pub const fn body_timeout(mut self, timeout: Duration) -> Self {
        self.protocol.mode.timeout = timeout;
        self
    }
}

impl<S, K, C, R, B, A> Service<Request<B>> for OnceService<S, K, C, OnceHttp<R, ByBody>>
where
    S: Service<Request<Intact<B>>, Response = Response<A>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    K: BodyKey + Clone,
    C: CompletesHttp<A> + Clone + Send + 'static,
    R: OnReject<Response<Bytes>> + Clone,
    B: Body<Error: Send> + Send + 'static,
    A: Body + Send + 'static,
{
    type Response = Response<HttpBody<A>>;
    type Error = S::Error;
    type Future = ByBodyFuture<S, B, K, C, R>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let layer = &self.layer;
        layer.protocol.token_header.strip(request.headers_mut());
        let (parts, body) = request.into_parts();
        let ByBody { limit, timeout } = layer.protocol.mode;
        let read = ReadBody::new(&parts.headers, body, limit).for_layer(&layer.redlock, timeout);
        let ready = OnceService::new(self.inner.clone(), self.layer.clone());
        ByBodyFuture { state: ByBodyState::Reading { read, start: Some((ready, parts)) } }
    }
}

/// The future of a webhook behind [`OnceLayer::by_body`]: reads the body, then behaves as
/// [`OnceHttpFuture`].
///
/// # Cancel safety
///
/// Dropping it before the call of the service drops the body, or frees the key. After that the service
/// runs to its end, which is recorded, unless [`detached`](crate::OnceLayer::detached) is off.
///
/// # Panics
///
/// If polled again after it was ready, or if the service panics: see [`UnknownOutcome`](crate::once::UnknownOutcome).
#[pin_project]
#[must_use = "futures do nothing unless polled"]
pub struct ByBodyFuture<S: Service<Request<Intact<B>>>, B: Body, K, C, R> {
    #[pin]
    state: ByBodyState<S, B, K, C, R>,
}

#[pin_project(project = ByBodyStateProj)]
#[expect(
    clippy::large_enum_variant,
    reason = "the task's own memory holds the state: boxing costs an allocation"
)]
enum ByBodyState<S: Service<Request<Intact<B>>>, B: Body, K, C, R> {
    Reading {
        read: ReadBody<B>,
        /// The service, ready to be called, and the request's head.
        start: Option<ReadyRequest<S, K, C, R>>,
    },
    Calling {
        #[pin]
        future: OnceHttpFuture<S, Intact<B>, C, R>,
    },
}

type ReadyRequest<S, K, C, R> = (OnceService<S, K, C, OnceHttp<R, ByBody>>, Parts);

impl<S, B, K, C, R, A> Future for ByBodyFuture<S, B, K, C, R>
where
    S: Service<Request<Intact<B>>, Response = Response<A>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    K: BodyKey,
    C: CompletesHttp<A> + Clone + Send + 'static,
    R: OnReject<Response<Bytes>> + Clone,
    B: Body<Error: Send> + Send + 'static,
    A: Body + Send + 'static,
{
    type Output = Result<Response<HttpBody<A>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                ByBodyStateProj::Reading { read, start } => {
                    let body = ready!(Pin::new(&mut *read).poll(cx));
                    let room = read.take_held();
                    let (mut service, parts) = start.take().expect("polled after it was ready");
                    let body = match body {
                        Ok(body) => body,
                        Err(incomplete) => {
                            let on_reject = &service.layer.protocol.on_reject;
                            let error = incomplete.lock_error();
                            let answer = reject(on_reject, RejectReason::Lock(&error), None);
                            return Poll::Ready(Ok(answer.map(HttpBody::of_bytes)));
                        }
                    };
                    let head = RequestHead::from(&parts);
                    let found = service.layer.key.body_key(&head, body.data());
                    let request = Request::from_parts(parts, Intact::from(body).holding(room));
                    let future = service.begin_http(request, found);
                    this.state.set(ByBodyState::Calling { future });
                }
                ByBodyStateProj::Calling { future } => return future.poll(cx),
            }
        }
    }
}

impl<S: Service<Request<Intact<B>>>, B: Body, K, C, R> fmt::Debug for ByBodyFuture<S, B, K, C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ByBodyFuture");
        match &self.state {
            ByBodyState::Reading { read, .. } => shown.field("reading", read),
            ByBodyState::Calling { future } => shown.field("calling", future),
        };
        shown.finish_non_exhaustive()
    }
}
