//! A server restarts without its data while a lock is held.

use tower_redlock::LockError;

use crate::{
    clients::{BareMajority, NAME, both_vote, redlock, rslock, set_nx_px},
    support::{HANG_GUARD, LONG, RedisServer, in_time},
};

#[test]
fn by_hand_has_two_holders() {
    let mut server = RedisServer::start();
    assert!(set_nx_px(&server, LONG));
    assert!(!set_nx_px(&server, LONG), "the lock is held");

    server.restart();

    assert!(set_nx_px(&server, LONG), "the lock is granted again");
}

#[tokio::test]
async fn rslock_has_two_holders() {
    let mut scene = BareMajority::new(0);
    let first = rslock(scene.urls_of_first());
    scene.cut_third();
    let held = first.lock(NAME, LONG).await.unwrap();

    scene.servers[1].restart();
    let second = rslock(scene.urls()).lock(NAME, LONG).await.unwrap();

    assert!(held.validity_time > 0 && second.validity_time > 0);
}

/// With the lock on all three servers, the restart of one makes no second holder.
#[tokio::test]
async fn rslock_tolerates_restart_beside_full_vote() {
    let mut servers = RedisServer::start_n(3);
    let urls: Vec<_> = servers.iter().map(RedisServer::plain_url).collect();
    let _held = rslock(urls.clone()).lock(NAME, LONG).await.unwrap();

    servers[1].restart();
    let second = rslock(urls).lock(NAME, LONG).await;

    assert!(matches!(second, Err(rslock::LockError::Unavailable)), "{second:?}");
}

#[tokio::test]
async fn ours_has_one_holder() {
    let mut scene = BareMajority::new(0);
    let first = redlock(scene.urls_of_first());
    let second = redlock(scene.urls());
    both_vote(&first, &second).await;
    scene.cut_third();
    let held = in_time(async { first.lock(NAME).await }).await.unwrap();

    scene.servers[1].restart();
    let refused = in_time(async { second.lock(NAME).await }).await;
    assert!(matches!(refused, Err(LockError::NoQuorum { .. } | LockError::Held { .. })));
    let next = in_time(async { second.lock(NAME).wait(HANG_GUARD).await }).await.unwrap();

    assert!(!held.is_valid(), "two clients hold the lock");
    assert!(next.fencing_token() > held.fencing_token());
}
