//! Responses that are kept in a store.

use std::{
    future::{pending, ready},
    sync::{Arc, Mutex},
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

use super::requests::{Layer, freeing, layer, pay};
use crate::client::Client;
use crate::once_http::fixture::{Fixture, HOUR, Runs, TTL, serve, soon};
use crate::support::eventually_async;

/// What the store does with an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Mood {
    #[default]
    Fine,
    Fails,
    Hangs,
    PutsAndHangs,
    PutsAndFails,
    Waits,
}

/// A user's store with scripted behaviour.
#[derive(Clone)]
struct Other {
    memory: MemoryStore,
    mood: Arc<Mutex<Mood>>,
    puts: Arc<Mutex<Vec<(String, Duration, u64)>>>,
    go: Arc<Notify>,
}

impl Other {
    fn new() -> Self {
        let memory = MemoryStore::new();
        Self { memory, mood: Arc::default(), puts: Arc::default(), go: Arc::default() }
    }

    fn is(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    fn does<T: Send + 'static>(
        &self,
        what: impl FnOnce() -> Result<T, StoreError>,
    ) -> StoreFuture<T> {
        let mood = *self.mood.lock().unwrap();
        let failed = || Err(StoreError::failed("on purpose"));
        match mood {
            Mood::Fine => Box::pin(ready(what())),
            Mood::Fails => Box::pin(ready(failed())),
            Mood::Hangs => Box::pin(pending()),
            Mood::PutsAndHangs | Mood::PutsAndFails => {
                what().unwrap_or_else(|error| panic!("{error}"));
                if mood == Mood::PutsAndHangs {
                    Box::pin(pending())
                } else {
                    Box::pin(ready(failed()))
                }
            }
            Mood::Waits => {
                let (go, answer) = (Arc::clone(&self.go), what());
                Box::pin(async move {
                    go.notified().await;
                    answer
                })
            }
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

/// A service whose responses are kept in a scripted store.
async fn with_store(adjust: impl FnOnce(Layer) -> Layer) -> (Fixture, Other, Client) {
    let (fixture, store) = (Fixture::new(3), Other::new());
    let once = adjust(layer(&fixture.at_blue)).store(store.clone());
    let client = serve(app(&fixture.runs).route_layer(once)).await;
    (fixture, store, client)
}

#[tokio::test]
async fn put_precedes_the_record() {
    let (fixture, store, client) = with_store(|layer| layer.retain(HOUR)).await;
    let first = client.send(pay("k", "")).await;
    let (key, retain, token) = store.puts.lock().unwrap()[0].clone();
    assert_eq!((key.as_str(), retain), ("idempotency:pay://pay.example/5:alice:k", HOUR));
    assert_eq!(first.body, format!("1 {token}"));
    assert_eq!(client.send(pay("k", "")).await.body, first.body);
    assert_eq!((fixture.runs.count(), store.puts()), (1, 1));
    // A layer without that store reports it as done.
    let other = serve(app(&fixture.runs).route_layer(layer(&fixture.at_green))).await;
    other.send(pay("k", "")).await.assert_not_kept();
}

#[tokio::test]
async fn unreadable_store_is_503() {
    let (fixture, store, client) = with_store(|layer| layer).await;
    let first = client.send(pay("k", "")).await;
    store.is(Mood::Fails);
    client.send(pay("k", "")).await.assert_problem(503, Some("1"), "store-unavailable", "done");
    store.is(Mood::Fine);
    assert_eq!(client.send(pay("k", "")).await.body, first.body);
    assert_eq!(fixture.runs.count(), 1);
}

#[tokio::test]
async fn failed_put_is_done() {
    let (fixture, store, client) = with_store(|layer| layer).await;
    store.is(Mood::Fails);
    assert_eq!(client.send(pay("k", "")).await.code(), 200);
    store.is(Mood::Fine);
    client.send(pay("k", "")).await.assert_not_kept();
    assert_eq!(fixture.runs.count(), 1);
    store.is(Mood::PutsAndFails);
    let first = client.send(pay("other", "")).await;
    store.is(Mood::Fine);
    assert_eq!(client.send(pay("other", "")).await.body, first.body, "it was there all the same");
    assert_eq!(fixture.runs.count(), 2);
}

#[tokio::test]
async fn lost_response_is_not_replayed() {
    let (fixture, store) = (Fixture::new(3), MemoryStore::with_capacity(1));
    let client =
        serve(app(&fixture.runs).route_layer(layer(&fixture.at_blue).store(store.clone()))).await;
    client.send(pay("k", "")).await;
    client.send(pay("other", "")).await;
    client.send(pay("k", "")).await.assert_not_kept();
    // And one of another holder is not this one's.
    let stored = store.get("idempotency:pay://pay.example/5:alice:other").await.unwrap().unwrap();
    let newer = FencingToken::new(stored.token.get() + 1);
    store
        .put("idempotency:pay://pay.example/5:alice:other", stored.response, HOUR, newer)
        .await
        .unwrap();
    client.send(pay("other", "")).await.assert_not_kept();
}

/// A client that uses new keys evicts the responses of others, and uses no more memory.
#[tokio::test]
async fn large_responses_are_bounded_by_bytes() {
    const BODY: usize = 1 << 20;
    let (fixture, store) = (Fixture::new(3), MemoryStore::new());
    let large = Router::new().route("/pay", post(async || "x".repeat(BODY)));
    let once = layer(&fixture.at_blue).response_limit(2 * BODY).store(store.clone());
    let client = serve(large.route_layer(once)).await;

    for key in 0..80 {
        assert_eq!(client.send(pay(&key.to_string(), "")).await.code(), 200);
    }

    assert!((60..64).contains(&store.len()), "{store:?}");
    client.send(pay("0", "")).await.assert_not_kept();
    let last = client.send(pay("79", "")).await;
    assert_eq!((last.code(), last.header("idempotency-replayed")), (200, Some("true")));
}

/// Two replicas with one store. Blue is partitioned while its response is being put there: before its
/// head is recorded, or after that.
async fn cut_off_while_put(before: bool) -> (Fixture, Other, [Client; 2]) {
    let (fixture, store) = (Fixture::new(3), Other::new());
    let (blue_nodes, runs) = (fixture.blue.clone(), fixture.runs.clone());
    let cut = Router::new().route(
        "/pay",
        post(async move |lock: LockContext| {
            if before {
                blue_nodes.partition(0..3);
            }
            format!("{} {}", runs.run(), lock.fencing_token())
        }),
    );
    let blue = serve(cut.route_layer(freeing(&fixture.at_blue).store(store.clone()))).await;
    let green =
        serve(app(&fixture.runs).route_layer(freeing(&fixture.at_green).store(store.clone())))
            .await;
    store.is(Mood::PutsAndHangs);
    let cut_off = blue.spawn(pay("k", ""));
    eventually_async("it is put", async || store.puts() == 1).await;
    if !before {
        let recorded = async || {
            fixture.at_green.once_key("idempotency:pay://pay.example/5:alice:k").status().await
        };
        eventually_async("its head is recorded", async || {
            matches!(recorded().await, Ok(Some(OnceStatus { state: OnceState::Done, .. })))
        })
        .await;
        fixture.blue.partition(0..3);
    }
    // Steps, as the record is tried for before the lock is over.
    while !cut_off.is_finished() {
        fixture.clock.advance(Duration::from_millis(10));
        tokio::task::yield_now().await;
    }
    // The handler has done what it says.
    assert!(cut_off.await.unwrap().body.starts_with(b"1 "));
    fixture.clock.advance(TTL);
    store.is(Mood::Fine);
    (fixture, store, [blue, green])
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
    let (fixture, _store, [_, green]) = cut_off_while_put(false).await;
    let again = green.send(pay("k", "")).await;
    assert!(again.body.starts_with(b"1 "), "{again:?}");
    again.assert_replayed();
    green.send(pay("k", "x")).await.assert_key_reused();
    assert_eq!(fixture.runs.count(), 1);
}

#[tokio::test]
async fn hung_store_loses_the_response() {
    let (fixture, store, client) = with_store(|layer| layer.max_hold(TTL)).await;
    store.is(Mood::Hangs);
    let first = client.spawn(pay("k", ""));
    eventually_async("it is put", async || store.puts() == 1).await;
    client.send(pay("k", "")).await.assert_in_progress();
    // Less than the default `stop_margin` before the end.
    fixture.clock.advance(TTL.saturating_sub(Duration::from_millis(500)));
    assert_eq!(soon("the answer", first).await.unwrap().code(), 200);
    store.is(Mood::Fine);
    client.send(pay("k", "")).await.assert_not_kept();
    assert_eq!(fixture.runs.count(), 1);
}

#[tokio::test]
async fn disconnect_during_put_is_replayed() {
    let (fixture, store, client) = with_store(|layer| layer).await;
    store.is(Mood::Waits);
    let gone = client.spawn(pay("k", ""));
    eventually_async("it is put", async || store.puts() == 1).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    client.send(pay("k", "")).await.assert_in_progress();
    store.is(Mood::Fine);
    store.go.notify_one();
    eventually_async("it is recorded", async || client.send(pay("k", "")).await.code() == 200)
        .await;
    client.send(pay("k", "")).await.assert_replayed();
    assert_eq!(fixture.runs.count(), 1);
}

#[tokio::test]
async fn attached_disconnect_leaves_stored_response() {
    let (fixture, store, client) = with_store(|layer| layer.detached(false)).await;
    for (mood, key) in [(Mood::PutsAndHangs, "a"), (Mood::Hangs, "b")] {
        store.is(mood);
        let before = store.puts();
        let gone = client.spawn(pay(key, ""));
        eventually_async("it is put", async || store.puts() == before + 1).await;
        gone.abort();
        store.is(Mood::Fine);
        // No lock, and the record.
        eventually_async("it is recorded", async || {
            let name = format!("once:idempotency:pay://pay.example/5:alice:{key}");
            fixture.at_blue.inspect(name).await.unwrap().is_none()
        })
        .await;
        let again = client.send(pay(key, "")).await;
        match mood {
            Mood::Hangs => again.assert_not_kept(),
            _ => assert_eq!(again.header("idempotency-replayed"), Some("true"), "{again:?}"),
        }
    }
    assert_eq!(fixture.runs.count(), 2);
}

#[tokio::test]
async fn attached_disconnect_within_body_is_done() {
    let fixture = Fixture::new(3);
    let app = fixture.app(|_| {
        axum::body::Body::from_stream(futures_util::stream::pending::<Result<String, StoreError>>())
    });
    let client = serve(app.route_layer(layer(&fixture.at_blue).detached(false))).await;
    let gone = client.spawn(pay("k", ""));
    fixture.runs(1).await;
    gone.abort();
    eventually_async("the key is done", async || {
        let again = client.send(pay("k", "")).await;
        again.code() == 409 && String::from_utf8_lossy(&again.body).contains("response-not-kept")
    })
    .await;
    assert_eq!(fixture.runs.count(), 1);
}
