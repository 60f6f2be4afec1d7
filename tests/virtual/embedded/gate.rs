//! Errors of an attempt that asks the lead node first.

use std::{future::IntoFuture, task::Poll, time::Duration};

use tokio::time::timeout;
use tower_redlock::{Lock, LockError, Redlock, error::Reason};

use crate::{
    embedded::handoff::fixture::{granted, poll, waiting},
    embedded::nodes::shared,
    support::{
        HANG_GUARD,
        hand_clock::HandClock,
        mock_node::{MockNode, with_nodes},
        scene as support,
    },
};

/// Five nodes, as a manager sees them: another client has the key of the first, the second is free,
/// and the others can't be reached. The votes are split, and the next attempt asks only the first
/// node.
struct Fixture {
    clock: HandClock,
    redlock: Redlock,
    _strangers: (Redlock, Lock),
}

impl Fixture {
    fn new() -> Self {
        let fixture = support::Scene::by_hand(2);
        let builder = || fixture.clock.builder();
        let mut nodes = shared(&fixture.nodes);
        let stranger = builder().node(nodes[0].clone()).owner("stranger").build().unwrap();
        let lock = granted(&mut stranger.lock("x").into_future());
        let down = |_| Err(Reason::NotConnected("down".into()));
        nodes.extend(["n3", "n4", "n5"].map(|name| MockNode::answering(name, down)));
        let redlock = with_nodes(builder(), nodes).build().unwrap();
        Self { clock: fixture.clock, redlock, _strangers: (stranger, lock) }
    }

    /// Waits until the pause before the next attempt is over.
    fn pause(&self) {
        // Pauses grow while no quorum answers, up to a second.
        self.clock.advance(Duration::from_secs(1));
    }
}

#[tokio::test]
async fn answer_of_one_node_is_not_decisive() {
    let fixture = Fixture::new();
    let mut waiting = waiting(fixture.redlock.lock("x").wait(HANG_GUARD));
    for _ in 0..4 {
        let told = poll(&mut fixture.redlock.lock("x").into_future());
        assert!(matches!(told, Poll::Ready(Err(LockError::NoQuorum { .. }))), "{told:?}");
        fixture.pause();
        assert!(poll(&mut waiting).is_pending());
    }
    fixture.clock.advance(HANG_GUARD);
    let told = timeout(HANG_GUARD, waiting).await.expect("the wait is over");
    let Err(LockError::WaitTimedOut { last, .. }) = told else { panic!("{told:?}") };
    assert!(matches!(*last, LockError::NoQuorum { .. }), "{last:?}");
}

#[tokio::test]
async fn last_try_needs_more_than_one() {
    let fixture = Fixture::new();
    let waiting = waiting(fixture.redlock.lock("x").wait(HANG_GUARD).max_attempts(2));
    fixture.pause();
    let told = timeout(HANG_GUARD, waiting).await.expect("the last try is over");
    assert!(matches!(told, Err(LockError::NoQuorum { .. })), "{told:?}");
}
