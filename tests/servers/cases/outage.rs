//! All nodes down, or frozen.

use std::task::Poll;

use tower_redlock::{LockError, Redlock, error::Reason, node::NodeState};

use super::scene::{Scene, all_vote, brisk, patient, poll_once, reasons};
use crate::support::{HANG_GUARD, RedisServer, eventually_async};

async fn all_are_known_to_be_down(redlock: &Redlock) {
    eventually_async("every node is seen to be down", async || {
        redlock.health().iter().all(|node| matches!(node.state, NodeState::Down { .. }))
    })
    .await;
}

#[tokio::test]
async fn all_nodes_down_fail_first_poll() {
    let mut scene = Scene::new(3);
    let redlock = scene.direct(brisk()).await;
    scene.servers.iter_mut().for_each(RedisServer::kill);
    all_are_known_to_be_down(&redlock).await;

    let result = poll_once(&mut redlock.lock("x").into_future());

    let Poll::Ready(Err(LockError::NoQuorum { votes })) = result else { panic!("{result:?}") };

    let is_down = |r: &&Reason| matches!(r, Reason::NotConnected(_) | Reason::Disconnected);
    // The result does not wait for the third node, and does not report that it timed out.
    assert!(reasons(&votes).iter().filter(is_down).count() >= 2, "{votes}");
    assert!(!reasons(&votes).contains(&Reason::TimedOut), "at the first poll: {votes}");
}

#[tokio::test]
async fn dying_nodes_leave_no_quorum() {
    let mut scene = Scene::new(3);
    let holder = scene.direct(patient().owner("holder")).await;
    let other = scene.direct(patient().owner("other")).await;
    let _lock = holder.lock("x").await.unwrap();
    let result = other.lock("x").await;
    let Err(LockError::Held { owner, .. }) = result else { panic!("{result:?}") };
    assert_eq!(owner.as_deref(), Some("holder"));

    scene.servers.iter_mut().skip(1).for_each(RedisServer::kill);
    eventually_async("two nodes are seen to be down", async || {
        other.health().iter().filter(|node| !node.is_voting()).count() == 2
    })
    .await;
    let result = other.lock("x").await;
    assert!(matches!(result, Err(LockError::NoQuorum { .. })), "one vote is no quorum: {result:?}");
}

#[tokio::test]
async fn resumed_nodes_keep_no_key() {
    let scene = Scene::new(3);
    let redlock = scene.direct(brisk()).await;
    scene.servers.iter().for_each(RedisServer::freeze);

    let result = redlock.lock("x").await;

    let Err(LockError::NoQuorum { votes }) = result else { panic!("{result:?}") };
    assert_eq!(reasons(&votes), vec![Reason::TimedOut; 3]);

    scene.servers.iter().for_each(RedisServer::thaw);
    scene.all_keys_gone().await;
    all_vote(&redlock).await;
    drop(redlock.lock("x").wait(HANG_GUARD).await.unwrap());
}
