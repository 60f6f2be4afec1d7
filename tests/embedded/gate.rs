//! What is told of a try that asks one node first.

use std::{future::IntoFuture, task::Poll, time::Duration};

use tokio::time::timeout;
use tower_redlock::{EmbeddedNodes, Lock, LockError, Reason, Redlock, RedlockBuilder};

use crate::{
    handoff::scene::{granted, poll, waiting},
    support::{HANG_GUARD, hand_clock::HandClock, mock_node::MockNode},
};

/// Five nodes as a manager sees them: a stranger has the key of the first, the second is free, and
/// the others can't be reached. The votes are split, and the next try asks the first node alone.
struct Scene {
    clock: HandClock,
    redlock: Redlock,
    _strangers: (Redlock, Lock),
}

impl Scene {
    fn new() -> Self {
        let clock = HandClock::new();
        let nodes = EmbeddedNodes::with_clock(5, clock.clone());
        let lender = Redlock::builder().nodes_from(&nodes).build().unwrap();
        let node = |i: usize| match lender.nodes().get(i).filter(|_| i < 2) {
            Some(node) => MockNode::forwarding(node).named(format!("n{i}")),
            None => {
                MockNode::answering(format!("n{i}"), |_| Err(Reason::NotConnected("down".into())))
            }
        };
        let builder = || Redlock::builder().clock(clock.clone());
        let stranger = builder().node(node(0)).owner("stranger").build().unwrap();
        let lock = granted(&mut stranger.lock("x").into_future());
        let redlock = (0..5).map(node).fold(builder(), RedlockBuilder::node).build().unwrap();
        Self { clock, redlock, _strangers: (stranger, lock) }
    }

    /// A try is due behind every pause.
    fn pause(&self) {
        // Pauses grow while no quorum answers, up to a second.
        self.clock.advance(Duration::from_secs(1));
    }
}

#[tokio::test]
async fn what_one_node_says_of_the_holder_is_not_told_as_the_verdict() {
    let scene = Scene::new();
    let mut waiting = waiting(scene.redlock.lock("x").wait(HANG_GUARD));
    for _ in 0..4 {
        let told = poll(&mut scene.redlock.lock("x").into_future());
        assert!(matches!(told, Poll::Ready(Err(LockError::NoQuorum { .. }))), "{told:?}");
        scene.pause();
        assert!(poll(&mut waiting).is_pending());
    }
    scene.clock.advance(HANG_GUARD);
    let told = timeout(HANG_GUARD, waiting).await.expect("the wait is over");
    let Err(LockError::WaitTimedOut { last, .. }) = told else { panic!("{told:?}") };
    assert!(matches!(*last, LockError::NoQuorum { .. }), "{last:?}");
}

#[tokio::test]
async fn the_last_of_several_tries_does_not_fail_by_the_word_of_one_node() {
    let scene = Scene::new();
    let waiting = waiting(scene.redlock.lock("x").wait(HANG_GUARD).max_attempts(2));
    scene.pause();
    let told = timeout(HANG_GUARD, waiting).await.expect("the last try is over");
    assert!(matches!(told, Err(LockError::NoQuorum { .. })), "{told:?}");
}
