//! Requests that wait for a lock occupy no resource of the inner services.

use std::{
    convert::Infallible,
    fmt::Debug,
    future::{Future, ready},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use futures_util::{FutureExt, stream};
use http::{Request, Response};
use http_body_util::Full;
use tokio::{sync::Semaphore, time::timeout};
use tower::{
    Service, ServiceBuilder, ServiceExt,
    buffer::BufferLayer,
    limit::{ConcurrencyLimitLayer, GlobalConcurrencyLimitLayer},
};
use tower_redlock::{OnceLayer, Redlock, RedlockLayer, key, once::http::Scope};

/// Time for which a request waits for its lock: beyond the end of the test.
const PATIENT: Duration = Duration::from_secs(600);
const HANG_GUARD: Duration = Duration::from_secs(60);

/// Requests with the id "held" run until the semaphore is open.
#[derive(Clone)]
struct Site {
    started: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl<B> Service<Request<B>> for Site {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let response = Response::new(Full::from("done"));
        if request.headers()["id"] != "held" {
            return Box::pin(ready(Ok(response)));
        }
        self.started.add_permits(1);
        let open = Arc::clone(&self.open);
        Box::pin(async move {
            open.acquire_owned().await.expect("it is not closed").forget();
            Ok(response)
        })
    }
}

fn request(id: &str) -> Request<Body> {
    let body = Body::from(format!("{{\"id\":\"{id}\"}}"));
    let request = Request::post("/").header("id", id).header("idempotency-key", id);
    request.body(body).expect("a request")
}

/// While one request runs and another waits for its lock, a third one with another key passes.
async fn others_pass<S>(name: &str, site: Site, service: S)
where
    S: Service<Request<Body>> + Clone + Send + 'static,
    S::Response: Send,
    S::Error: Debug + Send,
    S::Future: Send,
{
    let first = tokio::spawn(service.clone().oneshot(request("held")));
    site.started.acquire().await.expect("it is not closed").forget();
    let mut second = Box::pin(service.clone().oneshot(request("held")));
    assert!(second.as_mut().now_or_never().is_none(), "{name}: one at a time");
    let other = timeout(HANG_GUARD, service.oneshot(request("other"))).await;
    let other = other.unwrap_or_else(|_| panic!("{name}: blocked by a request that waits"));
    drop(other.expect("it ran"));
    drop(second);
    site.open.add_permits(1);
    drop(timeout(HANG_GUARD, first).await.expect("it ends").expect("no panic").expect("it ran"));
}

macro_rules! under_each {
    ($limit:expr) => {{
        let once = || OnceLayer::new(Redlock::embedded(), "once", key::header("id")).wait(PATIENT);
        let lock = || RedlockLayer::new(Redlock::embedded(), key::header("id")).wait(PATIENT);
        let by_body = OnceLayer::by_body(Redlock::embedded(), "body", key::json_pointer("/id"));
        let idempotency = OnceLayer::idempotency(Redlock::embedded(), "pay");
        under_each!($limit;
            "plain": lock();
            "http": lock().http();
            "body first": lock().http().read_body_first(99);
            "grpc": lock().grpc();
            "once": once();
            "once by head": once().http();
            "once by body": by_body.wait(PATIENT);
            "once for gRPC": once().grpc();
            "idempotency": idempotency.scope(Scope::none()).wait(PATIENT);
        );
    }};
    ($limit:expr; $($name:literal: $layer:expr;)*) => {$(
        let site = Site { started: Semaphore::new(0).into(), open: Semaphore::new(0).into() };
        let service = ServiceBuilder::new().layer($layer).layer($limit).service(site.clone());
        others_pass($name, site, service).await;
    )*};
}

/// While the body of one request does not arrive, another one passes.
async fn slow_bodies_are_passed<S>(name: &str, service: S)
where
    S: Service<Request<Body>> + Clone,
    S::Error: Debug,
{
    let mut slow = request("slow");
    *slow.body_mut() = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
    let mut slow = Box::pin(service.clone().oneshot(slow));
    assert!(slow.as_mut().now_or_never().is_none(), "{name}: its body is awaited");
    let other = timeout(HANG_GUARD, service.oneshot(request("other"))).await;
    let other = other.unwrap_or_else(|_| panic!("{name}: blocked by a slow body"));
    drop(other.expect("it ran"));
}

#[tokio::test]
async fn slow_bodies_occupy_no_permit() {
    macro_rules! reads_first {
        ($($name:literal: $layer:expr;)*) => {$(
            let site = Site { started: Semaphore::new(0).into(), open: Semaphore::new(0).into() };
            let limited = ServiceBuilder::new().layer($layer).concurrency_limit(1).service(site);
            slow_bodies_are_passed($name, limited).await;
        )*};
    }
    let id = || key::json_pointer("/id");
    reads_first!(
        "body first": RedlockLayer::new(Redlock::embedded(), key::header("id")).http().read_body_first(99);
        "once by body": OnceLayer::by_body(Redlock::embedded(), "body", id());
        "idempotency": OnceLayer::idempotency(Redlock::embedded(), "pay").scope(Scope::none());
    );
}

/// One request runs, and a second one may run at the same time.
#[tokio::test]
async fn waiting_requests_occupy_no_permit() {
    under_each!(ConcurrencyLimitLayer::new(2));
    under_each!(GlobalConcurrencyLimitLayer::new(2));
}

#[tokio::test]
async fn waiting_requests_occupy_no_place() {
    under_each!(BufferLayer::new(1));
}
