//! Nodes that are frozen or dead: one of five, and all.

use std::task::Poll;

use tower_redlock::{LockError, Redlock, error::Reason, node::NodeState};

use crate::fixture::{Fixture, RedisServer, brisk, eventually_async, patient, poll_once, reasons};

#[tokio::test]
async fn held_lock_survives_lost_minority() {
    let mut fixture = Fixture::new(5);
    let redlock = fixture.direct(patient()).await;
    let lock = redlock.lock("x").await.unwrap();
    fixture.servers[0].kill();
    fixture.servers[1].freeze();
    lock.extend().await.expect("the healthy majority renews");
    lock.release().await.unwrap();
    fixture.servers[1].thaw();
    eventually_async("the thawed node keeps no key", async || {
        fixture.servers[1..].iter().all(|server| server.keys("redlock:lock:*").is_empty())
    })
    .await;
}

async fn all_are_known_to_be_down(redlock: &Redlock) {
    eventually_async("every node is seen to be down", async || {
        redlock.health().iter().all(|node| matches!(node.state, NodeState::Down { .. }))
    })
    .await;
}

#[tokio::test]
async fn all_nodes_down_fail_first_poll() {
    let mut fixture = Fixture::new(3);
    let redlock = fixture.direct(brisk()).await;
    fixture.servers.iter_mut().for_each(RedisServer::kill);
    all_are_known_to_be_down(&redlock).await;
    let result = poll_once(&mut redlock.lock("x").into_future());
    let Poll::Ready(Err(LockError::NoQuorum { votes })) = result else { panic!("{result:?}") };
    let is_down = |r: &&Reason| matches!(r, Reason::NotConnected(_) | Reason::Disconnected);
    // The result does not wait for the third node, and does not report that it timed out.
    assert!(reasons(&votes).iter().filter(is_down).count() >= 2, "{votes}");
    assert!(!reasons(&votes).contains(&Reason::TimedOut), "at the first poll: {votes}");
}
