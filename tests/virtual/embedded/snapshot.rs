//! The locks and requests of a process at one moment.

use std::time::Duration;

use tower_redlock::{
    Redlock, RedlockBuilder,
    error::Reason,
    lock::WaitingName,
    node::{EmbeddedNodes, Op},
};

use crate::durations::SECOND;
use crate::support::{eventually_async, hand_clock::HandClock, mock_node::MockNode};

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn held_locks_are_in_the_snapshot() {
    let redlock = Redlock::embedded();
    let [b, a] = [redlock.lock("b").await.unwrap(), redlock.lock(["a", "c", "d"]).await.unwrap()];
    let snapshot = redlock.snapshot();
    let found: Vec<_> =
        snapshot.locks.iter().map(|lock| (lock.resource.clone(), lock.token)).collect();
    assert_eq!(found, [&a, &b].map(|lock| (lock.resource().clone(), lock.fencing_token())));
    assert!(snapshot.locks.iter().all(|lock| !lock.remaining.is_zero()));
    assert!(snapshot.waiting.is_empty(), "{snapshot:?}");
    b.release().await.unwrap();
    a.release().await.unwrap();
    eventually_async("nothing is left", async || {
        let snapshot = redlock.snapshot();
        snapshot.locks.is_empty() && snapshot.releasing == 0 && snapshot.unacknowledged == [0; 5]
    })
    .await;
}

#[tokio::test]
async fn waiting_requests_have_ages() {
    let (nodes, clock) = (EmbeddedNodes::new(3), HandClock::new());
    let builder = || Redlock::builder().nodes_from(&nodes).ttl(LONG);
    let other = builder().owner("other").clock(clock.clone()).build().unwrap();
    let ours = builder().clock(clock.clone()).build().unwrap();
    let held = other.lock("x").await.unwrap();
    let request = || tokio::spawn(ours.lock("x").wait(LONG).into_future());
    let requests = async |number| {
        eventually_async("the requests wait", async || {
            let waiting = ours.snapshot().waiting;
            waiting.first().is_some_and(|name| name.requests == number)
        })
        .await;
    };
    let first = request();
    requests(1).await;
    clock.advance(3 * SECOND);
    let second = request();
    requests(2).await;
    clock.advance(2 * SECOND);
    let oldest = |expected| {
        let waiting = ours.snapshot().waiting;
        let [WaitingName { name, oldest, .. }] = &waiting[..] else { panic!("{waiting:?}") };
        assert_eq!((&**name, *oldest), ("x", expected));
    };
    oldest(5 * SECOND);
    assert!(ours.snapshot().locks.is_empty());
    held.release().await.unwrap();
    let lock = first.await.unwrap().unwrap();
    // The second request waits for the first one.
    oldest(2 * SECOND);
    assert_eq!(ours.snapshot().locks[0].token, lock.fencing_token());
    second.abort();
    eventually_async("it has left", async || ours.snapshot().waiting.is_empty()).await;
}

#[tokio::test]
async fn refused_releases_are_counted() {
    let nodes: Vec<_> = EmbeddedNodes::new(3).nodes("redlock").collect();
    let is_release = |op: &Op| matches!(op, Op::Release(_));
    let first = MockNode::refusing(&nodes[0], Reason::Busy, is_release);
    let others = nodes[1..].iter().map(MockNode::forwarding);
    let builder = others.fold(Redlock::builder().node(first), RedlockBuilder::node);
    let redlock = builder.build().unwrap();
    redlock.lock("a").await.unwrap().release().await.unwrap();

    eventually_async("one is repeated", async || {
        let snapshot = redlock.snapshot();
        snapshot.unacknowledged == [1, 0, 0] && snapshot.releasing == 0
    })
    .await;
}
