//! What docs/requests.md says of the places of other layers: a test for each row of its table.

use std::{
    convert::Infallible,
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderMap, Request, Response, StatusCode, header::ACCESS_CONTROL_ALLOW_ORIGIN};
use http_body_util::Full;
use tower::{
    Layer, Service, ServiceBuilder, ServiceExt, limit::ConcurrencyLimitLayer, retry::Policy,
    service_fn, timeout::TimeoutLayer,
};
use tower_http::{
    auth::AsyncRequireAuthorizationLayer,
    catch_panic::CatchPanicLayer,
    cors::CorsLayer,
    limit::RequestBodyLimitLayer,
    request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer},
};
use tower_redlock::{Lock, LockContext, OnceLayer, Redlock, RedlockLayer, key};

use crate::composition::echo::Echo;

const HANG_GUARD: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(20);

/// The first cells of the table, each with the file and the name of its test.
const ROWS: &[(&str, &str, &str)] = &[
    ("`TraceLayer`, request ids", PLACES, "request_ids_are_on_refusals"),
    ("authentication, signatures", PLACES, "refused_users_lock_nothing"),
    ("CORS", PLACES, "cors_headers_are_on_refusals"),
    ("`RequestBodyLimit`", PLACES, "large_bodies_lock_nothing"),
    ("`ConcurrencyLimit`, `LoadShed`, rate limits", PLACES, "permits_outside_count_waits"),
    ("`ConcurrencyLimit`, `LoadShed`, rate limits", WAITING, "waiting_requests_occupy_no_permit"),
    ("`Buffer`", WAITING, "waiting_requests_occupy_no_place"),
    ("`Timeout` around the lock", PLACES, "timeout_outside_bounds_the_wait"),
    ("`Timeout` around the lock", GONE, "outer_timeout_does_not_stop_it"),
    ("`Timeout` around the handler", PLACES, "timeout_inside_frees_the_key"),
    ("`Retry`", PLACES, "retry_inside_keeps_the_token"),
    ("`Compression`", ENCODINGS, "compression_outside_encodes_for_each_client"),
    ("`CatchPanic`", PLACES, "caught_panic_inside_is_a_500"),
    ("`RedlockLayer` and `OnceLayer` together", PLACES, "repeats_need_no_inner_lock"),
    ("`FencingLayer`", FENCING, "stale_write_gets_412"),
];

const PLACES: &str = include_str!("places.rs");
const WAITING: &str = include_str!("waiting.rs");
const GONE: &str = include_str!("../once_http/gone.rs");
const ENCODINGS: &str = include_str!("../once_http/idempotency/encodings.rs");
const FENCING: &str = include_str!("../fencing/http.rs");

#[test]
fn each_row_has_its_tests() {
    let page = include_str!("../../../docs/requests.md");
    let section = page.split("\n## Other layers\n").nth(1).expect("the section");
    let table = section.lines().skip_while(|line| !line.starts_with("|---"));
    let rows = table.skip(1).take_while(|line| line.starts_with('|'));
    let documented: Vec<_> = rows.filter_map(|row| row.split(" | ").next()?.get(2..)).collect();
    let mut tested: Vec<_> = ROWS.iter().map(|(row, ..)| *row).collect();
    tested.dedup();
    assert_eq!(documented, tested);
    for (row, file, test) in ROWS {
        assert!(file.contains(&format!("fn {test}(")), "{row}: {test}");
    }
}

type Answer = Response<Full<Bytes>>;

fn post() -> Request<Body> {
    let request = Request::post("/").header("id", "a").header("origin", "https://shop.example");
    request.body(Body::from("a large body")).expect("a request")
}

async fn hold(redlock: &Redlock) -> Lock {
    redlock.lock("a").await.expect("it is free")
}

async fn is_freed(redlock: &Redlock) {
    drop(redlock.lock("a").wait(HANG_GUARD).await.expect("it is released"));
}

/// Sends a request whose lock is held to the service inside of a layer. Returns the refusal's head.
async fn refused<L>(outside: L) -> HeaderMap
where
    L: Layer<tower::util::BoxCloneService<Request<Body>, Response<Body>, Infallible>>,
    L::Service: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    let redlock = Redlock::embedded();
    let _held = hold(&redlock).await;
    let lock = RedlockLayer::new(redlock, key::header("id")).http();
    let service = ServiceBuilder::new()
        .boxed_clone()
        .map_response(|answer: Response<_>| answer.map(Body::new))
        .layer(lock)
        .service(Echo);
    let answer = outside.layer(service).oneshot(post()).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::CONFLICT);
    answer.headers().clone()
}

#[tokio::test]
async fn request_ids_are_on_refusals() {
    let ids = ServiceBuilder::new()
        .layer(SetRequestIdLayer::x_request_id(MakeRequestUuid))
        .layer(PropagateRequestIdLayer::x_request_id());
    assert!(refused(ids).await.contains_key("x-request-id"));
}

#[tokio::test]
async fn cors_headers_are_on_refusals() {
    assert!(refused(CorsLayer::permissive()).await.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN));
}

/// A key that counts the requests that it was asked for.
fn counting(asked: &Arc<AtomicUsize>) -> impl Fn(&Request<Body>) -> Option<String> + Clone + use<> {
    let asked = Arc::clone(asked);
    move |_| {
        asked.fetch_add(1, SeqCst);
        Some("a".into())
    }
}

#[tokio::test]
async fn refused_users_lock_nothing() {
    let asked = Arc::<AtomicUsize>::default();
    let refuse = |_: Request<Body>| async {
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = StatusCode::UNAUTHORIZED;
        Err::<Request<Body>, _>(answer)
    };
    let lock = RedlockLayer::new(Redlock::embedded(), counting(&asked)).http();
    let service = ServiceBuilder::new()
        .layer(AsyncRequireAuthorizationLayer::new(refuse))
        .map_response(|answer: Response<_>| answer.map(Body::new))
        .layer(lock)
        .service(Echo);

    let answer = service.oneshot(post()).await.unwrap();

    assert_eq!((answer.status(), asked.load(SeqCst)), (StatusCode::UNAUTHORIZED, 0));
}

#[tokio::test]
async fn large_bodies_lock_nothing() {
    let asked = Arc::<AtomicUsize>::default();
    let key = counting(&asked);
    let lock = RedlockLayer::new(Redlock::embedded(), move |_: &Request<_>| key(&post())).http();
    let service = ServiceBuilder::new().layer(RequestBodyLimitLayer::new(8)).layer(lock);
    let mut request = post();
    request.headers_mut().insert("content-length", "12".parse().unwrap());

    let answer = service.service(Echo).oneshot(request).await.unwrap();

    assert_eq!((answer.status(), asked.load(SeqCst)), (StatusCode::PAYLOAD_TOO_LARGE, 0));
}

#[tokio::test]
async fn permits_outside_count_waits() {
    let redlock = Redlock::embedded();
    let held = hold(&redlock).await;
    let lock = RedlockLayer::new(redlock, key::header("id")).wait(HANG_GUARD).http();
    let service =
        ServiceBuilder::new().layer(ConcurrencyLimitLayer::new(1)).layer(lock).service(Echo);
    let mut waits = Box::pin(service.clone().oneshot(post()));
    assert!(waits.as_mut().now_or_never().is_none());

    let mut other = service.map_request(|request: Request<Body>| request);
    assert!(other.ready().now_or_never().is_none(), "the one that waits has the permit");

    drop(held);
    drop(waits.await.unwrap());
    other.ready().await.unwrap();
}

#[tokio::test]
async fn timeout_outside_bounds_the_wait() {
    let redlock = Redlock::embedded();
    let never = service_fn(async |_: Request<Body>| pending::<Result<Answer, Infallible>>().await);
    let lock = || RedlockLayer::new(redlock.clone(), key::header("id")).wait(HANG_GUARD).http();
    let service =
        ServiceBuilder::new().layer(TimeoutLayer::new(SHORT)).layer(lock()).service(never);
    let held = hold(&redlock).await;
    assert!(service.clone().oneshot(post()).await.is_err(), "during the wait");
    drop(held);
    assert!(service.oneshot(post()).await.is_err(), "during the handler");
    is_freed(&redlock).await;
}

#[tokio::test]
async fn timeout_inside_frees_the_key() {
    let (redlock, runs) = (Redlock::embedded(), AtomicUsize::new(0));
    let runs = Arc::new(runs);
    let counted = Arc::clone(&runs);
    let never = service_fn(move |_: Request<Body>| {
        counted.fetch_add(1, SeqCst);
        pending::<Result<Answer, Infallible>>()
    });
    let timeout = || TimeoutLayer::new(SHORT);
    let lock = RedlockLayer::new(redlock.clone(), key::header("id")).http();
    let locked = ServiceBuilder::new().layer(lock).layer(timeout()).service(never.clone());
    assert!(locked.oneshot(post()).await.is_err());
    is_freed(&redlock).await;

    let once = OnceLayer::new(redlock, "once", key::header("id")).wait(HANG_GUARD).http();
    let once = ServiceBuilder::new().layer(once).layer(timeout()).service(never);
    for _ in 0..2 {
        assert!(once.clone().oneshot(post()).await.is_err());
    }
    assert_eq!(runs.load(SeqCst), 3);
}

/// Repeats a request once.
#[derive(Clone)]
struct Again(bool);

impl<A, E> Policy<&'static str, A, E> for Again {
    type Future = std::future::Ready<()>;

    fn retry(&mut self, _: &mut &'static str, _: &mut Result<A, E>) -> Option<Self::Future> {
        std::mem::take(&mut self.0).then(|| std::future::ready(()))
    }

    fn clone_request(&mut self, request: &&'static str) -> Option<&'static str> {
        Some(*request)
    }
}

#[tokio::test]
async fn retry_inside_keeps_the_token() {
    let tokens = Arc::<Mutex<Vec<u64>>>::default();
    let seen = Arc::clone(&tokens);
    let work = service_fn(move |_: &'static str| {
        let seen = Arc::clone(&seen);
        async move {
            let lock = LockContext::current().expect("under the lock");
            seen.lock().unwrap().push(lock.fencing_token().get());
            Ok::<_, Infallible>(())
        }
    });
    let lock = RedlockLayer::new(Redlock::embedded(), |request: &&'static str| Some(*request));
    let service = ServiceBuilder::new().layer(lock).retry(Again(true)).service(work);

    service.oneshot("a").await.unwrap();

    let tokens = tokens.lock().unwrap();
    assert!(tokens.len() == 2 && tokens[0] == tokens[1], "{tokens:?}");
}

#[tokio::test]
async fn caught_panic_inside_is_a_500() {
    let (redlock, runs) = (Redlock::embedded(), Arc::<AtomicUsize>::default());
    let counted = Arc::clone(&runs);
    let panics = service_fn(move |_: Request<Body>| {
        counted.fetch_add(1, SeqCst);
        async { panic!("on purpose") as Result<Answer, Infallible> }
    });
    let once = || OnceLayer::new(redlock.clone(), "once", key::header("id")).wait(HANG_GUARD);
    let once = || once().http();
    let catch = CatchPanicLayer::new;
    let inside = ServiceBuilder::new().layer(once()).layer(catch()).service(panics.clone());
    let outside = ServiceBuilder::new().layer(catch()).layer(once()).service(panics);

    for _ in 0..2 {
        let answer = inside.clone().oneshot(post()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
    let answer = outside.oneshot(post()).await.unwrap();

    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(runs.load(SeqCst), 3);
}

#[tokio::test]
async fn repeats_need_no_inner_lock() {
    let redlock = Redlock::embedded();
    let once = OnceLayer::new(redlock.clone(), "once", key::header("id")).http();
    let lock = RedlockLayer::new(redlock.clone(), key::header("id")).http();
    let service = ServiceBuilder::new().layer(once).layer(lock).service(Echo);
    let first = service.clone().oneshot(post()).await.unwrap();
    assert!(first.status() == StatusCode::OK && !first.headers().contains_key("once"));
    drop(first);
    let _held = redlock.lock("a").wait(HANG_GUARD).await.unwrap();

    let again = service.oneshot(post()).await.unwrap();

    assert_eq!(again.headers()["once"], "duplicate");
}
