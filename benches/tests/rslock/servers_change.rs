//! A deployment changes the list of servers while replicas with the former list still run.

use std::time::Duration;

use tower_redlock::LockError;

use crate::{
    clients::{BareMajority, NAME, SHORT, of_servers, redlock, rslock, set_nx_px},
    support::{LONG, RedisServer, all_vote, in_time},
};

#[test]
fn by_hand_has_two_holders() {
    let servers = RedisServer::start_n(2);

    assert!(set_nx_px(&servers[0], LONG));
    assert!(set_nx_px(&servers[1], LONG));
}

#[tokio::test]
async fn rslock_has_two_holders() {
    let scene = BareMajority::new(1);
    let first = rslock(scene.urls_of_first());
    scene.cut_third();
    let held = first.lock(NAME, LONG).await.unwrap();

    let second = rslock(scene.urls().split_off(1)).lock(NAME, LONG).await.unwrap();

    assert!(held.validity_time > 0 && second.validity_time > 0);
}

#[tokio::test]
async fn ours_has_one_holder() {
    let scene = BareMajority::new(1);
    let first = redlock(scene.urls_of_first());
    all_vote(&first).await;
    scene.cut_third();
    let held = in_time(async { first.lock(NAME).await }).await.unwrap();

    let second = of_servers([1, 2, 3].into_iter().zip(scene.urls().split_off(1)));
    // Longer than the wait of a new server before it votes.
    let wait: Duration = SHORT * 3;
    let refused = in_time(async { second.lock(NAME).wait(wait).await }).await.unwrap_err();

    let LockError::NoQuorum { votes } = refused.root() else { panic!("{refused}") };
    assert!(votes.to_string().contains("adopt"), "the advice is missing: {votes}");
    assert!(held.is_valid(), "the first client's lock is still renewed");
}
