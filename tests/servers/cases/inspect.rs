//! Inspecting and revoking a lock.

use std::time::{Duration, SystemTime};

use tower_redlock::{
    LockError, RedlockBuilder,
    error::{LossCause, Reason, ReleaseError, VoteOutcome},
    lock::Released,
};

use super::scene::{LONG, Scene, key, patient};
use crate::support::{HANG_GUARD, eventually_async};

fn holder() -> RedlockBuilder {
    patient().owner("holder")
}

#[tokio::test]
async fn holder_is_reported_in_full() {
    let scene = Scene::new(3);
    let redlock = scene.direct(holder()).await;
    assert!(redlock.inspect("x").await.unwrap().is_none());
    let before = SystemTime::now() - Duration::from_millis(1);
    let lock = redlock.lock("x").await.unwrap();
    let after = SystemTime::now();
    scene.keys_everywhere().await;

    let told = redlock.inspect("x").await.unwrap().expect("it is held");
    assert_eq!((&*told.name, told.owner.as_deref()), ("x", Some("holder")));
    let since = told.since.expect("a date");
    assert!(before <= since && since <= after, "{before:?} {since:?} {after:?}");
    let left = told.remaining.expect("it ends");
    assert!(left <= LONG && left > LONG / 2, "{left:?}");
    assert_eq!(told.token, lock.fencing_token());
    assert!(told.is_quorum);
    let by_holder = |vote: &tower_redlock::error::Vote| matches!(&vote.outcome, VoteOutcome::Held { owner: Some(owner), remaining: Some(left) } if &**owner == "holder" && *left <= LONG);
    assert!(told.votes.iter().all(by_holder), "{}", told.votes);
    let names: Vec<_> = told.votes.iter().map(|vote| &*vote.node).collect();
    assert_eq!(names, ["node-1", "node-2", "node-3"]);
    // What could take the lock away is a secret.
    let nonce = &scene.servers[0].get(&key("x")).expect("the key")[..32];
    let nonce = String::from_utf8(nonce.to_vec()).expect("digits");
    assert!(!format!("{told:?}").contains(&nonce), "{told:?}");

    assert!(lock.is_valid(), "asking changes nothing");
    lock.release().await.unwrap();
    assert!(redlock.inspect("x").await.unwrap().is_none());
}

#[tokio::test]
async fn remaining_time_ends_with_the_quorum() {
    let scene = Scene::new(3);
    let redlock = scene.direct(holder()).await;
    let _lock = redlock.lock("x").await.unwrap();
    scene.keys_everywhere().await;
    let told = async || redlock.inspect("x").await.unwrap().expect("it is held").remaining;
    scene.servers[0].cli(&["PEXPIRE", &key("x"), "20000"]);
    assert!(told().await > Some(LONG / 2), "two keep it for longer");
    scene.servers[1].cli(&["PEXPIRE", &key("x"), "30000"]);
    let left = told().await.expect("it ends");
    assert!(left <= LONG / 2 && left > LONG / 3, "{left:?}");
    for server in &scene.servers[..2] {
        server.cli(&["PERSIST", &key("x")]);
    }
    assert_eq!(told().await, None, "a quorum keeps it for ever");
}

#[tokio::test]
async fn minority_keys_are_no_quorum() {
    let scene = Scene::new(3);
    let redlock = scene.direct(holder()).await;
    let lock = redlock.lock("x").await.unwrap();
    scene.keys_everywhere().await;
    for server in &scene.servers[1..] {
        server.cli(&["DEL", &key("x")]);
    }
    let told = redlock.inspect("x").await.unwrap().expect("one keeps it");
    assert!(!told.is_quorum);
    assert_eq!((told.owner.as_deref(), told.token), (Some("holder"), lock.fencing_token()));
    assert_eq!(told.votes[2].outcome, VoteOutcome::NotCounted(Reason::KeyGone));
}

#[tokio::test]
async fn first_held_name_is_reported() {
    let scene = Scene::new(3);
    let redlock = scene.direct(holder()).await;
    let _b = redlock.lock("b").await.unwrap();
    let _c = redlock.lock("c").await.unwrap();
    let told = redlock.inspect(["a", "b", "c"]).await.unwrap().expect("it is held");
    assert_eq!(&*told.name, "b");
    let error = redlock.inspect("").await.unwrap_err();
    assert!(matches!(error, LockError::InvalidResource(_)), "{error}");
}

#[tokio::test]
async fn foreign_key_is_not_revoked() {
    let scene = Scene::new(3);
    let redlock = scene.direct(holder()).await;
    scene.servers.iter().for_each(|server| server.set(&key("x"), "foreign"));
    let told = redlock.inspect("x").await.unwrap().expect("it is held");
    assert_eq!((told.owner.as_deref(), told.since, told.remaining), (None, None, None));
    assert_eq!(told.token.get(), 0);
    assert!(told.is_quorum);
    assert_eq!(redlock.revoke(&told).await, Err(ReleaseError::Foreign));
    assert!(scene.servers.iter().all(|server| server.exists(&key("x"))));
}

#[tokio::test]
async fn too_few_answers_are_no_quorum() {
    let mut scene = Scene::new(3);
    let redlock = scene.direct(holder()).await;
    let lock = redlock.lock("x").await.unwrap();
    scene.keys_everywhere().await;
    let told = redlock.inspect("x").await.unwrap().expect("it is held");
    scene.servers[0].kill();
    eventually_async("it is down", async || !redlock.health()[0].is_voting()).await;
    assert!(redlock.inspect("x").await.unwrap().expect("two tell").is_quorum);
    scene.servers[1].kill();
    eventually_async("it is down", async || !redlock.health()[1].is_voting()).await;
    let error = redlock.inspect("x").await.unwrap_err();
    let LockError::NoQuorum { votes } = error else { panic!("{error}") };
    assert!(matches!(votes[2].outcome, VoteOutcome::Held { .. }), "{votes}");
    for vote in &votes[..2] {
        assert!(matches!(vote.outcome, VoteOutcome::NotCounted(_)), "{votes}");
    }
    let error = redlock.revoke(&told).await.unwrap_err();
    assert!(matches!(error, ReleaseError::NoQuorum { .. }), "{error}");
    drop(lock);
}

#[tokio::test]
async fn silent_servers_are_no_quorum() {
    let scene = Scene::new(3);
    let redlock = scene.direct(patient().node_timeout(Duration::from_millis(200))).await;
    scene.servers[..2].iter().for_each(crate::support::RedisServer::freeze);
    let told = tokio::time::timeout(HANG_GUARD, redlock.inspect("x")).await.expect("it hangs");
    let Err(LockError::NoQuorum { votes }) = told else { panic!("{told:?}") };
    assert_eq!(votes[2].outcome, VoteOutcome::NotCounted(Reason::KeyGone));
    scene.servers[..2].iter().for_each(crate::support::RedisServer::thaw);
    let silent = [votes[0].clone(), votes[1].clone()].map(|vote| vote.outcome);
    assert_eq!(silent, [Reason::TimedOut, Reason::TimedOut].map(VoteOutcome::NotCounted));
}

#[tokio::test]
async fn revoking_crashed_holder_frees_name() {
    let scene = Scene::new(3);
    let redlock = scene.direct(patient()).await;
    let crashed = scene.proxied(holder()).await;
    let lock = crashed.lock("x").await.unwrap();
    scene.keys_everywhere().await;
    scene.proxies.iter().for_each(crate::support::Proxy::cut);
    let told = redlock.inspect("x").await.unwrap().expect("it is held");
    assert_eq!(redlock.revoke(&told).await, Ok(Released::Released));
    assert_eq!(scene.key_counts(), [0; 3]);
    assert_eq!(redlock.revoke(&told).await, Ok(Released::AlreadyLost));
    redlock.lock("x").await.unwrap().release().await.unwrap();
    drop(lock);
}

#[tokio::test]
async fn revocation_spares_a_later_holder() {
    let scene = Scene::new(3);
    let redlock = scene.direct(holder()).await;
    let first = redlock.lock("x").await.unwrap();
    scene.keys_everywhere().await;
    let told = redlock.inspect("x").await.unwrap().expect("it is held");
    first.release().await.unwrap();
    // Of the same manager, and of the same owner.
    let second = redlock.lock("x").await.unwrap();
    scene.keys_everywhere().await;
    assert_eq!(redlock.revoke(&told).await, Ok(Released::AlreadyLost));
    assert!(scene.key_counts() == [1; 3] && second.is_valid());
    second.extend().await.unwrap();
    assert_eq!(second.release().await, Ok(Released::Released));
}

#[tokio::test]
async fn living_holder_learns_of_its_successor() {
    let scene = Scene::new(3);
    let redlock = scene.direct(holder()).await;
    let other = scene.direct(patient().owner("other")).await;
    let lock = redlock.lock("x").await.unwrap();
    scene.keys_everywhere().await;
    let told = other.inspect("x").await.unwrap().expect("it is held");
    assert_eq!(other.revoke(&told).await, Ok(Released::Released));
    let _taken = other.lock("x").await.unwrap();
    scene.keys_everywhere().await;
    let error = lock.extend().await.unwrap_err();
    let LockError::Lost { cause: LossCause::Stolen { owner } } = error else { panic!("{error}") };
    assert_eq!(owner.as_deref(), Some("other"));
}
