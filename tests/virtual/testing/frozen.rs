//! Nodes that accept operations and answer none.

use std::{future::IntoFuture, sync::Arc, time::Duration};

use tower_redlock::{
    LockError,
    error::{Reason, VoteOutcome},
    node::{AcquireOp, Answer, ExtendOp, ExtendedAnswer, LeaseId, NodeState, Nonce, Op},
    testing::ManualClock,
    time::Clock,
};

use crate::durations::{MS, SECOND};
use crate::fixture::{DirectNode, Fixture};

const NODE_TIMEOUT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn frozen_majority_costs_node_timeout() {
    let Fixture { clock, nodes, processes: [redlock] } = Fixture::new(5, ["blue"]);
    nodes.freeze([1, 3]);
    let lock = redlock.lock("x").await.unwrap();
    assert_eq!(nodes.key_counts(), [1, 0, 1, 0, 1]);
    drop(lock);
    nodes.freeze([0]);
    let mut asked = clock.spawn(redlock.lock("y").into_future());
    clock.advance(NODE_TIMEOUT.saturating_sub(MS));
    assert!(!asked.is_finished());
    clock.advance(MS);
    let Some(Err(LockError::NoQuorum { votes })) = asked.take() else { panic!() };
    for node in [0, 1, 3] {
        assert_eq!(votes[node].outcome, VoteOutcome::NotCounted(Reason::TimedOut));
    }
    let health = redlock.health();
    let down = NodeState::Down { reason: Reason::TimedOut, since: NODE_TIMEOUT };
    assert_eq!((&health[0].state, health[0].in_flight), (&down, 2), "the request and its release");
    assert_eq!((&health[2].state, health[2].in_flight), (&NodeState::Voting, 0));
}

#[tokio::test]
async fn thawed_node_runs_queue_in_order() {
    let Fixture { clock, nodes, processes: [redlock] } = Fixture::new(3, ["blue"]);
    nodes.freeze([2]);
    let lock = redlock.lock("x").await.unwrap();
    assert_eq!(nodes.key_counts(), [1, 1, 0]);
    clock.advance(2 * NODE_TIMEOUT);
    nodes.thaw([2]);
    assert_eq!(nodes.key_counts(), [1, 1, 1], "before its expiry");
    assert!(redlock.health()[2].is_voting());
    nodes.freeze([2]);
    drop(lock);
    let second = redlock.lock("x").await.unwrap();
    nodes.thaw([2]);
    assert_eq!(nodes.key_counts(), [1, 1, 1], "the release, then the next grant");
    drop(second);
    assert_eq!(nodes.key_counts(), [0, 0, 0]);
}

fn lease(clock: &ManualClock) -> Arc<LeaseId> {
    let resource = "x".try_into().unwrap();
    Arc::new(LeaseId::new(resource, Nonce::from_bytes([7; 16]), "test".into(), clock.wall()))
}

fn extend(lease: &Arc<LeaseId>, clock: &ManualClock) -> Op {
    let (lease, ttl) = (Arc::clone(lease), 3 * SECOND);
    Op::Extend(ExtendOp::new(lease, ttl, clock.now() + ttl, 2 * NODE_TIMEOUT))
}

fn acquire(lease: &Arc<LeaseId>, clock: &ManualClock) -> Op {
    let (lease, ttl, expires) = (Arc::clone(lease), 3 * SECOND, clock.now() + 3 * SECOND);
    Op::Acquire(AcquireOp::new(lease, ttl, expires))
}

/// Its keys expire as if the node had run it at once.
#[test]
fn late_grant_ends_in_time() {
    let Fixture { clock, nodes, processes: [redlock] } = Fixture::new(1, ["blue"]);
    let asked = DirectNode::new(redlock);
    let lease = lease(&clock);

    // The connection has ended by then; operations that were sent still run.
    for (waited, stored) in [(2 * SECOND, 1), (3 * SECOND, 0)] {
        nodes.freeze([0]);
        asked.send(acquire(&lease, &clock));
        clock.advance(waited);
        nodes.thaw([0]);
        assert_eq!(nodes.key_counts(), [stored], "after {waited:?}");
        clock.advance((3 * SECOND + MS).saturating_sub(waited));
        assert_eq!(nodes.key_counts(), [0]);
    }
}

#[test]
fn late_renewal_stores_no_key() {
    let Fixture { clock, nodes, processes: [redlock] } = Fixture::new(1, ["blue"]);
    let asked = DirectNode::new(redlock);
    let lease = lease(&clock);
    asked.send(acquire(&lease, &clock));
    assert!(matches!(asked.replies()[..], [Ok(Answer::Granted(_))]));
    nodes.freeze([0]);
    asked.send(extend(&lease, &clock));
    clock.advance(SECOND.saturating_sub(MS));
    assert!(asked.replies().is_empty(), "it is silent");
    nodes.thaw([0]);
    assert_eq!(asked.replies(), [Ok(Answer::Extended(ExtendedAnswer::UNAWAITED))]);
    clock.advance(2 * SECOND + 2 * MS);
    assert_eq!(nodes.key_counts(), [1], "for its TTL from then on");
    nodes.freeze([0]);
    asked.send(extend(&lease, &clock));
    nodes.forget_unguarded([0]);
    clock.advance(2 * NODE_TIMEOUT);
    nodes.thaw([0]);
    assert_eq!(asked.replies(), [Ok(Answer::Extended(ExtendedAnswer::UNAWAITED))]);
    assert_eq!(nodes.key_counts(), [1], "stored again within its deadline");
    nodes.freeze([0]);
    asked.send(extend(&lease, &clock));
    nodes.forget_unguarded([0]);
    clock.advance(2 * NODE_TIMEOUT + MS);
    nodes.thaw([0]);
    assert_eq!(asked.replies(), [Err(Reason::Late)]);
    assert_eq!(nodes.key_counts(), [0]);
}

#[test]
fn abandoned_operation_still_runs() {
    let Fixture { clock, nodes, processes: [redlock] } = Fixture::new(1, ["blue"]);
    let asked = DirectNode::new(redlock);
    let lease = lease(&clock);
    asked.send(acquire(&lease, &clock));
    asked.replies();
    nodes.freeze([0]);
    asked.send(Op::Release(lease));
    clock.advance(SECOND.saturating_sub(MS));
    assert!(asked.replies().is_empty());
    clock.advance(MS);
    assert_eq!(asked.replies(), [Err(Reason::Disconnected)]);
    assert_eq!(asked.redlock.health()[0].in_flight, 0);
    assert_eq!(nodes.key_counts(), [1]);
    nodes.thaw([0]);
    assert_eq!(nodes.key_counts(), [0]);
    assert!(asked.replies().is_empty(), "answered once");
}

#[test]
fn partition_drops_answers_keeps_operations() {
    let Fixture { clock, nodes, .. } = Fixture::new(1, []);
    let blue = nodes.replica("blue");
    let asked = DirectNode::new(blue.redlock());
    let other = DirectNode::new(nodes.replica("green").redlock());
    nodes.freeze([0]);
    asked.send(acquire(&lease(&clock), &clock));
    other.send(Op::Inspect(["x".into()].into()));
    blue.partition([0]);
    assert_eq!(asked.replies(), [Err(Reason::Disconnected)]);
    assert!(other.replies().is_empty(), "the other one still waits");
    nodes.thaw([0]);
    assert_eq!(nodes.key_counts(), [1]);
    assert!(
        matches!(&other.replies()[..], [Ok(Answer::Inspected(found))] if found[0].is_some()),
        "behind it"
    );
    asked.send(Op::Inspect(["x".into()].into()));
    assert_eq!(asked.replies(), [Err(Reason::NotConnected("partitioned".into()))]);
}

#[test]
fn stop_drops_queued_operations() {
    let Fixture { clock, nodes, processes: [redlock] } = Fixture::new(1, ["blue"]);
    let asked = DirectNode::new(redlock);
    nodes.freeze([0]);
    nodes.start([0]);
    asked.send(acquire(&lease(&clock), &clock));
    assert!(asked.replies().is_empty(), "a frozen one can't be started");
    nodes.stop([0]);
    assert_eq!(asked.replies(), [Err(Reason::Disconnected)]);
    nodes.freeze([0]);
    nodes.thaw([0]);
    asked.send(acquire(&lease(&clock), &clock));
    assert_eq!(asked.replies(), [Err(Reason::NotConnected("stopped".into()))]);
    nodes.start([0]);
    assert_eq!(nodes.key_counts(), [0]);
}
