//! Answers on a separate server.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::Router;
use futures_util::future::join_all;
use http_body_util::BodyExt;
use tower::ServiceExt;
use tower_redlock::{
    FencingToken, OnceLayer,
    error::BuildError,
    node::redis::Credentials,
    once::{
        RedisStore, RedisStoreBuilder, ResponseStore, StoreError, StoredBy, StoredHeaders,
        StoredResponse, http::Scope,
    },
};

use crate::fixture::{Fixture, HANG_GUARD, RedisServer, Resp, acl, patient};

pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);
/// A timeout that tests wait for, long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(1);

pub(super) fn response(body: impl Into<bytes::Bytes>) -> Arc<StoredResponse> {
    let (parts, body) = http::Response::new(body.into()).into_parts();
    Arc::new(StoredResponse::new(&parts, body, &StoredHeaders::default()))
}

/// With timeouts longer than any delay of a busy machine.
pub(super) fn builder(server: &RedisServer) -> RedisStoreBuilder {
    RedisStore::builder(server.plain_url()).timeout(HANG_GUARD)
}

fn store(server: &RedisServer) -> RedisStore {
    builder(server).build().unwrap()
}

pub(super) async fn put(
    store: &RedisStore,
    key: &str,
    body: u64,
    retain: Duration,
    token: u64,
) -> bool {
    let put = store.put(key, response(body.to_string()), retain, FencingToken::new(token));
    match put.await {
        Ok(()) => true,
        Err(StoreError::Stale) => false,
        Err(error) => panic!("{}", cause(&error)),
    }
}

/// The token, and the body as a number.
pub(super) async fn get(store: &RedisStore, key: &str) -> Option<(u64, u64)> {
    let StoredBy { token, response, .. } = store.get(key).await.unwrap()?;
    Some((token.get(), std::str::from_utf8(response.body()).unwrap().parse().unwrap()))
}

pub(crate) fn cause(error: &StoreError) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// The age of an entry does not matter, and each key has its own token.
#[tokio::test]
async fn token_is_forgotten_with_the_response() {
    let server = RedisServer::start();
    let store = store(&server);
    assert!(put(&store, "a", 1, DAY, 7).await && put(&store, "b", 2, DAY, 3).await);
    assert!(!put(&store, "a", 4, DAY, 3).await, "a later token stored it");
    assert!(put(&store, "b", 5, DAY, 3).await);
    assert_eq!((get(&store, "a").await, get(&store, "b").await), (Some((7, 1)), Some((3, 5))));

    assert_eq!(server.cli(&["PEXPIRE", "redlock:answer:a", "0"]).int(), 1);

    assert_eq!(get(&store, "a").await, None);
    assert!(put(&store, "a", 6, DAY, 2).await, "nothing is left of the later token");
    assert_eq!(get(&store, "b").await, Some((3, 5)));
}

#[tokio::test]
async fn tokens_are_compared_as_numbers() {
    let server = RedisServer::start();
    let store = store(&server);

    for token in [0, 9, 10, 1 << 53, (1 << 53) + 1, u64::MAX - 1, u64::MAX] {
        assert!(put(&store, "a", token, DAY, token).await);
        assert!(put(&store.clone(), "a", token, DAY, token).await, "a repetition");
        if token > 0 {
            assert!(!put(&store, "a", 7, DAY, token - 1).await);
        }
        assert_eq!(get(&store, "a").await, Some((token, token)));
    }
}

#[tokio::test]
async fn retentions_from_zero_to_forever_apply() {
    let server = RedisServer::start();
    let store = store(&server);
    assert!(put(&store, "ever", 1, Duration::MAX, 1).await);
    assert!(server.pttl("redlock:answer:ever") > 90 * 365 * 24 * 3_600_000);
    assert!(put(&store, "day", 1, DAY, 1).await);
    assert!((1..=86_400_000).contains(&server.pttl("redlock:answer:day")));
    assert!(put(&store, "none", 1, Duration::ZERO, 1).await);
    crate::fixture::eventually_async("the answer expires", async || {
        get(&store, "none").await.is_none()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_are_all_served() {
    let server = RedisServer::start();
    let store = store(&server);
    let puts = (0..1_000).map(|i| {
        let store = store.clone();
        async move {
            let body = response(vec![b'x'; 10_000 + i]);
            store.put(&i.to_string(), body, DAY, FencingToken::new(1)).await
        }
    });
    for put in join_all(puts).await {
        put.unwrap_or_else(|error| panic!("{}", cause(&error)));
    }
    let lengths = join_all((0..1_000).map(|i| store.get(&format!("{i}")))).await;
    for (i, stored) in lengths.into_iter().enumerate() {
        assert_eq!(stored.unwrap().unwrap().response.body().len(), 10_000 + i);
    }
    // One connection, and the one of this query.
    let clients = server.cli(&["CLIENT", "LIST", "TYPE", "normal"]).text();
    assert_eq!(clients.lines().count(), 2, "{clients}");
}

#[tokio::test]
async fn outage_is_an_error_at_once() {
    let mut server = RedisServer::with(&["--appendonly", "yes"]);
    let store = store(&server);
    assert!(put(&store, "a", 1, DAY, 1).await);
    server.restart_keeping_data();
    assert_eq!(get(&store, "a").await, Some((1, 1)));
    let addr = server.addr().to_string();
    server.kill();
    let begun = Instant::now();
    for _ in 0..200 {
        let error = store.get("a").await.unwrap_err();
        let text = cause(&error);
        assert!(text.contains(&addr) && text.contains("not connected"), "{text}");
    }
    assert!(begun.elapsed() < HANG_GUARD, "{:?}", begun.elapsed());
    server.restart_keeping_data();
    crate::fixture::eventually_async("the server is back", async || store.get("a").await.is_ok())
        .await;
    assert_eq!(get(&store, "a").await, Some((1, 1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hung_server_ends_in_time() {
    let server = RedisServer::start();
    let store = RedisStore::builder(server.plain_url()).timeout(TIMEOUT).build().unwrap();
    assert!(put(&store, "a", 1, DAY, 1).await);
    server.freeze();
    // Each call waits for the previous ones, but no longer than alone.
    let begun = Instant::now();
    let all = (0..100).map(|i| {
        let store = store.clone();
        tokio::spawn(async move {
            let token = FencingToken::new(1);
            let put = store.put(&format!("late {i}"), response("x"), DAY, token).await;
            (put.unwrap_err(), store.get("a").await.unwrap_err())
        })
    });
    for ended in join_all(all).await {
        let (put, get) = ended.unwrap();
        for error in [put, get] {
            let text = cause(&error);
            assert!(text.contains("timed out"), "{text}");
        }
    }
    let took = begun.elapsed();
    assert!(took >= TIMEOUT * 2 && took < TIMEOUT * 4, "{took:?}");
    server.thaw();
    crate::fixture::eventually_async("requests succeed again", async || {
        store.get("a").await.is_ok()
    })
    .await;
    assert_eq!(get(&store, "a").await, Some((1, 1)));
}

#[tokio::test]
async fn crowd_on_hung_server_is_bounded() {
    let server = RedisServer::start();
    let store = RedisStore::builder(server.plain_url()).timeout(TIMEOUT).build().unwrap();
    server.freeze();
    let gets: Vec<_> = (0..1_100).map(|i| store.get(&i.to_string())).collect();
    let errors = join_all(gets).await.into_iter().map(|get| cause(&get.unwrap_err()));
    let refused = errors.filter(|text| text.contains("1024 puts and gets wait")).count();
    assert_eq!(refused, 1_100 - 1_024);
    server.thaw();
    // Dropped requests are soon no longer counted.
    crate::fixture::eventually_async("requests succeed again", async || {
        store.get("a").await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn no_error_shows_a_password() {
    let server = RedisServer::with(&["--requirepass", "s3cret"]);
    let url = |password: &str| format!("redis://:{password}@{}", server.addr());
    let open = RedisStore::new(url("s3cret")).unwrap();
    assert!(put(&open, "a", 1, DAY, 1).await);
    let wrong = RedisStore::new(url("wr0ng")).unwrap();
    let text = cause(&wrong.get("a").await.unwrap_err());
    let shown = format!("{text} {wrong:?} {:?}", RedisStore::builder(url("wr0ng")));
    assert!(!shown.contains("wr0ng") && text.contains("WRONGPASS"), "{shown}");
    let given = RedisStore::builder(format!("redis://{}", server.addr()))
        .credentials(Credentials::password("s3cret"));
    assert_eq!(get(&given.build().unwrap(), "a").await, Some((1, 1)));
    let none = RedisStore::new(format!("redis://{}", server.addr())).unwrap();
    let text = cause(&none.get("a").await.unwrap_err());
    assert!(text.contains("NOAUTH") || text.contains("authenticat"), "{text}");
}

#[tokio::test]
async fn server_refusals_are_reported() {
    let server = RedisServer::start();
    let store = store(&server);
    server.cli(&["LPUSH", "redlock:answer:list", "x"]);
    server.cli(&["SET", "redlock:answer:short", "x"]);
    server.cli(&["SET", "redlock:answer:other", &"x".repeat(100)]);
    for key in ["list", "short", "other"] {
        let text = cause(&store.get(key).await.unwrap_err());
        assert!(text.contains("WRONGTYPE") || text.contains("something else"), "{text}");
    }
    server.set_config("maxmemory", "1");
    let token = FencingToken::new(1);
    let full = store.put("a", response("x"), DAY, token).await.unwrap_err();
    assert!(cause(&full).contains("out of memory"), "{}", cause(&full));
    let large = store.put("a", response(vec![0; (1 << 20) + 1]), DAY, token).await.unwrap_err();
    assert!(cause(&large).contains("max_bytes"), "{}", cause(&large));
}

#[tokio::test]
async fn documented_permissions_suffice() {
    let server = RedisServer::start();
    let rules =
        ["on", ">s3cret", "~redlock:answer:*", "-@all", "+eval", "+get", "+set", "+getrange"];
    server.set_rules(&rules);
    let store = RedisStore::new(format!("{}{}", acl::login(), server.addr())).unwrap();
    assert!(put(&store, "a", 1, DAY, 1).await);
    assert_eq!(get(&store, "a").await, Some((1, 1)));
    assert!(matches!(server.cli(&["DBSIZE"]), Resp::Int(1)));
}

#[test]
fn invalid_settings_are_refused() {
    let builder = || RedisStore::builder("redis://h");
    let refused = |builder: RedisStoreBuilder, setting: &str| {
        let error = builder.build().unwrap_err().to_string();
        assert!(error.contains(setting), "{error}");
    };
    refused(builder().timeout(Duration::ZERO), "timeout");
    refused(builder().key_prefix(""), "key_prefix");
    refused(builder().max_bytes(1 << 30), "max_bytes");
    let error = RedisStore::new("http://:s3cret@h").unwrap_err();
    assert!(matches!(error, BuildError::InvalidUrl { .. }), "{error}");
    assert!(!error.to_string().contains("s3cret"));
}

/// Two replicas over the same nodes and the same store.
async fn replicas(fixture: &Fixture, answers: &RedisServer) -> [Router; 2] {
    let app = || {
        let store = RedisStore::builder(answers.plain_url()).timeout(TIMEOUT).build().unwrap();
        async move {
            let redlock = fixture.direct(patient()).await;
            let once = OnceLayer::idempotency(redlock, "pay").scope(Scope::none()).store(store);
            let handle = async |body: String| format!("{body}, at {:?}", Instant::now());
            Router::new().route("/", axum::routing::post(handle)).route_layer(once)
        }
    };
    [app().await, app().await]
}

async fn send(replica: &Router, key: &str) -> (u16, String) {
    let request = http::Request::post("/").header("idempotency-key", key);
    let request = request.body(axum::body::Body::from(key.to_owned())).unwrap();
    let answer = replica.clone().oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_survive_store_faults() {
    let (fixture, mut answers) = (Fixture::new(3), RedisServer::start());
    let [blue, green] = replicas(&fixture, &answers).await;
    let first = send(&blue, "first").await;
    assert_eq!((first.0, send(&green, "first").await), (200, first));
    let is = |answer: &(u16, String), status, code: &str| {
        assert_eq!(answer.0, status, "{answer:?}");
        assert!(answer.1.contains(code) && answer.1.contains("done"), "{answer:?}");
    };
    answers.freeze();
    is(&send(&green, "first").await, 503, "store-unavailable");
    assert_eq!(send(&blue, "while-it-hangs").await.0, 200);
    answers.kill();
    is(&send(&green, "first").await, 503, "store-unavailable");
    assert_eq!(send(&blue, "while-it-is-down").await.0, 200);
    answers.restart();
    // Each has a pause of its own after a failed connection.
    for replica in [&green, &blue] {
        crate::fixture::eventually_async("the server is asked again", async || {
            send(replica, "first").await.0 != 503
        })
        .await;
    }
    for key in ["first", "while-it-hangs", "while-it-is-down"] {
        is(&send(&green, key).await, 409, "response-not-kept");
    }
    let next = send(&blue, "next").await;
    assert_eq!((next.0, send(&green, "next").await), (200, next));
}
