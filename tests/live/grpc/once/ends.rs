//! The effect of a call's end on its key.

use std::{
    convert::Infallible,
    future::{IntoFuture as _, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use tonic::{Code, Status, body::Body};
use tower::{Layer, ServiceExt, service_fn};
use tower_redlock::{
    OnceLayer, Redlock, key,
    once::{OnceState, UnknownOutcome, grpc::CallOutcome},
    reject::RequestOutcome,
};

use super::site::{HOUR, Site, assert_duplicate, assert_info, layer, serve_orders};
use crate::grpc::{
    orders::Orders,
    site::{TTL, assert_lost, locks, place},
};
use crate::log::Log;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// Every code but `OK`.
fn failures() -> impl Iterator<Item = Code> {
    (1..=16).map(Code::from_i32)
}

#[tokio::test]
async fn each_status_decides_on_the_key() {
    let site = Site::open(|layer| layer.unknown(UnknownOutcome::Hold(HOUR))).await;
    let mut unknown = Vec::new();
    for code in failures() {
        let (order, item) = (format!("{code:?}"), format!("code {}", i32::from(code)));
        let status = site.place(&order, &item).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (code, "as asked for"));
        match site.state(&order).await {
            Some(OnceState::Unknown) => unknown.push(code),
            state => {
                assert_eq!(state, None, "{code:?}");
                site.place(&order, "").await.expect("the next try runs");
                assert_duplicate(site.place(&order, "").await);
            }
        }
    }

    let expected =
        [Code::Cancelled, Code::Unknown, Code::DeadlineExceeded, Code::Internal, Code::DataLoss];

    assert_eq!(unknown, expected);
}

#[tokio::test]
async fn unknown_is_free_unless_held() {
    let site = Site::open(|layer| layer).await;
    for code in failures() {
        let item = format!("code {}", i32::from(code));
        assert_eq!(site.place("7", &item).await.unwrap_err().code(), code);
    }
    site.place("7", "").await.expect("free");
    assert_duplicate(site.place("7", "").await);
}

#[tokio::test]
async fn complete_when_decides_by_the_code() {
    let (_servers, redlock) = locks(TTL).await;
    let layer = OnceLayer::new(redlock.clone(), "orders", key::header("order-id"))
        .complete_when(|code| match code {
            Code::AlreadyExists => CallOutcome::Done,
            Code::Internal => CallOutcome::NotDone,
            Code::Unavailable => CallOutcome::Unknown,
            code => code.into(),
        })
        .unknown(UnknownOutcome::Hold(HOUR))
        .grpc();
    let client = serve_orders(layer, &Orders::default()).await;

    for (item, state) in [
        ("code 6", Some(OnceState::Done)),
        ("code 13", None),
        ("code 14", Some(OnceState::Unknown)),
        ("code 9", None),
        ("", Some(OnceState::Done)),
    ] {
        let order = format!("order{}", item.trim_start_matches("code "));
        assert_eq!(place(&client, &order, item).await.is_ok(), item.is_empty());
        let status = redlock.once_key(format!("layer:orders:{order}")).status().await.unwrap();
        assert_eq!(status.map(|status| status.state), state, "{item}");
    }
}

#[tokio::test]
async fn marked_outcome_precedes_the_status() {
    for (outcome, state) in [
        (RequestOutcome::Done, Some(OnceState::Done)),
        (RequestOutcome::Refused, None),
        (RequestOutcome::Unknown, Some(OnceState::Unknown)),
    ] {
        for status in [Status::internal("on purpose"), Status::ok("")] {
            let redlock = Redlock::embedded();
            let answer = service_fn(move |_: Request<()>| {
                let mut response = status.clone().into_http::<Body>();
                response.extensions_mut().insert(outcome);
                ready(Ok::<_, Infallible>(response))
            });
            let call = layer(&redlock).unknown(UnknownOutcome::Hold(HOUR)).layer(answer);
            let request = Request::post("/").header("order-id", "7").body(()).unwrap();
            call.oneshot(request).await.unwrap();
            let found = redlock.once_key("layer:orders:7").status().await.unwrap();
            assert_eq!(found.map(|found| found.state), state, "{outcome:?}");
        }
    }
}

/// The status comes with the trailers, or not at all.
#[tokio::test]
async fn marked_head_holds_to_the_end() {
    for (outcome, state) in [
        (RequestOutcome::Done, Some(OnceState::Done)),
        (RequestOutcome::Refused, None),
        (RequestOutcome::Unknown, Some(OnceState::Unknown)),
    ] {
        for status in [Some("0"), Some("13"), None] {
            let redlock = Redlock::embedded();
            let answer = service_fn(move |_: Request<()>| {
                let trailers = status.map(|status| {
                    Ok(HeaderMap::from_iter([(GRPC_STATUS, HeaderValue::from_static(status))]))
                });
                let body = Full::new(Bytes::from_static(b"x")).with_trailers(ready(trailers));
                let mut response = Response::new(body);
                response.extensions_mut().insert(outcome);
                ready(Ok::<_, Infallible>(response))
            });
            let call = layer(&redlock).unknown(UnknownOutcome::Hold(HOUR)).layer(answer);
            let request = Request::post("/").header("order-id", "7").body(()).unwrap();
            let body = call.oneshot(request).await.unwrap().into_body().collect().await.unwrap();
            assert_eq!(body.trailers().is_some(), status.is_some(), "they are handed on");
            let found = redlock.once_key("layer:orders:7").status().await.unwrap();
            assert_eq!(found.map(|found| found.state), state, "{outcome:?}, {status:?}");
        }
    }
}

/// An outer layer frees its key if an inner one rejects the call, and keeps it if the inner one
/// knows that the call is done.
#[tokio::test]
async fn inner_layer_marks_the_outcome() {
    let redlock = Redlock::embedded();
    let served =
        service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Status::ok("").into_http::<Body>())));
    let outer = OnceLayer::new(redlock.clone(), "outer", key::header("order-id")).grpc();
    let call = async |order: &str| {
        let inner = outer.clone().layer(layer(&redlock).layer(served));
        let request = Request::post("/").header("order-id", order).body(()).unwrap();
        inner.oneshot(request).await.unwrap();
        let found = redlock.once_key(format!("layer:outer:{order}")).status().await.unwrap();
        found.map(|found| found.state)
    };

    redlock.once_key("layer:orders:7").mark_done().await.unwrap();

    assert_eq!(call("7").await, Some(OnceState::Done), "a duplicate");

    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let running = redlock.once_key("layer:orders:8").run(|_| async {
        begun.send(()).unwrap();
        std::future::pending::<Result<(), Infallible>>().await
    });
    let running = tokio::spawn(running.into_future());
    has_begun.await.unwrap();

    assert_eq!(call("8").await, None, "turned away");

    running.abort();
}

#[tokio::test]
async fn lost_lock_leaves_unknown_outcome() {
    let hold = Duration::from_secs(1);
    let site = Site::open(|layer| layer.max_hold(hold).unknown(UnknownOutcome::Hold(HOUR))).await;
    assert_lost(&site.place("7", "stuck").await.unwrap_err());
    let status = site.place("7", "").await.unwrap_err();
    assert_info(&status, Code::FailedPrecondition, "UNKNOWN_OUTCOME", "unknown");
}

#[tokio::test]
async fn method_that_panics_leaves_unknown_outcome() {
    let site = Site::open(|layer| layer.unknown(UnknownOutcome::Hold(HOUR))).await;
    site.place("7", "panicking").await.unwrap_err();
    site.becomes("7", Some(OnceState::Unknown)).await;
}

#[tokio::test]
async fn an_unknown_outcome_is_a_warning() {
    for (unknown, text) in [
        (UnknownOutcome::Release, "the next request with the key runs it again"),
        (UnknownOutcome::Hold(HOUR), "its key is held until mark_done or forget"),
    ] {
        let log = Log::new();
        let redlock = Redlock::embedded();
        let failing = service_fn(|_: Request<()>| {
            ready(Ok::<_, Infallible>(Status::internal("on purpose").into_http::<Body>()))
        });
        let call = layer(&redlock).unknown(unknown).layer(failing);
        let request = Request::post("/").header("order-id", "7").body(()).unwrap();
        log.during(call.oneshot(request)).await.unwrap();
        log.wait_for("WARN", &["unknown outcome", text, "once:layer:orders:7", "token="]).await;
        assert_eq!(log.count("WARN"), 1, "{}", log.text());
    }
}
