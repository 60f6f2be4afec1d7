//! The votes in the error of a failed attempt.

use std::{
    future::IntoFuture,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tower_redlock::{
    Lock, LockError, Redlock,
    error::{Reason, Vote, VoteOutcome},
    lock::Acquire,
    node::{EmbeddedNodes, NodeState},
    testing::{ManualClock, Nodes},
};

use crate::embedded::nodes::{erring, manager, shared, silent};
use crate::support::mock_node::MockNode;

fn gone() -> Reason {
    Reason::NotConnected("gone".into())
}

/// `items` in every order.
fn orders(items: &[MockNode]) -> Vec<Vec<MockNode>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let starts = items.iter().enumerate().flat_map(|(i, first)| {
        let rest = [&items[..i], &items[i + 1..]].concat();
        orders(&rest).into_iter().map(move |rest| [vec![first.clone()], rest].concat())
    });
    starts.collect()
}

/// Nodes on which `other` holds "a", and additional ones.
async fn held_on(held: usize, further: &[MockNode]) -> (Lock, Vec<MockNode>) {
    let set = EmbeddedNodes::new(held);
    let other = Redlock::builder().nodes_from(&set).owner("other").build().unwrap();
    (other.lock("a").await.unwrap(), [&shared(&set), further].concat())
}

#[tokio::test]
async fn held_quorum_beats_a_down_node() {
    for down in [gone(), Reason::Loading, Reason::OutOfMemory, Reason::TimedOut] {
        let (_lock, nodes) = held_on(2, &[erring(down)]).await;
        assert_held_in_every_order(&nodes).await;
    }
}

#[tokio::test]
async fn three_held_answers_outweigh_two_errors() {
    let (_lock, nodes) = held_on(3, &[erring(gone()), erring(Reason::Loading)]).await;
    assert_held_in_every_order(&nodes).await;
}

/// One node is free, one held and one down: in any order of answers, a quorum answered, and the
/// error is that another client holds the lock.
#[tokio::test]
async fn split_vote_reports_held() {
    let free = EmbeddedNodes::new(1);
    let (_lock, nodes) = held_on(1, &[shared(&free).remove(0), erring(gone())]).await;
    assert_held_in_every_order(&nodes).await;
    assert_eq!(free.key_counts(), [0], "what was granted is given back");
}

async fn assert_held_in_every_order(nodes: &[MockNode]) {
    for order in orders(nodes) {
        let names = format!("{order:?}");
        let said = manager(order).lock("a").await;
        let Err(LockError::Held { owner, expires_in, votes, .. }) = &said else {
            panic!("{said:?}: {names}")
        };
        assert_eq!(owner.as_deref(), Some("other"));
        assert!(expires_in.is_some());
        let held = |vote: &&Vote| matches!(vote.outcome, VoteOutcome::Held { .. });
        let node = &votes.iter().find(held).expect("a node that said so").node;
        let text = said.as_ref().unwrap_err().to_string();
        assert_eq!(votes.len(), nodes.len());
        assert!(text.contains(&format!("held by other on {node}")), "{text}");
    }
}

/// The outcome of the last node, which does not answer, when the other nodes have decided.
async fn not_awaited(state: NodeState) -> VoteOutcome {
    let redlock = manager([erring(Reason::Loading), erring(Reason::Busy), silent(state)]);
    let said = redlock.lock("a").await;
    let Err(LockError::NoQuorum { votes }) = said else { panic!("{said:?}") };
    let outcomes: Vec<_> = votes.iter().map(|vote| vote.outcome.clone()).collect();
    assert_eq!(
        outcomes[..2],
        [Reason::Loading, Reason::Busy].map(VoteOutcome::NotCounted),
        "an answer is told as it was given"
    );
    outcomes[2].clone()
}

#[tokio::test]
async fn unawaited_down_node_is_shown_down() {
    let down = NodeState::Down { reason: gone(), since: Duration::from_secs(3) };
    assert_eq!(not_awaited(down).await, VoteOutcome::NotCounted(gone()));
}

#[tokio::test]
async fn unawaited_live_node_is_shown_unawaited() {
    for state in [NodeState::Voting, NodeState::Connecting] {
        assert_eq!(not_awaited(state).await, VoteOutcome::NotCounted(Reason::NotAwaited));
    }
}

/// The grant arrived in time, but its task was polled too late.
#[test]
fn late_task_learns_the_shorter_limit() {
    let clock = ManualClock::new();
    let redlock = Nodes::new(3, &clock).replica("a").redlock();
    let max_hold = Duration::from_millis(10);
    let mut task = Context::from_waker(Waker::noop());
    let mut poll = |request: &mut Acquire| Pin::new(request).poll(&mut task);
    let Poll::Ready(Ok(lock)) = poll(&mut redlock.lock("x").into_future()) else { panic!() };
    let mut waiting = redlock.lock("x").wait(Duration::MAX).max_hold(max_hold).into_future();
    assert!(poll(&mut waiting).is_pending());
    drop(lock);
    clock.advance(max_hold * 2);
    let Poll::Ready(Err(LockError::TooSlow { elapsed, validity, .. })) = poll(&mut waiting) else {
        panic!("nothing may run")
    };
    assert_eq!((elapsed, validity), (max_hold * 2, max_hold));
}
