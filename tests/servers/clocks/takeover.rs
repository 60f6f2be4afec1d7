//! Under the strict clock guard a key outlives its lease, and is then taken over.

use std::time::Duration;

use tower_redlock::{Lock, LockError, Redlock, RedlockBuilder};

use super::scene::{KEY, in_time};
use crate::support::{Feature, HANG_GUARD, Proxy, RedisServer, ServerScene, eventually_async, has};

const TTL: Duration = Duration::from_secs(3);
const WITHIN: Duration = Duration::from_millis(500);

fn strict() -> RedlockBuilder {
    Redlock::builder().ttl(TTL).node_timeout(TTL / 10).clock_guard(WITHIN)
}

struct Scene {
    servers: Vec<RedisServer>,
    proxies: Vec<Proxy>,
    crashed: Redlock,
    other: Redlock,
}

impl Scene {
    async fn new() -> Self {
        let scene = ServerScene::new(3);
        let (crashed, other) = tokio::join!(scene.proxied(strict()), scene.direct(strict()));
        let ServerScene { servers, proxies } = scene;
        Self { servers, proxies, crashed, other }
    }

    /// The holder is partitioned, and does not learn that it has lost the lock.
    fn crash(&self) {
        self.proxies.iter().for_each(Proxy::cut);
    }

    async fn everywhere(&self, key: &str) {
        eventually_async("every server has the key", async || {
            self.servers.iter().all(|server| server.exists(key))
        })
        .await;
    }

    fn assert_everywhere(&self) {
        assert!(self.servers.iter().all(|server| server.pttl(KEY) > 23 * 3600 * 1000));
    }
}

async fn takes(redlock: &Redlock, names: &[&str]) -> Result<Lock, LockError> {
    in_time(async { redlock.lock(names.to_vec()).wait(HANG_GUARD).await }).await
}

#[tokio::test]
async fn expired_lease_is_taken_over() {
    if !has(&[Feature::ExpiryTime]) {
        return;
    }
    let scene = Scene::new().await;
    let lock = takes(&scene.crashed, &["a"]).await.unwrap();
    scene.everywhere(KEY).await;
    scene.crash();
    let refused = in_time(async { scene.other.lock("a").await }).await;
    assert!(matches!(refused, Err(LockError::Held { .. })), "{refused:?}");
    let taken = takes(&scene.other, &["a"]).await.unwrap();
    assert!(!lock.is_valid(), "two clients hold the lock");
    scene.assert_everywhere();
    assert!(taken.fencing_token() > lock.fencing_token());
    in_time(taken.extend()).await.unwrap();
    // Acknowledged by a quorum.
    in_time(taken.release()).await.unwrap();
    eventually_async("the key is gone everywhere", async || {
        scene.servers.iter().all(|server| !server.exists(KEY))
    })
    .await;
}

#[tokio::test]
async fn set_is_taken_over_as_whole() {
    if !has(&[Feature::ExpiryTime]) {
        return;
    }
    let scene = Scene::new().await;
    let lock = takes(&scene.crashed, &["a", "b"]).await.unwrap();
    let later = takes(&scene.crashed, &["c"]).await.unwrap();
    scene.everywhere(KEY).await;
    scene.crash();
    let refused = in_time(async { scene.other.lock(["a", "d"]).await }).await;
    assert!(matches!(refused, Err(LockError::Held { .. })), "{refused:?}");
    let taken = takes(&scene.other, &["b", "c", "d"]).await.unwrap();
    assert!(!lock.is_valid() && !later.is_valid(), "two clients hold the lock");
    let rest = takes(&scene.other, &["a"]).await.unwrap();
    for lock in [taken, rest] {
        in_time(lock.release()).await.unwrap();
    }
    assert!(scene.servers.iter().all(|server| server.keys("redlock:lock:*").is_empty()));
}

#[tokio::test]
async fn foreign_key_is_never_taken_over() {
    if !has(&[Feature::ExpiryTime]) {
        return;
    }
    let scene = Scene::new().await;
    // Without a TTL, and with less and more of one than the backstop.
    for ttl in [None, Some("60000"), Some("90000000")] {
        for server in &scene.servers {
            server.set(KEY, "somebody else's");
            if let Some(ttl) = ttl {
                server.cli(&["PEXPIRE", KEY, ttl]);
            }
        }
        for names in [&["a"][..], &["a", "b"]] {
            let refused = in_time(async { scene.other.lock(names.to_vec()).await }).await;
            let Err(LockError::Held { owner, .. }) = refused else { panic!("{refused:?}") };
            assert_eq!(owner, None);
        }
        for server in &scene.servers {
            assert_eq!(server.get(KEY).as_deref(), Some(&b"somebody else's"[..]));
            assert!(!server.exists("redlock:lock:b"));
        }
    }
}
