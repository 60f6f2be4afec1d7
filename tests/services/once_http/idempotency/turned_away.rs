//! Requests that were rejected before their handler ran: the response is not stored.

use axum::{Extension, Json, Router, body::Body, routing::post};
use http::{Request, Response, StatusCode};
use tower_redlock::{
    FencingLayer, OnceLayer, Redlock, RedlockLayer, key,
    once::{
        UnknownOutcome,
        http::{KeptStatuses, ServerErrors},
    },
    reject::RequestOutcome,
};

use super::requests::{Layer, freeing, layer, pay};
use crate::once_http::fixture::{Fixture, HOUR, serve};

/// Stores every response, whatever its status.
fn keeping_all(redlock: &Redlock) -> Layer {
    let kept = KeptStatuses::all();
    let statuses = [StatusCode::INTERNAL_SERVER_ERROR, StatusCode::SERVICE_UNAVAILABLE];
    let kept = statuses.into_iter().fold(kept, KeptStatuses::with);
    freeing(redlock).kept_statuses(kept).server_errors(ServerErrors::Keep)
}

fn handler(fixture: &Fixture) -> Router {
    let runs = fixture.runs.clone();
    Router::new().route("/pay", post(async move || format!("run {}", runs.run())))
}

#[tokio::test]
async fn corrected_content_type_runs() {
    let fixture = Fixture::new(3);
    let runs = fixture.runs.clone();
    let app = Router::new().route(
        "/pay",
        post(async move |Json(amount): Json<u32>| {
            runs.run();
            format!("paid {amount}")
        }),
    );
    let client = serve(app.route_layer(layer(&fixture.at_blue))).await;
    let typed = |content_type: &'static str, body: &'static str| {
        let mut request = pay("k", body);
        request.headers_mut().insert("content-type", content_type.parse().unwrap());
        request
    };
    // What axum's extractors say.
    assert_eq!(client.send(typed("text/plain", "3")).await.code(), 415);
    assert_eq!(client.send(typed("application/json", "")).await.code(), 400);
    assert_eq!(client.send(typed("application/json", "-3")).await.code(), 422);
    let paid = client.send(typed("application/json", "3")).await;
    assert_eq!((paid.code(), &paid.body[..]), (200, &b"paid 3"[..]));
    // The key is that of this request now.
    client.send(typed("application/json", "4")).await.assert_key_reused();
    assert_eq!(fixture.runs.count(), 1);
}

#[tokio::test]
async fn unknown_route_runs_on_new_replica() {
    let fixture = Fixture::new(3);
    let old = Router::new().route("/other", post(async || "other"));
    let old = serve(old.layer(layer(&fixture.at_blue))).await;
    let method = Router::new().route("/pay", axum::routing::get(async || "list"));
    let older = serve(method.layer(layer(&fixture.at_blue))).await;
    let new = serve(handler(&fixture).layer(layer(&fixture.at_green))).await;
    assert_eq!(old.send(pay("k", "3 EUR")).await.code(), 404);
    assert_eq!(older.send(pay("k", "3 EUR")).await.code(), 405);
    assert_eq!(new.send(pay("k", "3 EUR")).await.body, "run 1");
}

/// Sends a request twice through the inner layer that rejects it, then without it.
async fn assert_never_kept(fixture: &Fixture, inner: Router, status: u16) {
    let runs = fixture.runs.count();
    for everything in [false, true] {
        let redlock = &fixture.at_blue;
        let once = if everything { keeping_all(redlock) } else { layer(redlock) };
        let client = serve(inner.clone().route_layer(once)).await;
        for _ in 0..2 {
            let refused = client.send(pay("k", "")).await;
            assert_eq!((refused.code(), refused.header("idempotency-replayed")), (status, None));
        }
        // Not even where the user says so of all.
        let all = layer(redlock).complete_when(|_: &Response<Body>| true);
        let client = serve(inner.clone().route_layer(all)).await;
        for _ in 0..2 {
            let refused = client.send(pay("k", "")).await;
            assert_eq!((refused.code(), refused.header("idempotency-replayed")), (status, None));
        }
    }
    assert_eq!(fixture.runs.count(), runs);
    let client = serve(handler(fixture).route_layer(layer(&fixture.at_blue))).await;
    assert_eq!(client.send(pay("k", "")).await.body, format!("run {}", runs + 1));
}

#[tokio::test]
async fn a_stale_token_is_never_kept() {
    let fixture = Fixture::new(3);
    let is_newer = |request: &Request<Body>| request.headers().contains_key("x-newer");
    let fence = FencingLayer::new(key::header("x-caller"))
        .token(move |request: &Request<Body>| Some(1 + u64::from(is_newer(request))));
    let inner = handler(&fixture).route_layer(fence.http());
    let mut newer = pay("k", "");
    newer.headers_mut().insert("x-newer", "1".parse().unwrap());
    assert_eq!(serve(inner.clone()).await.send(newer).await.body, "run 1");
    assert_never_kept(&fixture, inner, 412).await;
}

#[tokio::test]
async fn inner_held_lock_is_not_kept() {
    let fixture = Fixture::new(3);
    let inner = RedlockLayer::new(fixture.at_blue.clone(), |_: &Request<Body>| "account");
    let _held = fixture.at_green.lock("account").await.unwrap();
    assert_never_kept(&fixture, handler(&fixture).route_layer(inner.http()), 409).await;
}

#[tokio::test]
async fn inner_unkept_response_is_not_kept() {
    let fixture = Fixture::new(3);
    fixture.at_blue.once_key("idempotency:pay://pay.example/5:alice:k").mark_done().await.unwrap();
    let inner = handler(&fixture).route_layer(layer(&fixture.at_blue));
    let outer =
        OnceLayer::idempotency(fixture.at_blue.clone(), "outer").scope(key::header("x-caller"));
    let outer = outer.kept_statuses(KeptStatuses::all());
    let client = serve(inner.route_layer(outer)).await;
    for _ in 0..2 {
        client.send(pay("k", "")).await.assert_not_kept();
    }
}

/// A replay of an inner layer counts as done.
#[tokio::test]
async fn inner_replay_is_kept() {
    let fixture = Fixture::new(3);
    let runs = fixture.runs.clone();
    let app = Router::new().route(
        "/pay",
        post(async move || (StatusCode::PAYMENT_REQUIRED, format!("run {}", runs.run()))),
    );
    let kept = KeptStatuses::successes().with(StatusCode::PAYMENT_REQUIRED);
    let inner = app.route_layer(layer(&fixture.at_blue).kept_statuses(kept));
    let first = serve(inner.clone()).await.send(pay("k", "")).await;
    let outer = OnceLayer::new(fixture.at_blue.clone(), "outer", key::header("idempotency-key"));
    let client = serve(inner.route_layer(outer.http())).await;
    let again = client.send(pay("k", "")).await;
    assert_eq!((again.status, &again.body), (first.status, &first.body));
    again.assert_replayed();
    client.send(pay("k", "")).await.assert_duplicate();
    assert_eq!(fixture.runs.count(), 1);
}

#[tokio::test]
async fn handler_marks_one_response() {
    for (said, status, adjust, runs) in [
        (RequestOutcome::Done, 402, layer as fn(&Redlock) -> Layer, 1),
        (RequestOutcome::Done, 503, layer, 1),
        (RequestOutcome::Refused, 200, layer, 2),
        (RequestOutcome::Refused, 500, keeping_all, 2),
        (RequestOutcome::Unknown, 200, keeping_all, 2),
    ] {
        let fixture = Fixture::new(3);
        let (count, status) = (fixture.runs.clone(), StatusCode::from_u16(status).unwrap());
        let app = Router::new()
            .route("/pay", post(async move || (status, Extension(said), count.run().to_string())));
        let client = serve(app.route_layer(adjust(&fixture.at_blue))).await;
        for _ in 0..2 {
            assert_eq!(client.send(pay("k", "")).await.status, status);
        }
        assert_eq!(fixture.runs.count(), runs, "{said:?} {status}");
    }
    // And where such keys are held, it is.
    let fixture = Fixture::new(3);
    let app = Router::new().route("/pay", post(async || Extension(RequestOutcome::Unknown)));
    let once = keeping_all(&fixture.at_blue).unknown(UnknownOutcome::Hold(HOUR));
    let client = serve(app.route_layer(once)).await;
    assert_eq!(client.send(pay("k", "")).await.code(), 200);
    client.send(pay("k", "")).await.assert_unknown_outcome();
}
