//! Responses to calls that do not run.

use std::{convert::Infallible, future::pending, time::Duration};

use futures_util::FutureExt;
use http::{Request, Response};
use http_body_util::Empty;
use tonic::{Code, Status};
use tower::{Layer, Service, service_fn};
use tower_redlock::{
    LockError, Redlock,
    once::{OnceState, UnknownOutcome, http::Missing},
    reject::{RejectReason, Rejection},
};

use super::site::{HOUR, Site, assert_duplicate, assert_info, layer, serve_orders};
use crate::grpc::{
    orders::{Orders, generated::PlaceRequest},
    site::{TTL, details, locks, place},
};
use crate::support::{HANG_GUARD, RedisServer, eventually_async};

#[tokio::test]
async fn done_is_already_exists_everywhere() {
    let site = Site::open(|layer| layer).await;
    let replica = site.replica().await;
    assert_ne!(site.place("7", "").await.unwrap(), 0, "there is a token");
    assert_duplicate(site.place("7", "").await);
    assert_duplicate(place(&replica, "7", "").await);
    place(&replica, "8", "").await.expect("another order");
    assert_eq!(site.orders.entered(), 2);
}

#[tokio::test]
async fn in_progress_is_aborted() {
    let site = Site::open(|layer| layer).await;
    let replica = site.replica().await;
    let first = site.stuck("7").await;
    for client in [&site.client, &replica] {
        let status = place(client, "7", "").await.unwrap_err();
        assert_info(&status, Code::Aborted, "IN_PROGRESS", "not-run");
        let delay = details(&status, Code::Aborted).retry_info().unwrap().retry_delay.unwrap();
        assert!(!delay.is_zero() && delay <= TTL, "{delay:?}");
    }
    site.orders.let_go();

    first.await.unwrap().expect("it ends");

    assert_duplicate(site.place("7", "").await);
    assert_eq!(site.orders.entered(), 1);
}

#[tokio::test]
async fn held_unknown_is_a_failed_precondition() {
    let site = Site::open(|layer| layer.unknown(UnknownOutcome::Hold(HOUR))).await;
    assert_eq!(site.place("7", "code 13").await.unwrap_err().code(), Code::Internal);
    let status = site.place("7", "").await.unwrap_err();
    assert_info(&status, Code::FailedPrecondition, "UNKNOWN_OUTCOME", "unknown");
    assert!(details(&status, Code::FailedPrecondition).retry_info().is_none());
    site.redlock.once_key("layer:orders:7").mark_done().await.unwrap();
    assert_duplicate(site.place("7", "").await);
    assert_eq!(site.orders.entered(), 1);
}

#[tokio::test]
async fn missing_key_is_refused_or_runs() {
    let without = async |site: &Site| site.client.clone().place(PlaceRequest::default()).await;
    let site = Site::open(|layer| layer).await;

    assert_eq!(without(&site).await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(site.place("", "").await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(site.orders.entered(), 0);

    let site = Site::open(|layer| layer.missing(Missing::Run)).await;
    for _ in 0..2 {
        without(&site).await.expect("it runs");
        assert!(site.orders.context().is_none());
    }

    assert_eq!(site.place("", "").await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(site.orders.entered(), 2);
}

#[tokio::test]
async fn without_a_quorum_it_is_unavailable() {
    let (mut servers, redlock) = locks(TTL).await;
    let orders = Orders::default();
    let client = serve_orders(layer(&redlock), &orders).await;
    servers[..2].iter_mut().for_each(RedisServer::kill);
    let status = place(&client, "7", "").await.unwrap_err();
    let delay = details(&status, Code::Unavailable).retry_info().unwrap().retry_delay;
    assert_eq!(delay, Some(Duration::from_secs(1)));
    assert_eq!(orders.entered(), 0);
}

/// A server without its own timeout, or a client's side of the connection.
#[tokio::test]
async fn wait_ends_with_callers_timeout() {
    let redlock = Redlock::embedded();
    let layer = layer(&redlock).wait(HANG_GUARD * 10);
    let mut service = layer.layer(service_fn(|_: Request<()>| {
        pending::<Result<Response<Empty<bytes::Bytes>>, Infallible>>()
    }));
    let request = || Request::post("/").header("order-id", "7");

    let mut first = Box::pin(service.call(request().body(()).unwrap()));

    assert!((&mut first).now_or_never().is_none());

    let call = service.call(request().header("grpc-timeout", "100m").body(()).unwrap());
    let response = tokio::time::timeout(HANG_GUARD, call).await.expect("in time").unwrap();
    let status = Status::from_header_map(response.headers()).expect("a status");
    assert_info(&status, Code::Aborted, "IN_PROGRESS", "not-run");
}

#[tokio::test]
async fn own_answers_and_the_tokens_header() {
    fn own(rejection: Rejection<'_>) -> Status {
        match rejection.reason() {
            RejectReason::InProgress { .. } => {
                Status::resource_exhausted(rejection.resource().unwrap().to_string())
            }
            RejectReason::Lock(LockError::Lost { .. }) => Status::data_loss("lost"),
            _ => rejection.grpc_status(),
        }
    }
    let (_servers, redlock) = locks(TTL).await;
    let orders = Orders::default();
    let layer = layer(&redlock).max_hold(Duration::from_secs(2)).token_header("token");
    let client = serve_orders(layer.on_reject(own), &orders).await;

    let token = place(&client, "8", "").await.unwrap();

    assert_eq!(orders.metadata("token"), Some(token.to_string()));

    let stuck = tokio::spawn({
        let client = client.clone();
        async move { place(&client, "7", "stuck").await }
    });
    eventually_async("it runs", async || orders.entered() == 2).await;
    let busy = place(&client, "7", "").await.unwrap_err();

    assert_eq!((busy.code(), busy.message()), (Code::ResourceExhausted, "once:layer:orders:7"));
    assert_eq!(stuck.await.unwrap().unwrap_err().code(), Code::DataLoss);
    assert_duplicate(place(&client, "8", "").await);

    let state = redlock.once_key("layer:orders:8").status().await.unwrap().unwrap().state;
    assert_eq!(state, OnceState::Done);
}
