//! What the end of a call means for its key.

use std::{convert::Infallible, future::ready, time::Duration};

use http::Request;
use tonic::{Code, Status, body::Body};
use tower::{Layer, ServiceExt, service_fn};
use tower_redlock::{
    OnceLayer, Redlock, Unknown, key,
    once::{CallOutcome, OnceState},
};

use super::site::{HOUR, Site, assert_duplicate, assert_info, layer, serve_orders};
use crate::{
    logged::Log,
    orders::Orders,
    site::{TTL, assert_lost, locks, place},
};

/// Every code but `OK`.
fn failures() -> impl Iterator<Item = Code> {
    (1..=16).map(Code::from_i32)
}

#[tokio::test]
async fn each_status_says_what_becomes_of_the_key() {
    let site = Site::open(|layer| layer.unknown(Unknown::Hold(HOUR))).await;
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
async fn unknown_is_free_unless_it_is_held() {
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
        .unknown(Unknown::Hold(HOUR))
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
        let status = redlock.once(format!("orders:{order}")).status().await.unwrap();
        assert_eq!(status.map(|status| status.state), state, "{item}");
    }
}

#[tokio::test]
async fn a_lost_lock_leaves_an_unknown_outcome() {
    let hold = Duration::from_secs(1);
    let site = Site::open(|layer| layer.max_hold(hold).unknown(Unknown::Hold(HOUR))).await;
    assert_lost(&site.place("7", "stuck").await.unwrap_err());
    let status = site.place("7", "").await.unwrap_err();
    assert_info(&status, Code::FailedPrecondition, "UNKNOWN_OUTCOME", "unknown");
}

#[tokio::test]
async fn a_method_that_panics_leaves_an_unknown_outcome() {
    let site = Site::open(|layer| layer.unknown(Unknown::Hold(HOUR))).await;
    site.place("7", "panicking").await.unwrap_err();
    site.becomes("7", Some(OnceState::Unknown)).await;
}

#[tokio::test]
async fn an_unknown_outcome_is_a_warning() {
    for (unknown, text) in [
        (Unknown::Release, "the next request with the key runs it again"),
        (Unknown::Hold(HOUR), "its key is held until somebody decides"),
    ] {
        let log = Log::new();
        let redlock = Redlock::embedded();
        let failing = service_fn(|_: Request<()>| {
            ready(Ok::<_, Infallible>(Status::internal("on purpose").into_http::<Body>()))
        });
        let call = layer(&redlock).unknown(unknown).layer(failing);
        let request = Request::post("/").header("order-id", "7").body(()).unwrap();
        log.during(call.oneshot(request)).await.unwrap();
        log.wait_for("WARN", &["unknown outcome", text, "once:orders:7", "token="]).await;
        assert_eq!(log.count("WARN"), 1, "{}", log.text());
    }
}
