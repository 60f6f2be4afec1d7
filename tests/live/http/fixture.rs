//! One service inside the layer, over nodes inside the process and a manual clock: everything that
//! can happen at once happens at the first poll.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower::{Layer, Service};
use tower_redlock::{
    RedlockLayer,
    layer::http::{HttpBody, RedlockHttp},
};

pub(crate) use crate::support::{
    hand_clock::HandClock,
    scene::{Scene, TTL, VALIDITY},
};

pub(crate) const NANO: Duration = Duration::from_nanos(1);

/// Sets its flag when it is dropped.
pub(crate) struct Flag(Arc<AtomicBool>);

impl Flag {
    pub(crate) fn new() -> (Self, Arc<AtomicBool>) {
        let flag = Arc::new(AtomicBool::new(false));
        (Self(Arc::clone(&flag)), flag)
    }
}

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

pub(crate) fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

pub(crate) type Key = fn(&Request<()>) -> Option<&'static str>;
pub(crate) type HttpLayer = RedlockLayer<Key, RedlockHttp>;

pub(crate) type Fixture = Scene;

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::without_timers(5)
    }

    /// Locks `x`, for everything but GET.
    pub(crate) fn layer(&self) -> HttpLayer {
        RedlockLayer::new(self.redlock.clone(), x as Key).http()
    }

    /// The body of a response that was made under the lock.
    pub(crate) fn through<B: Body>(&self, body: B) -> HttpBody<B>
    where
        B::Data: From<Bytes>,
    {
        answer(&self.layer(), Request::post("/").body(()).unwrap(), Response::new(body)).into_body()
    }

    pub(crate) fn is_held(&self) -> bool {
        self.nodes.key_counts() == [1; 5]
    }

    pub(crate) fn is_free(&self) -> bool {
        self.nodes.key_counts() == [0; 5]
    }
}

pub(crate) fn x(request: &Request<()>) -> Option<&'static str> {
    (request.method() != http::Method::GET).then_some("x")
}

/// The layer's response for a service's response that is ready at once.
pub(crate) fn answer<B: Body>(
    layer: &HttpLayer,
    request: Request<()>,
    response: Response<B>,
) -> Response<HttpBody<B>> {
    let once = Once(Arc::new(Mutex::new(Some(response))));
    let mut service = layer.layer(once);
    let Poll::Ready(Ok(response)) = poll(pin!(service.call(request))) else { panic!() };
    response
}

/// Always ready; answers once.
struct Once<B>(Arc<Mutex<Option<Response<B>>>>);

impl<B> Clone for Once<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B> Service<Request<()>> for Once<B> {
    type Response = Response<B>;
    type Error = Infallible;
    type Future = Ready<Result<Response<B>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(self.0.lock().unwrap().take().expect("called once")))
    }
}
