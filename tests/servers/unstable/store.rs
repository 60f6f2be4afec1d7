//! The server of a store of responses.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tower_redlock::once::{RedisStore, ResponseStore};

use crate::{
    failures::log::{Log, LoggedSpawner},
    once::cause,
    support::{Breaker, Breaks, FakeServer, Reaction, RedisServer},
};

/// Duration of a count.
const SPAN: Duration = Duration::from_secs(2);
/// Maximum number of connections during a count: one in each 100 ms, and the first.
const MOST_CONNECTIONS: usize = 21;
/// Maximum number of warnings during a count.
const MOST_LINES: usize = 21;

/// Reads responses one after the other, and checks that connections and warnings are few and that
/// each error has the reason. Returns the number of reads.
async fn costs_little(url: String, connections: impl Fn() -> usize, reason: &str) -> usize {
    let log = Log::new();
    let spawner = LoggedSpawner::start(&log);
    let store = Arc::new(RedisStore::builder(url).spawner(spawner).build().unwrap());
    let begun = Instant::now();
    let mut read = 0;
    while begun.elapsed() < SPAN {
        match store.get("a").await {
            Ok(_) => read += 1,
            Err(error) => {
                let text = cause(&error);
                assert!(text.contains(reason), "{text}");
                tokio::task::yield_now().await;
            }
        }
    }
    let (connections, lines) = (connections(), log.count("WARN"));
    assert!(connections <= MOST_CONNECTIONS, "{connections} connections");
    assert!(lines <= MOST_LINES, "{lines} lines");
    read
}

#[tokio::test]
async fn closed_at_once() {
    let server = RedisServer::start();
    let proxy = Breaker::start([server.addr()], Breaks::AtOnce);
    costs_little(proxy.url(), || proxy.connections(), "not connected").await;
}

#[tokio::test]
async fn closed_after_the_question() {
    let server = FakeServer::start(|_| Reaction::Close);
    costs_little(server.url(), || server.connections(), "not connected").await;
}

#[tokio::test]
async fn closed_after_each_answer() {
    let server = FakeServer::start(|_| Reaction::Truncated(b"$-1\r\n".into()));
    let read = costs_little(server.url(), || server.connections(), "").await;
    assert!(read > 10, "only {read} were read");
}

#[tokio::test]
async fn more_answers_than_questions() {
    let server = FakeServer::start(|_| Reaction::Reply(b"$-1\r\n$-1\r\n".into()));
    costs_little(server.url(), || server.connections(), "an unsolicited reply").await;
}

#[tokio::test]
async fn answers_to_another_question() {
    let server = FakeServer::start(|_| Reaction::int(1));
    costs_little(server.url(), || server.connections(), "something else").await;
}

#[tokio::test]
async fn server_that_is_a_replica() {
    let server = FakeServer::start(|_| Reaction::error("READONLY no"));
    costs_little(server.url(), || server.connections(), "read-only").await;
}
