//! Lost, refused and late hints: the fallback still acquires the lock.

use std::time::Duration;

use tower_redlock::LockError;

use crate::fixture::{
    FakeServer, Fixture, Log, LoggedSpawner, Proxy, Reaction, RedisServer, Resp, all_vote,
    connected, eventually_async, fake, over, patient,
    waiting::{Waiting, granted, listening, settled_calls, wait_for, woken_or_never},
};

#[tokio::test]
async fn subscription_that_breaks_is_made_again() {
    let waiting = Waiting::start(3, woken_or_never).await;
    waiting.proxies.iter().for_each(Proxy::cut);
    listening(&waiting.servers, "x", 0).await;
    waiting.proxies.iter().for_each(Proxy::heal);
    waiting.reconnected().await;
    waiting.release_grants().await;
}

#[tokio::test]
async fn broken_subscriptions_are_all_renewed() {
    const NAMES: usize = 500;
    let fixture = Fixture::new(3);
    let holder = fixture.direct(woken_or_never()).await;
    let waiter = fixture.proxied(woken_or_never()).await;
    let (mut locks, mut waiting) = (Vec::new(), Vec::new());
    for name in (0..NAMES).map(|i| format!("n{i}")) {
        locks.push(holder.lock(&*name).await.unwrap());
        waiting.push(wait_for(&waiter, &name));
    }
    let all = async |count: usize| {
        let channels = |server: &RedisServer| {
            server.cli(&["PUBSUB", "CHANNELS", "redlock:free:*"]).items().len()
        };
        eventually_async("the servers have the subscriptions", async || {
            fixture.servers.iter().all(|server| channels(server) == count)
        })
        .await;
    };
    all(NAMES).await;
    settled_calls(&fixture.servers).await;
    fixture.proxies.iter().for_each(Proxy::cut);
    all(0).await;
    fixture.proxies.iter().for_each(Proxy::heal);
    all(NAMES).await;
    all_vote(&waiter).await;
    settled_calls(&fixture.servers).await;
    assert!(waiting.iter().all(|request| !request.is_finished()));

    drop(locks);
    for request in waiting {
        drop(granted(request).await);
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
            None if command[0] == b"EVALSHA" => fake::held(),
            None => Reaction::simple("PONG"),
        });
        let log = Log::new();
        let builder = patient().spawner(LoggedSpawner::start(&log));
        let waiter = connected(over(builder, [server.url()])).await;
        let waiting = wait_for(&waiter, "x");
        log.wait_for("DEBUG", &["cannot listen for releases", "exceeds the memory limit"]).await;
        waiting.abort();
    }
}

#[tokio::test]
async fn missed_hints_are_recovered() {
    let Waiting { servers, proxies, lock, request, .. } = Waiting::start(3, patient).await;
    proxies.iter().for_each(Proxy::cut);
    listening(&servers, "x", 0).await;
    lock.release().await.unwrap();
    assert!(!request.is_finished());
    proxies.iter().for_each(Proxy::heal);
    drop(granted(request).await);
}

#[tokio::test]
async fn restarted_server_sends_hints_again() {
    let mut waiting = Waiting::start(3, woken_or_never).await;
    waiting.servers[0].restart();
    waiting.reconnected().await;
    waiting.release_grants().await;
}

/// Keys that expire send no hint.
#[tokio::test]
async fn fallback_replaces_missing_hints() {
    let waiting = Waiting::start(3, patient).await;
    for server in &waiting.servers {
        assert_eq!(server.cli(&["FLUSHALL"]), Resp::Simple("OK".into()));
    }
    drop(granted(waiting.request).await);
}

/// Adds a user with all permissions, except for channels, and these rules.
fn add_user<'a>(servers: &'a [RedisServer], name: &str, rules: &[&str]) -> Vec<String> {
    let all = ["ACL", "SETUSER", name, "on", ">word", "~*", "+@all", "resetchannels"];
    let command = [&all, rules].concat();
    let url = |server: &'a RedisServer| {
        assert_eq!(server.cli(&command), Resp::Simple("OK".into()));
        server.plain_url().replace("://", &format!("://{name}:word@"))
    };
    servers.iter().map(url).collect()
}

#[tokio::test]
async fn without_channel_permission_waiters_retry() {
    let fixture = Fixture::new(3);
    let cases: [[&[&str]; 2]; 4] = [
        [&[], &[]],
        [&["&redlock:free:*"], &[]],
        [&[], &["&redlock:free:*"]],
        [&["&redlock:free:*", "-pubsub", "-publish"], &["&*", "-subscribe"]],
    ];
    for (case, [holder, waiter]) in cases.into_iter().enumerate() {
        let user = |name: &str, rules| {
            let urls = add_user(&fixture.servers, &format!("{name}-{case}"), rules);
            connected(over(patient(), urls))
        };
        let (holder, waiter) = (user("holder", holder).await, user("waiter", waiter).await);
        let lock = holder.lock("x").await.unwrap();
        let waiting = wait_for(&waiter, "x");
        eventually_async("the command was refused", async || {
            fixture.servers[0].get("redlock:lock:x").is_some_and(|value| value.ends_with(b"\n"))
        })
        .await;
        lock.release().await.unwrap();
        granted(waiting).await.release().await.unwrap();
        fixture.all_keys_gone().await;
    }
}

#[tokio::test]
async fn users_with_channels_alone_are_woken() {
    let Fixture { servers, .. } = Fixture::new(3);
    let urls = add_user(&servers, "app", &["&redlock:free:*"]);
    let holder = connected(over(woken_or_never(), &urls)).await;
    let waiter = connected(over(woken_or_never(), &urls)).await;
    let lock = holder.lock("x").await.unwrap();
    let waiting = wait_for(&waiter, "x");
    listening(&servers, "x", 1).await;
    settled_calls(&servers).await;

    drop(lock);

    drop(granted(waiting).await);
}

#[tokio::test]
async fn silent_minority_blocks_no_wakeup() {
    let waiting = Waiting::start(5, woken_or_never).await;
    // The first request may have tried before the last subscription, so that one report makes it try too early.
    let next = wait_for(&waiting.waiter, "x");
    tokio::task::yield_now().await;
    waiting.request.abort();
    settled_calls(&waiting.servers).await;
    listening(&waiting.servers, "x", 1).await;
    waiting.servers[0].freeze();
    waiting.servers[3].freeze();

    drop(waiting.lock);

    drop(granted(next).await);
}

#[tokio::test]
async fn unserved_wait_leaves_no_state() {
    let fixture = Fixture::new(3);
    let holder = fixture.direct(patient().owner("holder")).await;
    let waiter = fixture.direct(patient()).await;
    let _lock = holder.lock("x").await.unwrap();
    let result = waiter.lock("x").wait(Duration::from_millis(300)).await;
    let Err(LockError::WaitTimedOut { last, waited }) = result else { panic!("{result:?}") };
    assert!(waited >= Duration::from_millis(300), "{waited:?}");
    let LockError::Held { owner, expires_in: Some(_), .. } = *last else { panic!("{last:?}") };
    assert_eq!(owner.as_deref(), Some("holder"), "the error names the last holder");
    listening(&fixture.servers, "x", 0).await;
}
