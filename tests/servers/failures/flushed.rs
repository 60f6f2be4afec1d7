//! Servers that lose their scripts while they are connected.

use tower_redlock::Redlock;

use crate::fixture::{RedisServer, all_vote, eventually_async, faults::manager, urls};

#[tokio::test]
async fn forgotten_scripts_are_loaded_at_once() {
    let servers = RedisServer::start_n(3);
    let redlock = manager(urls(&servers));
    all_vote(&redlock).await;
    let greeted = texts(&servers);
    works_everywhere(&redlock).await;
    assert_eq!(texts(&servers), greeted, "digests are used");
    flush(&servers);
    works_everywhere(&redlock).await;
    let reminded = texts(&servers);
    for (before, after) in greeted.iter().zip(&reminded) {
        assert_eq!(after - before, 1, "the acquire, which also loads all scripts");
    }
    works_everywhere(&redlock).await;
    works_everywhere(&redlock).await;
    assert_eq!(texts(&servers), reminded, "digests are used again");
}

#[tokio::test]
async fn forgotten_scripts_extend_and_release() {
    let servers = RedisServer::start_n(3);
    let redlock = manager(urls(&servers));
    all_vote(&redlock).await;
    let lock = redlock.lock("a").await.unwrap();
    all_answered(&redlock).await;
    let acquired = texts(&servers);
    flush(&servers);
    lock.extend().await.unwrap();
    all_answered(&redlock).await;
    let extended = texts(&servers);
    flush(&servers);
    lock.release().await.unwrap();
    all_answered(&redlock).await;
    let released = texts(&servers);
    for (node, server) in servers.iter().enumerate() {
        assert_eq!(extended[node] - acquired[node], 1, "the extension, which loads all scripts");
        assert_eq!(released[node] - extended[node], 1, "the release");
        assert_eq!(server.keys("redlock:lock:*"), Vec::<String>::new());
    }
}

#[tokio::test]
async fn drops_with_forgotten_scripts_leave_nothing() {
    let servers = RedisServer::start_n(3);
    let redlock = manager(urls(&servers));
    all_vote(&redlock).await;
    for round in 0..50 {
        flush(&servers);
        let requests: Vec<_> = (0..20)
            .map(|i| {
                let request = redlock.lock(format!("n{round}:{i}"));
                tokio::spawn(async move { drop(request.await) })
            })
            .collect();
        for request in requests {
            request.await.unwrap();
        }
    }

    redlock.shutdown().await;

    for server in &servers {
        assert_eq!(server.keys("redlock:lock:*"), Vec::<String>::new());
    }
}

fn flush(servers: &[RedisServer]) {
    for server in servers {
        server.cli(&["SCRIPT", "FLUSH"]);
    }
}

/// Acquires and releases a lock, each acknowledged by every server: an operation in flight when
/// the lock is released is not sent again.
async fn works_everywhere(redlock: &Redlock) {
    let lock = redlock.lock("everywhere").await.unwrap();
    all_answered(redlock).await;
    lock.release().await.unwrap();
    all_answered(redlock).await;
}

async fn all_answered(redlock: &Redlock) {
    eventually_async("every answer has arrived", async || {
        redlock.health().iter().all(|node| node.in_flight == 0)
    })
    .await;
}

/// Number of scripts that each server received as text.
fn texts(servers: &[RedisServer]) -> Vec<u64> {
    let count = |server: &RedisServer| {
        let stats = server.cli(&["INFO", "commandstats"]).text();
        let calls = stats.split("cmdstat_eval:calls=").nth(1);
        let calls = calls.and_then(|rest| rest.split(',').next());
        calls.map_or(0, |count| count.parse().expect("a number"))
    };
    servers.iter().map(count).collect()
}
