//! Clients with different configurations.

use tower_redlock::{LockError, Redlock, error::Reason, node::redis::RestartGuard};

use crate::fixture::{
    Fixture, Proxy, RedisServer, all_vote, eventually_async,
    guard::{MAX_TTL, guarded, named, quick, reason, refusal, settled, tag, taken, works},
    in_time, urls,
};

#[track_caller]
fn assert_other_layout(reason: &Reason, found: &str, ours: &str) {
    let Reason::OtherLayout { found: other, ours: own } = reason else { panic!("{reason}") };
    assert!(other.contains(found) && own.contains(ours), "{reason}");
    let text = reason.to_string();
    assert!(text.contains(found) && text.contains(ours) && text.contains("adopt"), "{text}");
}

/// Two majorities without a common node: {a, b} of one set, {c, d} of the other.
#[tokio::test]
async fn overlapping_sets_exclude_each_other() {
    let Fixture { servers, proxies } = Fixture::new(4);
    let [a, b, c] = [0, 1, 2].map(|i: usize| proxies[i].url());
    let first = named(quick(), [("a", a), ("b", b), ("c", c)]);
    all_vote(&first).await;
    proxies[2].cut();
    let held = taken(&first, "x").await;

    let [b, c, d] = [1, 2, 3].map(|i: usize| servers[i].url());
    let second = named(quick(), [("b", b), ("c", c), ("d", d)]);
    for node in [0, 1] {
        assert_other_layout(
            &refusal(&second, node).await,
            "3 nodes (a, b, c)",
            "3 nodes (b, c, d)",
        );
    }
    // Long enough for the blank server to start without the others.
    let error = in_time(async { second.lock("x").wait(MAX_TTL * 3).await }).await.unwrap_err();
    let LockError::NoQuorum { votes } = error.root() else { panic!("{error}") };
    for node in [0, 1] {
        assert_other_layout(&reason(votes, node), "3 nodes (a, b, c)", "3 nodes (b, c, d)");
    }
    assert!(matches!(reason(votes, 2), Reason::Probation { .. }), "{votes}");
    let text = error.to_string();
    assert!(text.contains("(a, b, c)") && text.contains("(b, c, d)"), "{text}");
    assert!(held.is_valid(), "the first client's lock is still renewed");
}

/// Each set has enrolled one of the two common servers before it sees the other one.
#[tokio::test]
async fn simultaneous_overlapping_sets_exclude_each_other() {
    let Fixture { servers, proxies } = Fixture::new(4);
    let [a, b, c, d] = [0, 1, 2, 3].map(|i: usize| servers[i].url());
    let [late_b, late_c] = [1, 2].map(|i: usize| proxies[i].url());
    proxies.iter().for_each(Proxy::stall);
    // A probation is longer than a loaded machine takes until both sets see all servers.
    let slow = || quick().ttl(2 * MAX_TTL);
    let first = named(slow(), [("a", a), ("b", b), ("c", late_c)]);
    let second = named(slow(), [("b", late_b), ("c", c), ("d", d)]);
    eventually_async("each set has enrolled two servers", async || {
        servers.iter().all(|server| tag(server).starts_with("p "))
    })
    .await;
    proxies.iter().for_each(Proxy::resume);
    let try_it = async |redlock: &Redlock| redlock.lock("x").wait(MAX_TTL * 5).await;
    let (one, other) = in_time(async { tokio::join!(try_it(&first), try_it(&second)) }).await;
    assert!(one.is_err() || other.is_err(), "two clients hold the lock");
}

#[tokio::test]
async fn named_hosts_make_the_same_set() {
    let servers = RedisServer::start_n(3);
    let node = |i: usize| (["a", "b", "c"][i], servers[i].url());
    let by_name = |i: usize| (["a", "b", "c"][i], servers[i].url_by_name());
    let first = named(quick(), [node(0), node(1), node(2)]);
    all_vote(&first).await;
    let second = named(quick(), [by_name(2), by_name(0), by_name(1)]);
    all_vote(&second).await;
    let held = taken(&first, "x").await;
    let error = second.lock("x").await.unwrap_err();
    assert!(matches!(error, LockError::Held { .. }), "{error}");
    let token = held.fencing_token();
    held.release().await.unwrap();
    let next = taken(&second, "x").await;
    assert!(next.fencing_token() > token);
}

#[tokio::test]
async fn different_guards_are_different_sets() {
    let servers = RedisServer::start_n(3);
    let first = settled(&servers).await;
    let off = guarded(quick(), urls(&servers)).restart_guard(RestartGuard::Off).build().unwrap();
    assert_other_layout(&refusal(&off, 0).await, "restart guard on", "restart guard off");
    works(&first).await;
}
