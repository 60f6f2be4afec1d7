//! The defaults for requests whose outcome is unknown: of `Idempotency-Key` and of webhooks.

use std::{convert::Infallible, time::Duration};

use axum::{Router, body::Body, routing::post};
use http::{Request, Response, StatusCode};
use tower::{Layer, ServiceExt, service_fn};
use tower_redlock::{
    OnceLayer, key,
    once::{RestoredBody, http::DEFAULT_HOLD},
};

use super::tools::{layer, pay};
use crate::once_http::{
    client::Client,
    marked::{Send, event},
    site::{Site, hook, serve},
};
use crate::support::eventually_async;

/// A handler whose first response has this status; the status 0 is a panic.
fn first_fails(site: &Site, status: u16) -> Router {
    let runs = site.runs.clone();
    let handle = post(async move || match (runs.run(), status) {
        (1, 0) => panic!("on purpose"),
        (1, status) => (StatusCode::from_u16(status).unwrap(), "run 1".to_owned()),
        (run, _) => (StatusCode::OK, format!("run {run}")),
    });
    Router::new().route("/hook", handle.clone()).route("/pay", handle)
}

fn payment() -> Request<Body> {
    pay("k", "")
}

#[tokio::test]
async fn server_errors_and_panics_are_held() {
    for status in [500, 502, 503, 504, 599, 0] {
        let site = Site::new(3);
        let client = serve(first_fails(&site, status).route_layer(layer(&site.at_blue))).await;

        match client.try_send(payment()).await {
            Ok(answer) => assert_eq!(answer.code(), status),
            Err(_) => assert_eq!(status, 0, "a panic ends the connection"),
        }
        eventually_async("the lock is released", async || site.nodes.key_counts() == [0; 3]).await;

        for _ in 0..2 {
            let again = client.send(payment()).await;
            again.assert_problem(409, None, "unknown-outcome", "unknown");
        }
        site.clock.advance(DEFAULT_HOLD.saturating_sub(Duration::from_secs(1)));
        assert_eq!(client.send(payment()).await.code(), 409, "{status}");
        site.clock.advance(Duration::from_secs(1));
        assert_eq!(client.send(payment()).await.body, "run 2", "{status}");
    }
}

#[tokio::test]
async fn errors_of_the_service_are_held() {
    let site = Site::new(3);
    let runs = site.runs.clone();
    let broken = service_fn(move |_: Request<RestoredBody<Body>>| {
        runs.run();
        async { Err::<Response<Body>, _>("broken") }
    });
    let service = layer(&site.at_blue).layer(broken);

    assert_eq!(service.clone().oneshot(payment()).await.unwrap_err(), "broken");

    for _ in 0..2 {
        assert_eq!(service.clone().oneshot(payment()).await.unwrap().status(), 409);
    }
    assert_eq!(site.runs.count(), 1);
}

#[tokio::test]
async fn refusals_and_redirects_free_the_key() {
    for status in [301, 302, 307, 308, 400, 404, 409, 422, 429] {
        let site = Site::new(3);
        let client = serve(first_fails(&site, status).route_layer(layer(&site.at_blue))).await;
        assert_eq!(client.send(payment()).await.code(), status);
        let again = client.send(payment()).await;
        assert_eq!((&again.body[..], again.header("idempotency-replayed")), (&b"run 2"[..], None));
    }
}

#[tokio::test]
async fn see_other_is_replayed() {
    let site = Site::new(3);
    let client = serve(first_fails(&site, 303).route_layer(layer(&site.at_blue))).await;
    assert_eq!(client.send(payment()).await.code(), 303);
    let again = client.send(payment()).await;
    assert_eq!((again.code(), again.header("idempotency-replayed")), (303, Some("true")));
    assert_eq!(site.runs.count(), 1);
}

/// Senders of webhooks retry.
#[tokio::test]
async fn webhooks_run_again_after_failures() {
    for status in [302, 400, 500, 503, 0] {
        for kind in 0..2 {
            let site = Site::new(3);
            let app = first_fails(&site, status);
            let (client, request): (Client, Send) = if kind == 0 {
                let layer = OnceLayer::new(site.at_blue.clone(), "head", key::header("webhook-id"));
                (serve(app.route_layer(layer.http())).await, || hook("evt_1"))
            } else {
                let layer = OnceLayer::by_body(site.at_blue.clone(), "b", key::json_pointer("/id"));
                (serve(app.route_layer(layer)).await, event)
            };
            drop(client.try_send(request()).await);
            eventually_async("the lock is released", async || site.nodes.key_counts() == [0; 3])
                .await;
            assert_eq!(client.send(request()).await.body, "run 2", "{status}");
            client.send(request()).await.assert_duplicate();
        }
    }
}

/// Of a service that answers nothing else.
#[tokio::test]
async fn replica_learns_of_a_held_key() {
    let site = Site::new(3);
    let client = serve(first_fails(&site, 500).route_layer(layer(&site.at_blue))).await;
    assert_eq!(client.send(payment()).await.code(), 500);
    let unused = service_fn(|_: Request<RestoredBody<Body>>| {
        panic!("it does not run");
        #[allow(unreachable_code, reason = "for its type")]
        std::future::ready(Ok::<_, Infallible>(Response::new(Body::empty())))
    });
    let green = layer(&site.at_green).layer(unused);
    assert_eq!(green.oneshot(payment()).await.unwrap().status(), 409);
}
