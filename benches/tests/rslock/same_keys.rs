//! rslock and this crate on the same keys, as `docs/migration.md` describes them.

use std::time::Duration;

use rslock::LockManager;
use tower_redlock::LockError;

use crate::support::{HANG_GUARD, LONG, RedisServer, connected, eventually_async, over, patient};

/// The key of our lock `x`.
const KEY: &str = "redlock:lock:x";

#[tokio::test]
async fn rslock_and_ours_exclude_one_another() {
    let servers = RedisServer::start_n(3);
    let urls: Vec<_> = servers.iter().map(RedisServer::plain_url).collect();
    let redlock = connected(over(patient(), urls.clone())).await;
    let mut rslock = LockManager::new(urls);
    rslock.set_retry(1, Duration::from_millis(1));

    let ours = redlock.lock("x").await.unwrap();
    let refused = rslock.lock(KEY, LONG).await;
    assert!(matches!(refused, Err(rslock::LockError::Unavailable)), "{refused:?}");
    ours.extend().await.unwrap();
    ours.release().await.unwrap();

    let theirs = rslock.lock(KEY, LONG).await.unwrap();
    let refused = redlock.lock("x").await;
    let Err(LockError::Held { owner: None, expires_in: Some(left), .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(left <= LONG, "{left:?}");
    let theirs = rslock.extend(&theirs, LONG).await.unwrap();

    let waiting = tokio::spawn(redlock.lock("x").wait(HANG_GUARD).into_future());
    eventually_async("the request was refused, and waits", async || {
        servers.iter().any(|server| server.info("stats", "pubsub_channels").unwrap() != "0")
    })
    .await;
    rslock.unlock(&theirs).await;
    let ours = waiting.await.unwrap().unwrap();
    assert!(rslock.extend(&theirs, LONG).await.is_err());
    assert!(rslock.lock(KEY, LONG).await.is_err());
    ours.extend().await.unwrap();
}
