//! Responses to requests that did not get, or lost, their lock: each documented status.

use std::{
    convert::Infallible,
    future::{Future, pending},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::{Layer, Service, service_fn};
use tower_redlock::{
    LockError, Redlock, RedlockLayer,
    error::Reason,
    layer::{
        KeyError, ResourceKey,
        http::{HttpBody, RedlockHttp},
    },
    node::{Node, Op, Reply},
    reject::{OnReject, Rejection, RequestOutcome},
};

use crate::http::fixture::{HandClock, Key, Scene, TTL, VALIDITY, poll, x};
use crate::support::HANG_GUARD;
use crate::support::mock_node::MockNode;

const OWNER: &str = "secret-owner";

/// About a second, with jitter.
const SOON: &str = "1 or 2";

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    /// Number of calls of the service.
    calls: usize,
}

impl Answer {
    #[track_caller]
    fn assert_problem(&self, status: u16, retry_after: Option<&str>, code: &str, outcome: &str) {
        assert_eq!(self.status, status);
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/problem+json");
        let after = self.headers.get(header::RETRY_AFTER).map(|value| value.to_str().unwrap());
        match retry_after {
            Some(SOON) => assert!(matches!(after, Some("1" | "2")), "{after:?}"),
            _ => assert_eq!(after, retry_after),
        }
        let problem: Value = serde_json::from_slice(&self.body).unwrap();
        let detail = problem["detail"].as_str().expect("a detail");
        let expected = json!({
            "title": self.status.canonical_reason(),
            "status": status,
            "detail": detail,
            "code": code,
            "outcome": outcome,
        });
        assert_eq!(problem, expected);
        assert_eq!(detail.contains("nothing was done"), outcome == "not-run", "{detail}");
        assert!(!detail.contains("secret") && !detail.contains("embedded"), "{detail}");
        assert_eq!(self.calls, usize::from(outcome == "unknown"), "the handler's calls");
    }
}

type Layers<K, R> = RedlockLayer<K, RedlockHttp<R>>;

/// Sends a request to a service that does not respond. `meanwhile` is called until there is a
/// response.
fn ask<K, R>(layer: &Layers<K, R>, mut meanwhile: impl FnMut()) -> Answer
where
    K: ResourceKey<Request<()>> + Clone,
    R: OnReject<Response<Bytes>> + Clone,
{
    let calls = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&calls);
    let service = service_fn(move |_: Request<()>| {
        count.fetch_add(1, Ordering::SeqCst);
        pending::<Result<Response<Full<Bytes>>, Infallible>>()
    });
    let request = Request::post("/").body(()).unwrap();
    let mut answer = pin!(layer.layer(service).call(request));
    let response = eventually_ready(answer.as_mut(), &mut meanwhile).unwrap();
    let said = RequestOutcome::of(&response);
    let (head, body) = response.into_parts();
    let size = http_body::Body::size_hint(&body).exact();
    let Poll::Ready(Ok(collected)) = poll(pin!(body.collect())) else { panic!("no body") };
    let body = collected.to_bytes();
    assert_eq!(size, Some(body.len() as u64));
    let calls = calls.load(Ordering::SeqCst);
    // Marked for an outer layer, even if another layer made the response.
    let [not_run, unknown] = [RequestOutcome::Refused, RequestOutcome::Unknown];
    assert_eq!(said, Some(if calls == 0 { not_run } else { unknown }));
    Answer { status: head.status, headers: head.headers, body, calls }
}

type Result_ = Result<Response<HttpBody<Full<Bytes>>>, Infallible>;

fn eventually_ready(
    mut answer: Pin<&mut impl Future<Output = Result_>>,
    meanwhile: &mut impl FnMut(),
) -> Result_ {
    let started = Instant::now();
    let mut polls = 0;
    while started.elapsed() < HANG_GUARD {
        if let Poll::Ready(response) = poll(answer.as_mut()) {
            return response;
        }
        polls += 1;
        if polls <= 10 {
            meanwhile();
        } else {
            // The manager's thread may be about to begin the last attempt.
            thread::yield_now();
        }
    }
    panic!("no answer");
}

fn layer(redlock: &Redlock) -> RedlockLayer<Key, RedlockHttp> {
    RedlockLayer::new(redlock.clone(), x as Key).http()
}

fn never() {
    panic!("the answer is there at once");
}

/// Nodes, a manager over them, and another manager whose owner must not be reported.
fn two() -> (HandClock, Redlock, Redlock) {
    let scene = Scene::without_timers(5);
    let other = scene.manager(|builder| builder.owner(OWNER));
    (scene.clock, scene.redlock, other)
}

fn hold(redlock: &Redlock) -> tower_redlock::Lock {
    let Poll::Ready(Ok(lock)) = poll(pin!(redlock.lock("x").into_future())) else { panic!() };
    lock
}

/// The same, with a manager whose locks were held for `time` before.
fn usually(time: Duration) -> (HandClock, Redlock, Redlock) {
    let (clock, ours, other) = two();
    let lock = hold(&ours);
    clock.advance(time);
    drop(lock);
    (clock, ours, other)
}

#[test]
fn held_is_409_with_default_delay() {
    let (clock, ours, other) = two();
    let _lock = hold(&other);
    for advance in [0, 3_500, 6_000] {
        clock.advance(Duration::from_millis(advance));
        ask(&layer(&ours), never).assert_problem(409, Some(SOON), "held", "not-run");
    }
}

#[test]
fn held_is_409_with_estimated_delay() {
    let (_, ours, other) = usually(Duration::from_secs(6));
    let _lock = hold(&other);
    let seconds = |layer: &RedlockLayer<Key, RedlockHttp>| -> Vec<u64> {
        let after = || ask(layer, never).headers[header::RETRY_AFTER].clone();
        (0..100).map(|_| after().to_str().unwrap().parse().unwrap()).collect()
    };

    let told = seconds(&layer(&ours));

    assert!(told.iter().all(|told| (3..=9).contains(told)), "{told:?}");
    assert!(told.iter().any(|other| *other != told[0]), "jitter: {told:?}");

    let told = seconds(&layer(&ours).max_retry_after(Duration::from_secs(2)));
    assert!(told.iter().all(|told| (1..=2).contains(told)), "{told:?}");
}

#[test]
fn held_within_the_process_is_409() {
    let (clock, ours, _) = two();
    let lock = hold(&ours);
    clock.advance(Duration::from_secs(4));
    ask(&layer(&ours), never).assert_problem(409, Some(SOON), "held", "not-run");
    drop(lock);
}

fn bad(clock: &HandClock, slow: Option<Duration>) -> Redlock {
    let wrap = |inner: Arc<dyn Node>| {
        let clock = clock.clone();
        let node = MockNode::over(&inner, move |op, reply, inner| match (slow, &op) {
            (None, Op::Acquire(_)) => reply.send(Err(Reason::TimedOut)),
            // Grants, and moves the clock before it answers.
            (Some(by), Op::Acquire(_)) => {
                let clock = clock.clone();
                let late = Reply::from_fn(move |result| {
                    clock.advance(by);
                    reply.send(result);
                });
                inner.send(op, late);
            }
            _ => inner.send(op, reply),
        });
        node.named("secret-node")
    };
    Scene::on(clock.clone(), 1).over(|builder| builder, wrap).redlock
}

#[test]
fn no_quorum_is_503() {
    let redlock = bad(&HandClock::unwatched(), None);
    ask(&layer(&redlock), never).assert_problem(503, Some("1"), "no-quorum", "not-run");
}

#[test]
fn too_slow_is_503() {
    let redlock = bad(&HandClock::unwatched(), Some(VALIDITY));
    ask(&layer(&redlock), never).assert_problem(503, Some("1"), "too-slow", "not-run");
}

#[test]
fn wait_timeout_has_the_last_answer() {
    let wait = Duration::from_secs(2);
    for is_ours in [false, true] {
        let (clock, ours, other) = two();
        let _lock = hold(if is_ours { &ours } else { &other });
        let answer = ask(&layer(&ours).wait(wait), || clock.advance(wait));
        answer.assert_problem(409, Some(SOON), "held", "not-run");
    }

    let clock = HandClock::unwatched();
    let redlock = bad(&clock, None);
    let answer = ask(&layer(&redlock).wait(wait), || clock.advance(wait));
    answer.assert_problem(503, Some("1"), "no-quorum", "not-run");
}

#[test]
fn lost_is_500_outcome_unknown() {
    let (clock, ours, _) = two();
    let answer = ask(&layer(&ours), || clock.advance(VALIDITY));
    answer.assert_problem(500, None, "lost", "unknown");
}

#[test]
fn a_bad_key_is_400() {
    let (_, ours, _) = two();
    let key = |_: &Request<()>| Err::<String, _>(KeyError::new("the header x-account is missing"));
    let answer = ask(&RedlockLayer::new(ours.clone(), key).http(), never);
    answer.assert_problem(400, None, "bad-key", "not-run");
    assert!(String::from_utf8_lossy(&answer.body).contains("the header x-account is missing"));
    let empty = RedlockLayer::new(ours, |_: &Request<()>| "").http();
    ask(&empty, never).assert_problem(400, None, "bad-key", "not-run");
}

#[test]
fn refused_settings_are_500() {
    let (_, ours, _) = two();
    let answer = ask(&layer(&ours).ttl(TTL * 2), never);
    answer.assert_problem(500, None, "bad-settings", "not-run");
}

#[test]
fn build_checks_the_settings() {
    let (_, ours, _) = two();
    let error = layer(&ours).ttl(TTL * 2).build().unwrap_err();
    assert!(matches!(error, LockError::InvalidRequest(_)), "{error:?}");
    assert!(error.to_string().contains("max_ttl (10s)"), "{error}");
    assert!(layer(&ours).max_hold(Duration::ZERO).build().is_err());
    assert!(layer(&ours).ttl(TTL).wait(Duration::MAX).build().is_ok());
}

#[test]
fn after_a_shutdown_it_is_503() {
    let (_, ours, _) = two();
    assert!(poll(pin!(ours.shutdown())).is_ready());
    ask(&layer(&ours), never).assert_problem(503, Some("1"), "shut-down", "not-run");
}

#[test]
fn on_reject_replaces_the_response() {
    let (clock, ours, other) = two();
    let teapot = layer(&ours).on_reject(|rejection: Rejection<'_>| {
        let text = format!(
            "{} {} {:?} began: {}; {}",
            rejection.code(),
            rejection.resource().map_or("none".into(), ToString::to_string),
            rejection.retry_after().is_some(),
            rejection.has_begun(),
            rejection.lock_error().expect("an error of the lock"),
        );
        let mut response = rejection.response().map(|_| Bytes::from(text));
        *response.status_mut() = StatusCode::IM_A_TEAPOT;
        response
    });
    let lock = hold(&other);

    let answer = ask(&teapot, never);

    assert_eq!((answer.status, answer.calls), (StatusCode::IM_A_TEAPOT, 0));

    let text = "held x true began: false; held by secret-owner on ";
    assert!(answer.body.starts_with(text.as_bytes()), "{:?}", answer.body);

    drop(lock);
    let answer = ask(&teapot, || clock.advance(VALIDITY));
    assert_eq!((answer.status, answer.calls), (StatusCode::IM_A_TEAPOT, 1));
    assert!(answer.body.starts_with(b"lost x false began: true; "), "{:?}", answer.body);
}

#[test]
fn an_override_may_have_no_body() {
    let (_, ours, other) = two();
    let _lock = hold(&other);
    let empty = layer(&ours).on_reject(|rejection: Rejection<'_>| {
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = rejection.status();
        response
    });

    let answer = ask(&empty, never);

    assert_eq!((answer.status, answer.body.len()), (StatusCode::CONFLICT, 0));
}
