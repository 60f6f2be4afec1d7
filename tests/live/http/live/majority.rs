//! A majority of the servers dies during a request.

use std::time::{Duration, Instant};

use tower_redlock::{Redlock, RedlockBuilder};

use super::site::{Site, soon};
use crate::support::{HANG_GUARD, RedisServer, connected, urls};

const TTL: Duration = Duration::from_secs(2);

/// Uses the guard against servers that forgot their locks, which is the default.
async fn guarded(servers: &[RedisServer]) -> Redlock {
    let builder: RedlockBuilder = Redlock::builder().ttl(TTL).node_timeout(TTL / 10);
    connected(builder.nodes(urls(servers))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_majority_is_500_without_overlap() {
    let servers = RedisServer::start_n(3);
    let (ours, rival) = tokio::join!(guarded(&servers), guarded(&servers));
    let mut site = Site::with(servers, vec![ours]).await;
    let client = site.client().clone();
    let request = tokio::spawn(async move { client.post("/busy/a").await });
    site.entered(1).await;

    let killed = Instant::now();
    for server in &mut site.servers[1..] {
        server.kill();
    }
    // They restart at once, without the lock.
    for server in &mut site.servers[1..] {
        server.restart();
    }
    let next = tokio::spawn(async move {
        let lock = rival.lock("a").wait(HANG_GUARD * 3).await;
        (lock, Instant::now())
    });
    let answer = soon("the answer", request).await.unwrap();
    let answered = killed.elapsed();
    assert_eq!(answer.problem(), (500, "lost".into(), "unknown".into()));
    assert!(!answer.headers.contains_key(http::header::RETRY_AFTER));
    assert!(!answer.text.contains("127.0.0.1"), "{}", answer.text);
    assert!(answered < TTL * 10, "less than {TTL:?} were left, and it took {answered:?}");

    let (lock, granted) = soon("the next holder", next).await.unwrap();
    let lock = lock.expect("the servers vote again");
    let last_poll = site.shared.log.last_poll().expect("it was at work");
    assert!(last_poll < granted, "two at once for {:?}", last_poll - granted);
    assert!(last_poll < killed + TTL, "polled {:?} after the kill", last_poll - killed);
    assert!(lock.fencing_token().get() > site.shared.log.tokens("a")[0]);
}
