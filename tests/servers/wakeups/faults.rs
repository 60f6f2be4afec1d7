//! Lost, refused and late hints: the fallback still acquires the lock.

use std::time::Duration;

use super::scene::{
    connected, granted, listeners, listening, patient, settled_calls, urls, wait_for,
    woken_or_never,
};
use crate::failures::{
    fake,
    log::{Log, LoggedSpawner},
};
use crate::support::{
    FakeServer, Proxy, Reaction, RedisServer, Resp, ServerScene, eventually_async,
};

#[tokio::test]
async fn subscription_that_breaks_is_made_again() {
    let ServerScene { servers, proxies } = ServerScene::new(3);
    let holder = connected(woken_or_never(), urls(&servers)).await;
    let waiter = connected(woken_or_never(), proxies.iter().map(Proxy::url)).await;
    let lock = holder.lock("x").await.unwrap();
    let waiting = wait_for(&waiter, "x");
    listening(&servers, "x", 1).await;
    settled_calls(&servers).await;
    proxies.iter().for_each(Proxy::cut);
    listening(&servers, "x", 0).await;
    proxies.iter().for_each(Proxy::heal);
    listening(&servers, "x", 1).await;
    eventually_async("every node votes again", async || {
        waiter.health().iter().all(tower_redlock::node::NodeHealth::is_voting)
    })
    .await;

    settled_calls(&servers).await;

    assert!(!waiting.is_finished());

    drop(lock);
    drop(granted(waiting).await);
}

#[tokio::test]
async fn broken_subscriptions_are_all_renewed() {
    const NAMES: usize = 500;
    let ServerScene { servers, proxies } = ServerScene::new(3);
    let holder = connected(woken_or_never(), urls(&servers)).await;
    let waiter = connected(woken_or_never(), proxies.iter().map(Proxy::url)).await;
    let names: Vec<_> = (0..NAMES).map(|i| format!("n{i}")).collect();
    let (mut locks, mut waiting) = (Vec::new(), Vec::new());
    for name in &names {
        locks.push(holder.lock(&**name).await.unwrap());
        waiting.push(wait_for(&waiter, name));
    }
    let channels =
        |server: &RedisServer| server.cli(&["PUBSUB", "CHANNELS", "redlock:free:*"]).items().len();
    let all = async |count: usize| {
        eventually_async("the servers have the subscriptions", async || {
            servers.iter().all(|server| channels(server) == count)
        })
        .await;
    };
    all(NAMES).await;
    settled_calls(&servers).await;
    proxies.iter().for_each(Proxy::cut);
    all(0).await;
    proxies.iter().for_each(Proxy::heal);
    all(NAMES).await;
    eventually_async("every node votes again", async || {
        waiter.health().iter().all(tower_redlock::node::NodeHealth::is_voting)
    })
    .await;

    settled_calls(&servers).await;

    assert!(waiting.iter().all(|one| !one.is_finished()));

    drop(locks);
    for one in waiting {
        drop(granted(one).await);
    }
    // A subscription without waiters soon ends.
    all(0).await;
}

#[tokio::test]
async fn endless_messages_end_the_subscription() {
    for begun in ["$536870912\r\n", "*3\r\n$7\r\nmessage\r\n$900000\r\n", "*1000000\r\n"] {
        let greeter = fake::Greeter::new();
        let server = FakeServer::start(move |command| match greeter.greet(command) {
            Some(reaction) => reaction,
            None if command[0] == b"SUBSCRIBE" => Reaction::Endless(begun.into()),
            None if command[0] == b"EVALSHA" => held(),
            None => Reaction::simple("PONG"),
        });
        let log = Log::new();
        let builder = patient().spawner(LoggedSpawner::start(&log));
        let waiter = connected(builder, [server.url()]).await;
        let waiting = wait_for(&waiter, "x");
        log.wait_for("DEBUG", &["cannot listen for releases", "exceeds the memory limit"]).await;
        waiting.abort();
    }
}

/// The answer to an acquire of a name that another client holds.
fn held() -> Reaction {
    let value = format!("{} 1 1 other", "0".repeat(32));
    let parts = [Reaction::int(3), Reaction::bulk("0"), Reaction::bulk(&value)];
    Reaction::array(&[&parts[..], &[Reaction::int(60_000)]].concat())
}

#[tokio::test]
async fn missed_hints_are_recovered() {
    let ServerScene { servers, proxies } = ServerScene::new(3);
    let holder = connected(patient(), urls(&servers)).await;
    let waiter = connected(patient(), proxies.iter().map(Proxy::url)).await;
    let lock = holder.lock("x").await.unwrap();
    let waiting = wait_for(&waiter, "x");
    listening(&servers, "x", 1).await;
    proxies.iter().for_each(Proxy::cut);
    listening(&servers, "x", 0).await;

    lock.release().await.unwrap();

    assert!(!waiting.is_finished());

    proxies.iter().for_each(Proxy::heal);
    drop(granted(waiting).await);
}

#[tokio::test]
async fn restarted_server_sends_hints_again() {
    let mut servers = RedisServer::start_n(3);
    let holder = connected(woken_or_never(), urls(&servers)).await;
    let waiter = connected(woken_or_never(), urls(&servers)).await;
    let lock = holder.lock("x").await.unwrap();
    let waiting = wait_for(&waiter, "x");
    listening(&servers, "x", 1).await;
    servers[0].restart();
    listening(&servers, "x", 1).await;
    settled_calls(&servers).await;
    drop(lock);

    drop(granted(waiting).await);
}

#[tokio::test]
async fn fallback_replaces_missing_hints() {
    let servers = RedisServer::start_n(3);
    let holder = connected(patient(), urls(&servers)).await;
    let waiter = connected(patient(), urls(&servers)).await;
    let lock = holder.lock("x").await.unwrap();
    let waiting = wait_for(&waiter, "x");
    listening(&servers, "x", 1).await;

    settled_calls(&servers).await;

    // Keys that expire send no hint.
    for server in &servers {
        assert_eq!(server.cli(&["FLUSHALL"]), Resp::Simple("OK".into()));
    }

    drop(granted(waiting).await);
    drop(lock);
}

/// Checks that `waiter` and `holder` get the lock as users with all permissions except these rules.
async fn works_without(holder: &[&str], waiter: &[&str]) {
    let servers = RedisServer::start_n(3);
    let user = |name: &str, rules: &[&str]| {
        for server in &servers {
            let all = ["ACL", "SETUSER", name, "on", ">word", "~*", "+@all", "resetchannels"];
            let command: Vec<&str> = all.iter().chain(rules).copied().collect();
            assert_eq!(server.cli(&command), Resp::Simple("OK".into()));
        }
        let login = format!("redis://{name}:word@");
        let plain: Vec<_> = servers.iter().map(RedisServer::plain_url).collect();
        plain.into_iter().map(move |url| url.replace("redis://", &login))
    };
    let holder = connected(patient(), user("holder", holder).collect::<Vec<_>>()).await;
    let waiter = connected(patient(), user("waiter", waiter).collect::<Vec<_>>()).await;
    let lock = holder.lock("x").await.unwrap();
    let waiting = wait_for(&waiter, "x");
    eventually_async("the command was refused", async || {
        let value = servers[0].get("redlock:lock:x").unwrap();
        value.ends_with(b"\n")
    })
    .await;
    lock.release().await.unwrap();
    granted(waiting).await.release().await.unwrap();
    assert!(servers.iter().all(|server| server.keys("redlock:lock:*").is_empty()));
}

#[tokio::test]
async fn without_channel_permission_waiters_retry() {
    works_without(&[], &[]).await;
    works_without(&["&redlock:free:*"], &[]).await;
    works_without(&[], &["&redlock:free:*"]).await;
    works_without(&["&redlock:free:*", "-pubsub", "-publish"], &["&*", "-subscribe"]).await;
}

#[tokio::test]
async fn users_with_channels_alone_are_woken() {
    let servers = RedisServer::start_n(3);
    for server in &servers {
        let command = ["ACL", "SETUSER", "app", "on", ">word", "~*", "+@all", "resetchannels"];
        let command = [&command[..], &["&redlock:free:*"]].concat();
        assert_eq!(server.cli(&command), Resp::Simple("OK".into()));
    }
    let urls = || servers.iter().map(|server| server.plain_url().replace("://", "://app:word@"));
    let holder = connected(woken_or_never(), urls()).await;
    let waiter = connected(woken_or_never(), urls()).await;
    let lock = holder.lock("x").await.unwrap();
    let waiting = wait_for(&waiter, "x");
    listening(&servers, "x", 1).await;
    settled_calls(&servers).await;
    drop(lock);

    drop(granted(waiting).await);
}

#[tokio::test]
async fn silent_minority_blocks_no_wakeup() {
    let servers = RedisServer::start_n(5);
    let holder = connected(woken_or_never(), urls(&servers)).await;
    let waiter = connected(woken_or_never(), urls(&servers)).await;
    let lock = holder.lock("x").await.unwrap();
    let waiting = wait_for(&waiter, "x");
    listening(&servers, "x", 1).await;
    settled_calls(&servers).await;
    servers[0].freeze();
    servers[3].freeze();
    drop(lock);
    drop(granted(waiting).await);
    servers[0].thaw();
    servers[3].thaw();

    let _ = listeners(&servers[0], "x");
}

#[tokio::test]
async fn unserved_wait_leaves_no_state() {
    let servers = RedisServer::start_n(3);
    let holder = connected(patient(), urls(&servers)).await;
    let waiter = connected(patient(), urls(&servers)).await;
    let lock = holder.lock("x").await.unwrap();
    let result = waiter.lock("x").wait(Duration::from_millis(300)).await;
    assert!(matches!(result, Err(tower_redlock::LockError::WaitTimedOut { .. })), "{result:?}");
    listening(&servers, "x", 0).await;
    drop(lock);
}
