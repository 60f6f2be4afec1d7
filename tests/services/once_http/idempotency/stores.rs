//! Responses that are kept in a store.

use std::{
    future::{pending, ready},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use axum::{Router, routing::post};
use futures_util::FutureExt;
use tokio::sync::Notify;
use tower_redlock::{
    FencingToken, LockContext,
    once::{
        MemoryStore, OnceState, OnceStatus, ResponseStore, StoreError, StoreFuture, StoredBy,
        StoredResponse,
    },
};

use super::tools::{freeing, layer, pay};
use crate::once_http::{
    client::{Client, SOON},
    site::{HOUR, Runs, Site, TTL, serve, soon},
};
use crate::support::eventually_async;

const FINE: u8 = 0;
const FAILS: u8 = 1;
const HANGS: u8 = 2;
const PUTS_AND_HANGS: u8 = 3;
const PUTS_AND_FAILS: u8 = 4;
const WAITS: u8 = 5;

/// A user's store with scripted behaviour.
#[derive(Clone)]
struct Other {
    memory: MemoryStore,
    mood: Arc<AtomicU8>,
    puts: Arc<Mutex<Vec<(String, Duration, u64)>>>,
    go: Arc<Notify>,
}

impl Other {
    fn new() -> Self {
        let memory = MemoryStore::new();
        Self { memory, mood: Arc::default(), puts: Arc::default(), go: Arc::default() }
    }

    fn is(&self, mood: u8) {
        self.mood.store(mood, Ordering::SeqCst);
    }

    fn does<T: Send + 'static>(
        &self,
        what: impl FnOnce() -> Result<T, StoreError>,
    ) -> StoreFuture<T> {
        match self.mood.load(Ordering::SeqCst) {
            FINE => Box::pin(ready(what())),
            FAILS => Box::pin(ready(Err(StoreError::failed("on purpose")))),
            mood @ (PUTS_AND_HANGS | PUTS_AND_FAILS) => {
                what().unwrap_or_else(|error| panic!("{error}"));
                match mood {
                    PUTS_AND_HANGS => Box::pin(pending()),
                    _ => Box::pin(ready(Err(StoreError::failed("behind the deed")))),
                }
            }
            WAITS => {
                let (go, answer) = (Arc::clone(&self.go), what());
                Box::pin(async move {
                    go.notified().await;
                    answer
                })
            }
            _ => Box::pin(pending()),
        }
    }

    fn puts(&self) -> usize {
        self.puts.lock().unwrap().len()
    }
}

impl ResponseStore for Other {
    fn put(
        &self,
        key: &str,
        response: Arc<StoredResponse>,
        retain: Duration,
        token: FencingToken,
    ) -> StoreFuture<()> {
        self.puts.lock().unwrap().push((key.to_owned(), retain, token.get()));
        self.does(|| self.memory.put(key, response, retain, token).now_or_never().expect("at once"))
    }

    fn get(&self, key: &str) -> StoreFuture<Option<StoredBy>> {
        self.does(|| self.memory.get(key).now_or_never().expect("at once"))
    }
}

/// Responds with the number of the run, and the token.
fn app(runs: &Runs) -> Router {
    let runs = runs.clone();
    Router::new().route(
        "/pay",
        post(async move |lock: LockContext| format!("{} {}", runs.run(), lock.fencing_token())),
    )
}

#[tokio::test]
async fn put_precedes_the_record() {
    let (site, store) = (Site::new(3), Other::new());
    let once = layer(&site.at_blue).store(store.clone()).retain(HOUR);
    let client = serve(app(&site.runs).route_layer(once)).await;
    let first = client.send(pay("k", "")).await;
    let (key, retain, token) = store.puts.lock().unwrap()[0].clone();
    assert_eq!((key.as_str(), retain), ("idempotency:pay://pay.example/5:alice:k", HOUR));
    assert_eq!(first.body, format!("1 {token}"));
    assert_eq!(client.send(pay("k", "")).await.body, first.body);
    assert_eq!((site.runs.count(), store.puts()), (1, 1));
    // A layer without that store reports it as done.
    let other = serve(app(&site.runs).route_layer(layer(&site.at_green))).await;
    other.send(pay("k", "")).await.assert_problem(409, None, "response-not-kept", "done");
}

#[tokio::test]
async fn unreadable_store_is_503() {
    let (site, store) = (Site::new(3), Other::new());
    let client =
        serve(app(&site.runs).route_layer(layer(&site.at_blue).store(store.clone()))).await;
    let first = client.send(pay("k", "")).await;
    store.is(FAILS);
    client.send(pay("k", "")).await.assert_problem(503, Some("1"), "store-unavailable", "done");
    store.is(FINE);
    assert_eq!(client.send(pay("k", "")).await.body, first.body);
    assert_eq!(site.runs.count(), 1);
}

#[tokio::test]
async fn failed_put_is_done() {
    let (site, store) = (Site::new(3), Other::new());
    let client =
        serve(app(&site.runs).route_layer(layer(&site.at_blue).store(store.clone()))).await;
    store.is(FAILS);
    assert_eq!(client.send(pay("k", "")).await.code(), 200);
    store.is(FINE);
    client.send(pay("k", "")).await.assert_problem(409, None, "response-not-kept", "done");
    assert_eq!(site.runs.count(), 1);
    store.is(PUTS_AND_FAILS);
    let first = client.send(pay("other", "")).await;
    store.is(FINE);
    assert_eq!(client.send(pay("other", "")).await.body, first.body, "it was there all the same");
    assert_eq!(site.runs.count(), 2);
}

#[tokio::test]
async fn lost_response_is_not_replayed() {
    let (site, store) = (Site::new(3), MemoryStore::with_capacity(1));
    let client =
        serve(app(&site.runs).route_layer(layer(&site.at_blue).store(store.clone()))).await;
    client.send(pay("k", "")).await;
    client.send(pay("other", "")).await;
    client.send(pay("k", "")).await.assert_problem(409, None, "response-not-kept", "done");
    // And one of another holder is not this one's.
    let stored = store.get("idempotency:pay://pay.example/5:alice:other").await.unwrap().unwrap();
    let newer = FencingToken::new(stored.token.get() + 1);
    store
        .put("idempotency:pay://pay.example/5:alice:other", stored.response, HOUR, newer)
        .await
        .unwrap();
    client.send(pay("other", "")).await.assert_problem(409, None, "response-not-kept", "done");
}

/// A client that uses new keys evicts the responses of others, and uses no more memory.
#[tokio::test]
async fn large_responses_are_bounded_by_bytes() {
    const BODY: usize = 1 << 20;
    let (site, store) = (Site::new(3), MemoryStore::new());
    let large = Router::new().route("/pay", post(async || "x".repeat(BODY)));
    let once = layer(&site.at_blue).response_limit(2 * BODY).store(store.clone());
    let client = serve(large.route_layer(once)).await;

    for key in 0..80 {
        assert_eq!(client.send(pay(&key.to_string(), "")).await.code(), 200);
    }

    assert!((60..64).contains(&store.len()), "{store:?}");
    client.send(pay("0", "")).await.assert_problem(409, None, "response-not-kept", "done");
    let last = client.send(pay("79", "")).await;
    assert_eq!((last.code(), last.header("idempotency-replayed")), (200, Some("true")));
}

/// Two replicas with one store. Blue is partitioned while its response is being put there: before its
/// head is recorded, or after that.
async fn cut_off_while_put(before: bool) -> (Site, Other, [Client; 2]) {
    let (site, store) = (Site::new(3), Other::new());
    let (blue_nodes, runs) = (site.blue.clone(), site.runs.clone());
    let cut = Router::new().route(
        "/pay",
        post(async move |lock: LockContext| {
            if before {
                blue_nodes.partition(0..3);
            }
            format!("{} {}", runs.run(), lock.fencing_token())
        }),
    );
    let blue = serve(cut.route_layer(freeing(&site.at_blue).store(store.clone()))).await;
    let green =
        serve(app(&site.runs).route_layer(freeing(&site.at_green).store(store.clone()))).await;
    store.is(PUTS_AND_HANGS);
    let client = blue.clone();
    let cut_off = tokio::spawn(async move { client.send(pay("k", "")).await });
    eventually_async("it is put", async || store.puts() == 1).await;
    if !before {
        let recorded = async || {
            site.at_green.once_key("idempotency:pay://pay.example/5:alice:k").status().await
        };
        eventually_async("its head is recorded", async || {
            matches!(recorded().await, Ok(Some(OnceStatus { state: OnceState::Done, .. })))
        })
        .await;
        site.blue.partition(0..3);
    }
    // Steps, as the record is tried for before the lock is over.
    while !cut_off.is_finished() {
        site.clock.advance(Duration::from_millis(10));
        tokio::task::yield_now().await;
    }
    // The handler has done what it says.
    assert!(cut_off.await.unwrap().body.starts_with(b"1 "));
    site.clock.advance(TTL);
    store.is(FINE);
    (site, store, [blue, green])
}

#[tokio::test]
async fn crash_before_record_runs_again() {
    let (_site, store, [_, green]) = cut_off_while_put(true).await;
    let second = green.send(pay("k", "")).await;
    assert!(second.body.starts_with(b"2 "), "{second:?}");
    assert_eq!(green.send(pay("k", "")).await.body, second.body);
    let [first, last] = [0, 1].map(|i| store.puts.lock().unwrap()[i].2);
    assert!(first < last, "{first} and {last}");
}

#[tokio::test]
async fn crash_during_put_is_replayed() {
    let (site, _store, [_, green]) = cut_off_while_put(false).await;
    let again = green.send(pay("k", "")).await;
    assert!(again.body.starts_with(b"1 "), "{again:?}");
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    green.send(pay("k", "x")).await.assert_problem(422, None, "key-reused", "not-run");
    assert_eq!(site.runs.count(), 1);
}

#[tokio::test]
async fn hung_store_loses_the_response() {
    let (site, store) = (Site::new(3), Other::new());
    let once = layer(&site.at_blue).store(store.clone()).max_hold(TTL);
    let client = serve(app(&site.runs).route_layer(once)).await;
    store.is(HANGS);
    let first = client.clone();
    let first = tokio::spawn(async move { first.send(pay("k", "")).await });
    eventually_async("it is put", async || store.puts() == 1).await;
    let again = client.send(pay("k", "")).await;
    again.assert_problem(409, Some(SOON), "in-progress", "not-run");
    // Less than the default `stop_margin` before the end.
    site.clock.advance(TTL.saturating_sub(Duration::from_millis(500)));
    assert_eq!(soon("the answer", first).await.unwrap().code(), 200);
    store.is(FINE);
    client.send(pay("k", "")).await.assert_problem(409, None, "response-not-kept", "done");
    assert_eq!(site.runs.count(), 1);
}

#[tokio::test]
async fn disconnect_during_put_is_replayed() {
    let (site, store) = (Site::new(3), Other::new());
    let client =
        serve(app(&site.runs).route_layer(layer(&site.at_blue).store(store.clone()))).await;
    store.is(WAITS);
    let gone = client.clone();
    let gone = tokio::spawn(async move { gone.send(pay("k", "")).await });
    eventually_async("it is put", async || store.puts() == 1).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    let again = client.send(pay("k", "")).await;
    again.assert_problem(409, Some(SOON), "in-progress", "not-run");
    store.is(FINE);
    store.go.notify_one();
    eventually_async("it is recorded", async || client.send(pay("k", "")).await.code() == 200)
        .await;
    let again = client.send(pay("k", "")).await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"), "{again:?}");
    assert_eq!(site.runs.count(), 1);
}

#[tokio::test]
async fn attached_disconnect_leaves_stored_response() {
    let (site, store) = (Site::new(3), Other::new());
    let once = layer(&site.at_blue).store(store.clone()).detached(false);
    let client = serve(app(&site.runs).route_layer(once)).await;
    for (mood, key) in [(PUTS_AND_HANGS, "a"), (HANGS, "b")] {
        store.is(mood);
        let before = store.puts();
        let gone = client.clone();
        let gone = tokio::spawn(async move { gone.send(pay(key, "")).await });
        eventually_async("it is put", async || store.puts() == before + 1).await;
        gone.abort();
        store.is(FINE);
        // No lock, and the record.
        eventually_async("it is recorded", async || {
            let name = format!("once:idempotency:pay://pay.example/5:alice:{key}");
            site.at_blue.inspect(name).await.unwrap().is_none()
        })
        .await;
        let again = client.send(pay(key, "")).await;
        match mood {
            HANGS => again.assert_problem(409, None, "response-not-kept", "done"),
            _ => assert_eq!(again.header("idempotency-replayed"), Some("true"), "{again:?}"),
        }
    }
    assert_eq!(site.runs.count(), 2);
}

#[tokio::test]
async fn attached_disconnect_within_body_is_done() {
    let site = Site::new(3);
    let runs = site.runs.clone();
    let endless = post(async move || {
        runs.run();
        axum::body::Body::from_stream(futures_util::stream::pending::<Result<String, StoreError>>())
    });
    let app = Router::new().route("/pay", endless);
    let client = serve(app.route_layer(layer(&site.at_blue).detached(false))).await;
    let gone = client.clone();
    let gone = tokio::spawn(async move { gone.send(pay("k", "")).await });
    site.runs(1).await;
    gone.abort();
    eventually_async("the key is done", async || {
        let again = client.send(pay("k", "")).await;
        again.code() == 409 && String::from_utf8_lossy(&again.body).contains("response-not-kept")
    })
    .await;
    assert_eq!(site.runs.count(), 1);
}
