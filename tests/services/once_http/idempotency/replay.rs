//! Replays of the first response.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use axum::{Router, routing::post};
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header};
use tokio::sync::Notify;
use tower::ServiceExt;
use tower_redlock::{
    OnceLayer, Redlock,
    error::Reason,
    node::{EmbeddedNodes, Node, Op, RecordOp},
    once::{MemoryStore, StoredHeaders},
};

use super::requests::{both, layer, pay, stored};
use crate::client::Answer;
use crate::once_http::fixture::{Fixture, HOUR, Runs, serve, soon};
use crate::support::{
    eventually_async,
    mock_node::{MockNode, Withheld, with_nodes},
};

/// Every byte value, and more bytes than a length of one byte can state.
fn binary() -> Bytes {
    (0..=u8::MAX).cycle().take(20_000).collect()
}

fn made(run: usize) -> Response<axum::body::Body> {
    Response::builder()
        .status(201)
        .header("content-type", "application/octet-stream")
        .header("location", "/pay/7")
        .header("link", "<a>")
        .header("x-run", run)
        .header("link", "<b>")
        .header("set-cookie", "session=secret")
        .header("retry-after", "7")
        .header("cache-control", "no-store")
        .header("content-security-policy", "default-src 'none'")
        .header("x-content-type-options", "nosniff")
        // A header of one connection.
        .header("connection", "x-hop")
        .header("x-hop", "1")
        .body(binary().into())
        .unwrap()
}

/// Replays have no headers of one exchange or one connection.
fn kept(answer: &Answer) -> HeaderMap {
    let mut headers = answer.headers.clone();
    for name in ["date", "set-cookie", "connection", "x-hop", "idempotency-replayed"] {
        headers.remove(name);
    }
    headers
}

#[track_caller]
fn assert_replayed(first: &Answer, again: &Answer) {
    assert_eq!(first.header("idempotency-replayed"), None);
    again.assert_replayed();
    assert_eq!((again.status, &again.body), (first.status, &first.body));
    assert_eq!(kept(again), kept(first));
}

#[tokio::test]
async fn every_replica_replays_the_response() {
    let fixture = Fixture::new(3);
    let runs = fixture.runs.clone();
    let app = Router::new().route("/pay", post(async move || made(runs.run())));
    let (blue, green) = both(&app, [&fixture.at_blue, &fixture.at_green]).await;

    let first = blue.send(pay("k-1", "3 EUR")).await;
    assert_eq!((first.code(), &first.body), (201, &binary()));
    assert_eq!(first.header("set-cookie"), Some("session=secret"), "to who asked first");
    // The key is the same with quotes.
    for (client, key) in [(&blue, "k-1"), (&green, "k-1"), (&green, r#""k-1""#)] {
        let again = client.send(pay(key, "3 EUR")).await;
        assert_replayed(&first, &again);
        let links: Vec<_> = again.headers.get_all(header::LINK).iter().collect();
        assert_eq!(links, ["<a>", "<b>"]);
        for never in ["set-cookie", "connection", "x-hop"] {
            assert_eq!(again.header(never), None, "{never}");
        }
        assert_eq!(again.header("x-content-type-options"), Some("nosniff"));
    }
    assert_eq!(fixture.runs.count(), 1);
    assert_eq!(blue.send(pay("k-2", "3 EUR")).await.header("x-run"), Some("2"));
    fixture.clock.advance(96 * HOUR);
    assert_eq!(green.send(pay("k-1", "3 EUR")).await.header("x-run"), Some("3"));
}

#[tokio::test]
async fn store_replays_chosen_headers() {
    let fixture = Fixture::new(3);
    let (runs, store) = (fixture.runs.clone(), MemoryStore::new());
    let app = Router::new().route("/pay", post(async move || made(runs.run())));
    let layer = |redlock| stored(redlock, &store);
    let blue = serve(app.clone().route_layer(layer(&fixture.at_blue))).await;
    let green = serve(app.clone().route_layer(layer(&fixture.at_green))).await;
    let first = blue.send(pay("k", "3 EUR")).await;
    assert_eq!(store.len(), 1);
    for client in [&blue, &green] {
        let again = client.send(pay("k", "3 EUR")).await;
        assert_replayed(&first, &again);
        assert_eq!((again.header("x-run"), again.header("set-cookie")), (Some("1"), None));
    }
    let few = StoredHeaders::representation().and("x-run").and("set-cookie");
    let client = serve(app.route_layer(layer(&fixture.at_blue).stored_headers(few))).await;
    assert_eq!(client.send(pay("few", "3 EUR")).await.header("cache-control"), Some("no-store"));
    let again = client.send(pay("few", "3 EUR")).await;
    assert_eq!((again.header("x-run"), again.header("set-cookie")), (Some("2"), None));
    assert_eq!((again.header("location"), again.header("cache-control")), (Some("/pay/7"), None));
}

#[tokio::test]
async fn waiter_gets_the_response() {
    let fixture = Fixture::new(3);
    let (runs, go) = (fixture.runs.clone(), Arc::new(Notify::new()));
    let gone = Arc::clone(&go);
    let app = Router::new().route(
        "/pay",
        post(async move || {
            let run = runs.run();
            gone.notified().await;
            made(run)
        }),
    );
    let client = serve(app.route_layer(layer(&fixture.at_blue).wait(HOUR))).await;
    let send = || {
        let client = client.clone();
        tokio::spawn(async move { client.send(pay("k", "3 EUR")).await })
    };
    let first = send();
    fixture.runs(1).await;
    let second = send();
    tokio::task::yield_now().await;
    assert!(!second.is_finished());
    go.notify_one();
    let (first, second) = (first.await.unwrap(), soon("the second", second).await.unwrap());
    assert_replayed(&first, &second);
    assert_eq!(fixture.runs.count(), 1);
}

#[tokio::test]
async fn headers_count_towards_the_limit() {
    let fixture = Fixture::new(3);
    let runs = fixture.runs.clone();
    let app = Router::new().route(
        "/pay",
        post(async move |length: String| {
            runs.run();
            ([("x-long", "x".repeat(length.parse().unwrap()))], StatusCode::NO_CONTENT)
        }),
    );
    let client = serve(app.route_layer(layer(&fixture.at_blue).response_limit(1000))).await;
    let fits = 1000 - "x-long".len();
    for (key, length, code) in [("a", fits, 204), ("b", fits + 1, 409)] {
        assert_eq!(client.send(pay(key, length.to_string())).await.code(), 204);
        assert_eq!(client.send(pay(key, length.to_string())).await.code(), code);
    }
    assert_eq!(fixture.runs.count(), 2);
}

#[tokio::test]
async fn methods_are_configurable() {
    let fixture = Fixture::new(3);
    let runs = fixture.runs.clone();
    let app = Router::new().route("/pay", axum::routing::any(async move || runs.run().to_string()));
    let once = layer(&fixture.at_blue).methods([http::Method::POST, http::Method::GET]);
    let client = serve(app.route_layer(once)).await;
    let send = async |method: http::Method| {
        let mut request = pay("k", "");
        *request.method_mut() = method;
        client.send(request).await
    };
    for run in ["1", "2"] {
        assert_eq!(send(http::Method::PUT).await.body, run);
    }
    let first = send(http::Method::POST).await;
    assert_replayed(&first, &send(http::Method::POST).await);
    let bare = http::Request::get("/pay").header("x-caller", "alice").body("".into()).unwrap();
    assert_eq!(client.send(bare).await.code(), 400, "GET needs one here");
}

#[tokio::test]
async fn safe_methods_pass() {
    let fixture = Fixture::new(3);
    let runs = fixture.runs.clone();
    let app = Router::new().route("/pay", axum::routing::any(async move || runs.run().to_string()));
    // Needs no scope either.
    let once = OnceLayer::idempotency(fixture.at_blue.clone(), "pay")
        .scope(tower_redlock::key::header("x-caller"));
    let client = serve(app.route_layer(once)).await;
    for run in 1..3 {
        for method in ["GET", "HEAD", "OPTIONS", "TRACE"] {
            let mut request = pay("k", "");
            *request.method_mut() = method.parse().unwrap();
            let answer = client.send(request).await;
            assert_eq!((answer.code(), answer.header("idempotency-replayed")), (200, None));
            assert_eq!(answer.body.is_empty(), method == "HEAD");
            assert_eq!(answer.header("content-length"), Some("1"));
        }
        let bare = http::Request::get("/pay").body("".into()).unwrap();
        assert_eq!(client.send(bare).await.body, (5 * run).to_string());
    }
}

/// A node that stores the first record of done work, and refuses all later ones.
fn keeps_the_first(node: &Arc<dyn Node>, is_kept: &Arc<AtomicBool>) -> MockNode {
    let is_kept = Arc::clone(is_kept);
    MockNode::refusing(node, Reason::OutOfMemory, move |op| {
        matches!(op, Op::Record(RecordOp { record, .. }) if record.is_done)
            && is_kept.swap(true, Ordering::SeqCst)
    })
}

/// One node has the response; the others have the pending record. The process that owes them the response
/// has ended.
#[tokio::test]
async fn response_of_a_minority_is_replayed() {
    let nodes: Vec<_> = EmbeddedNodes::new(3).nodes("redlock").collect();
    let kept = [Arc::default(), Arc::default()];
    let mocks = [
        keeps_the_first(&nodes[0], &kept[0]),
        keeps_the_first(&nodes[1], &kept[1]),
        MockNode::forwarding(&nodes[2]),
    ];
    let first = with_nodes(Redlock::builder(), mocks).build().unwrap();
    let (runs, go) = (Runs::default(), Arc::new(Notify::new()));
    let (counted, ends) = (runs.clone(), Arc::clone(&go));
    let slow = async move || {
        let run = counted.run();
        let ends = Arc::clone(&ends);
        let body = futures_util::stream::once(async move {
            ends.notified().await;
            Ok::<_, Infallible>(format!("run {run}"))
        });
        axum::body::Body::from_stream(body)
    };
    let app = Router::new().route("/pay", post(slow));
    let call = tokio::spawn(app.clone().route_layer(layer(&first)).oneshot(pay("k-1", "3 EUR")));
    let is_kept = async || kept.iter().all(|kept| kept.load(Ordering::SeqCst));
    eventually_async("it is recorded that the request was answered", is_kept).await;
    go.notify_one();
    assert_eq!(soon("the answer", call).await.unwrap().unwrap().status(), 200);
    drop(first);

    // One question is not answered by the node that has the response.
    let (asked, withheld) = (AtomicUsize::new(0), Withheld::default());
    let mocks = [
        MockNode::forwarding(&nodes[0]),
        MockNode::forwarding(&nodes[1]),
        withheld.node(&nodes[2], move |op| {
            matches!(op, Op::ReadRecord(_)) && asked.fetch_add(1, Ordering::SeqCst) < 1
        }),
    ];
    let second = with_nodes(Redlock::builder(), mocks).build().unwrap();
    let client = serve(app.route_layer(layer(&second))).await;
    let again = soon("the replay", client.send(pay("k-1", "3 EUR"))).await;
    assert_eq!(withheld.count(), 1);
    again.assert_replayed();
    assert_eq!((runs.count(), &*again.body), (1, &b"run 1"[..]));
}
