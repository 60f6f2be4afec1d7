//! Servers that lose their data, with the restart guard on.

use std::convert::Infallible;

use tower_redlock::{
    LockError, Redlock,
    once::{Once, OnceError, UnknownOutcome},
};

use crate::fixture::{
    HANG_GUARD, RedisServer, eventually_async,
    guard::{all_copied, forgets, manager, settled},
    in_time,
};

/// Waits, as the votes of one attempt are split while a server that lost its data joins the others.
async fn run(redlock: &Redlock, key: &str) -> Once<()> {
    let run = redlock.once(key).wait(HANG_GUARD).run(|_| async { Ok::<_, Infallible>(()) });
    run.await.expect("a quorum answers")
}

/// Servers whose nodes report whether records are complete.
async fn complete(servers: &[RedisServer]) -> Redlock {
    let redlock = settled(servers).await;
    all_copied(servers).await;
    redlock
}

/// The nodes of a new set copy each other's records, of which there are none.
#[tokio::test]
async fn ready_set_reports_the_records() {
    for count in [2, 3, 5] {
        let servers = RedisServer::start_n(count);
        let redlock = manager(&servers);
        in_time(redlock.ready()).await.unwrap();
        for key in 0..KEYS {
            assert_eq!(run(&redlock, &format!("key {key}")).await, Once::Ran(()));
        }
    }
}

/// Makes the servers copy records again, and withhold them meanwhile.
fn take_over(servers: &[RedisServer]) {
    for server in servers {
        server.cli(&["HSET", "redlock:meta", "once", "copying"]);
    }
}

#[tokio::test]
async fn waiting_request_outlasts_copying() {
    let servers = RedisServer::start_n(3);
    let redlock = complete(&servers).await;

    for (key, unknown) in [("a", UnknownOutcome::Release), ("b", UnknownOutcome::Hold(HANG_GUARD))]
    {
        take_over(&servers);
        let ended = redlock.once(key).run(|_| async { Ok::<_, Infallible>(()) }).await;
        assert!(matches!(ended, Err(OnceError::Lock(LockError::NoQuorum { .. }))), "{ended:?}");
        take_over(&servers);
        let request = redlock.once(key).wait(HANG_GUARD * 2).unknown(unknown);
        assert_eq!(request.run(|_| async { Ok::<_, Infallible>(()) }).await, Ok(Once::Ran(())));
        let again = redlock.once(key).wait(HANG_GUARD).run(|_| async { Ok::<_, Infallible>(()) });
        assert!(matches!(again.await, Ok(Once::AlreadyDone { .. })));
    }
}

const KEYS: usize = 20;

#[tokio::test]
async fn done_keys_survive_successive_flushes() {
    let servers = RedisServer::start_n(3);
    let redlock = complete(&servers).await;
    for key in 0..KEYS {
        assert_eq!(run(&redlock, &format!("key {key}")).await, Once::Ran(()));
    }
    for (node, server) in servers.iter().enumerate() {
        forgets(&redlock, node, || drop(server.cli(&["FLUSHALL"]))).await;
        // No requests run meanwhile: the record is copied, not repaired.
        eventually_async("the records are back", async || {
            server.keys("redlock:done:once:*").len() == KEYS
        })
        .await;
    }
    for key in 0..KEYS {
        let ended = run(&redlock, &format!("key {key}")).await;
        assert!(matches!(ended, Once::AlreadyDone { .. }), "{key}: {ended:?}");
    }
}

#[tokio::test]
async fn done_key_survives_loss_of_minority() {
    let mut servers = RedisServer::start_n(5);
    let redlock = complete(&servers).await;
    assert_eq!(run(&redlock, "a").await, Once::Ran(()));
    servers[0].kill();
    servers[3].restart();
    for _ in 0..20 {
        let ended = run(&redlock, "a").await;
        assert!(matches!(ended, Once::AlreadyDone { .. }), "{ended:?}");
    }
}

/// The most complete record is copied last, or first.
#[tokio::test]
async fn majority_of_a_key_is_copied() {
    const MINUTE: usize = 60_000;
    let servers = RedisServer::start_n(3);
    let redlock = complete(&servers).await;
    let at = |key: &str| format!("redlock:done:once:{key}");
    let mut begun = None;
    let request =
        redlock.once("a").unknown(UnknownOutcome::Hold(HANG_GUARD)).wait(HANG_GUARD).run(|_| {
            begun = servers[0].get(&at("a"));
            async { Ok::<_, Infallible>(()) }
        });
    assert_eq!(request.await, Ok(Once::Ran(())));
    eventually_async("every node has the done record", async || {
        servers.iter().all(|server| server.get(&at("a")).is_some_and(|kept| kept[0] == b'd'))
    })
    .await;
    let text = |value: Option<Vec<u8>>| String::from_utf8(value.unwrap()).unwrap();
    let (begun, done) = (text(begun), text(servers[0].get(&at("a"))));
    assert!(begun.starts_with("u "), "{begun}");
    let other = format!("u {}{}", "f".repeat(32), &begun[34..]);
    let kept = |value: &str, ttl: usize| (value.to_owned(), ttl.to_string());
    let expected = [
        ("a", kept(&begun, 2 * MINUTE), kept(&done, MINUTE), &done),
        ("b", kept(&done, MINUTE), kept(&begun, 2 * MINUTE), &done),
        ("c", kept(&begun, MINUTE), kept(&other, 2 * MINUTE), &other),
        ("d", kept(&begun, 2 * MINUTE), kept(&other, MINUTE), &begun),
    ];
    for (key, first, last, _) in &expected {
        for (server, (value, ttl)) in [(0, first), (2, last)] {
            servers[server].cli(&["SET", &at(key), value, "PX", ttl]);
        }
    }
    forgets(&redlock, 1, || drop(servers[1].cli(&["FLUSHALL"]))).await;
    all_copied(&servers[1..2]).await;
    for (key, _, _, copied) in expected {
        assert_eq!(text(servers[1].get(&at(key))), *copied, "{key}");
    }
}
