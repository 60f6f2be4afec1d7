//! Inspecting and revoking a lock.

use std::time::{Duration, SystemTime};

use tower_redlock::{
    LockError, RedlockBuilder,
    error::{Reason, ReleaseError, VoteOutcome},
    lock::Released,
};

use crate::fixture::{Fixture, LONG, eventually_async, key, patient};

/// Maximum time for which a key may live beyond its TTL.
const SLACK: Duration = Duration::from_secs(5);

fn holder() -> RedlockBuilder {
    patient().owner("holder")
}

#[tokio::test]
async fn holder_is_reported_in_full() {
    let fixture = Fixture::new(3);
    let redlock = fixture.direct(holder()).await;
    assert!(redlock.inspect("x").await.unwrap().is_none());
    let before = SystemTime::now() - Duration::from_millis(1);
    let lock = redlock.lock("x").await.unwrap();
    let after = SystemTime::now();
    fixture.keys_everywhere().await;
    let found = redlock.inspect("x").await.unwrap().expect("it is held");
    assert_eq!((&*found.name, found.owner.as_deref()), ("x", Some("holder")));
    let since = found.since.expect("a date");
    assert!(before <= since && since <= after, "{before:?} {since:?} {after:?}");
    let left = found.remaining.expect("it ends");
    assert!(left <= LONG + SLACK && left > LONG / 2, "{left:?}");
    assert_eq!(found.token, lock.fencing_token());
    assert!(found.is_quorum);
    let by_holder = |vote: &tower_redlock::error::Vote| matches!(&vote.outcome, VoteOutcome::Held { owner: Some(owner), remaining: Some(left) } if &**owner == "holder" && *left <= LONG + SLACK);
    assert!(found.votes.iter().all(by_holder), "{}", found.votes);
    let names: Vec<_> = found.votes.iter().map(|vote| &*vote.node).collect();
    assert_eq!(names, ["node-1", "node-2", "node-3"]);
    // The nonce is a secret: it could release the lock.
    let nonce = &fixture.servers[0].get(&key("x")).expect("the key")[..32];
    let nonce = String::from_utf8(nonce.to_vec()).expect("digits");
    assert!(!format!("{found:?}").contains(&nonce), "{found:?}");
    assert!(lock.is_valid(), "inspecting changes nothing");
    lock.release().await.unwrap();
    assert!(redlock.inspect("x").await.unwrap().is_none());
}

#[tokio::test]
async fn remaining_time_ends_with_the_quorum() {
    let fixture = Fixture::new(3);
    let redlock = fixture.direct(holder()).await;
    let _lock = redlock.lock("x").await.unwrap();
    fixture.keys_everywhere().await;
    let found = async || redlock.inspect("x").await.unwrap().expect("it is held").remaining;
    fixture.servers[0].cli(&["PEXPIRE", &key("x"), "20000"]);
    assert!(found().await > Some(LONG / 2), "two keep it for longer");
    fixture.servers[1].cli(&["PEXPIRE", &key("x"), "30000"]);
    let left = found().await.expect("it ends");
    assert!(left <= LONG / 2 + SLACK && left > LONG / 3, "{left:?}");
    for server in &fixture.servers[..2] {
        server.cli(&["PERSIST", &key("x")]);
    }
    assert_eq!(found().await, None, "a quorum keeps it without a TTL");
}

#[tokio::test]
async fn first_held_name_is_reported() {
    let fixture = Fixture::new(3);
    let redlock = fixture.direct(holder()).await;
    let _b = redlock.lock("b").await.unwrap();
    let _c = redlock.lock("c").await.unwrap();
    let found = redlock.inspect(["a", "b", "c"]).await.unwrap().expect("it is held");
    assert_eq!(&*found.name, "b");
    let error = redlock.inspect("").await.unwrap_err();
    assert!(matches!(error, LockError::InvalidResource(_)), "{error}");
}

#[tokio::test]
async fn too_few_answers_are_not_a_quorum() {
    let mut fixture = Fixture::new(3);
    let redlock = fixture.direct(holder()).await;
    let lock = redlock.lock("x").await.unwrap();
    fixture.keys_everywhere().await;
    let found = redlock.inspect("x").await.unwrap().expect("it is held");
    fixture.servers[0].kill();
    eventually_async("it is down", async || !redlock.health()[0].is_voting()).await;
    assert!(redlock.inspect("x").await.unwrap().expect("two nodes answer").is_quorum);
    fixture.servers[1].kill();
    eventually_async("it is down", async || !redlock.health()[1].is_voting()).await;
    let error = redlock.inspect("x").await.unwrap_err();
    let LockError::NoQuorum { votes } = error else { panic!("{error}") };
    assert!(matches!(votes[2].outcome, VoteOutcome::Held { .. }), "{votes}");
    for vote in &votes[..2] {
        assert!(matches!(vote.outcome, VoteOutcome::NotCounted(_)), "{votes}");
    }
    let error = redlock.revoke(&found).await.unwrap_err();
    assert!(matches!(error, ReleaseError::NoQuorum { .. }), "{error}");
    drop(lock);
}

#[tokio::test]
async fn revoking_crashed_holder_frees_name() {
    let (fixture, redlock) = Fixture::patient().await;
    let crashed = fixture.proxied(holder()).await;
    let lock = crashed.lock("x").await.unwrap();
    fixture.keys_everywhere().await;
    fixture.proxies.iter().for_each(crate::fixture::Proxy::cut);
    let found = redlock.inspect("x").await.unwrap().expect("it is held");
    assert_eq!(redlock.revoke(&found).await, Ok(Released::Released));
    assert_eq!(fixture.key_counts(), [0; 3]);
    assert_eq!(redlock.revoke(&found).await, Ok(Released::AlreadyLost));
    redlock.lock("x").await.unwrap().release().await.unwrap();
    drop(lock);
}

#[tokio::test]
async fn keys_of_locks_are_counted() {
    // More keys than one call scans, which is a thousand.
    const KEYS: i64 = 1_500;
    let (mut fixture, redlock) = Fixture::patient().await;
    let fill = "for i = 1, ARGV[1] do \
                  redis.call('SET', 'redlock:lock:' .. i, 'x', 'PX', 60000) \
                  redis.call('SET', 'other:' .. i, 'x', 'PX', 60000) \
                end return tonumber(ARGV[1])";
    assert_eq!(fixture.servers[1].cli(&["EVAL", fill, "0", &KEYS.to_string()]).int(), KEYS);
    fixture.servers[2].kill();
    eventually_async("the server is down", async || !redlock.health()[2].is_voting()).await;
    let counts = redlock.key_counts().await;
    assert_eq!(counts[..2], [Ok(0), Ok(KEYS.unsigned_abs())]);
    assert!(matches!(counts[2], Err(Reason::NotConnected(_) | Reason::Disconnected)), "{counts:?}");
}
