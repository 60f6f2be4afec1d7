//! Nodes that are stopped, cut off or blank.

use std::{future::IntoFuture, time::Duration};

use tower_redlock::{
    LockError, Redlock,
    error::{LossCause, Reason, VoteOutcome, Votes},
    node::NodeState,
    testing::{ManualClock, Nodes},
};

use crate::durations::SECOND;
use crate::fixture::Fixture;

const TTL: Duration = Duration::from_secs(10);

fn reasons(votes: &Votes) -> Vec<Option<Reason>> {
    let reason = |outcome: &VoteOutcome| match outcome {
        VoteOutcome::NotCounted(reason) => Some(reason.clone()),
        _ => None,
    };
    votes.iter().map(|vote| reason(&vote.outcome)).collect()
}

fn states(redlock: &Redlock) -> Vec<NodeState> {
    redlock.health().into_iter().map(|health| health.state).collect()
}

fn down(why: &str, since: Duration) -> NodeState {
    NodeState::Down { reason: Reason::NotConnected(why.into()), since }
}

#[tokio::test]
async fn stopped_majority_is_named_in_error() {
    let Fixture { clock, nodes, processes: [redlock] } = Fixture::new(5, ["blue"]);
    nodes.stop([0, 4]);
    clock.advance(SECOND);
    drop(redlock.lock("x").await.unwrap());
    nodes.stop([2]);
    let stopped = Some(Reason::NotConnected("stopped".into()));
    let Err(LockError::NoQuorum { votes }) = redlock.lock("x").await else { panic!() };
    let names: Vec<_> = votes.iter().map(|vote| &*vote.node).collect();
    assert_eq!(names, ["node-0", "node-1", "node-2", "node-3", "node-4"]);
    for node in [0, 2, 4] {
        assert_eq!(reasons(&votes)[node], stopped);
    }
    assert_eq!(nodes.key_counts(), [0; 5], "the others were released again");
    let voting = NodeState::Voting;
    let gone = |since| down("stopped", since);
    let expected =
        [gone(SECOND), voting.clone(), gone(Duration::ZERO), voting.clone(), gone(SECOND)];
    assert_eq!(states(&redlock), expected);
    nodes.start([0, 1]);
    assert_eq!(states(&redlock)[0], voting);
    drop(redlock.lock("x").await.unwrap());
}

#[tokio::test]
async fn stopped_node_keeps_keys_and_ttls() {
    let Fixture { clock, nodes, processes: [blue, green] } = Fixture::new(3, ["blue", "green"]);
    let lock = blue.lock("x").auto_extend(false).await.unwrap();
    nodes.stop(0..3);
    drop(lock);
    clock.advance(Duration::from_millis(10));
    nodes.start(0..3);
    assert_eq!(nodes.key_counts(), [1; 3], "the release did not arrive");
    assert!(matches!(green.lock("x").await, Err(LockError::Held { .. })));
    clock.advance(SECOND);
    assert_eq!(nodes.key_counts(), [0; 3], "it is repeated");
    let lock = blue.lock("x").auto_extend(false).await.unwrap();
    nodes.stop(0..3);
    clock.advance(TTL);
    assert!(!lock.is_valid());
    nodes.start(0..3);
    assert_eq!(nodes.key_counts(), [0; 3]);
    drop(green.lock("x").await.unwrap());
}

#[tokio::test]
async fn partition_cuts_off_one_replica() {
    let Fixture { clock, nodes, .. } = Fixture::new(5, []);
    let (blue, green) = (nodes.replica("blue"), nodes.replica("green"));
    let (at_blue, at_green) = (blue.redlock(), green.redlock());
    let lock = at_blue.lock("x").await.unwrap();
    blue.partition(0..3);
    clock.advance(SECOND);
    let cut_off = down("partitioned", SECOND);
    assert_eq!(states(&at_blue)[..3], [cut_off.clone(), cut_off.clone(), cut_off]);
    assert!(states(&at_green).iter().all(|state| *state == NodeState::Voting));
    let Err(LockError::NoQuorum { votes }) = at_blue.lock("y").await else { panic!() };
    assert_eq!(reasons(&votes)[0], Some(Reason::NotConnected("partitioned".into())));
    drop(at_green.lock("y").await.unwrap());
    let mut lost = clock.spawn(lock.lost());
    clock.advance(TTL);
    let Some(LossCause::Expired { votes }) = lost.take() else { panic!("it was not lost") };
    assert_eq!(reasons(&votes)[2], Some(Reason::NotConnected("partitioned".into())));
    drop(at_green.lock("x").await.unwrap());
    blue.heal(0..3);
    assert!(states(&at_blue).iter().all(|state| *state == NodeState::Voting));
    drop(at_blue.lock("x").await.unwrap());
}

#[tokio::test]
async fn unguarded_blank_majority_grants_twice() {
    let Fixture { nodes, processes: [blue, green], .. } = Fixture::new(5, ["blue", "green"]);
    let first = blue.lock("x").await.unwrap();
    nodes.forget_unguarded([0, 1]);
    assert_eq!(nodes.key_counts(), [0, 0, 1, 1, 1]);
    assert!(matches!(green.lock("x").await, Err(LockError::Held { .. })));
    nodes.forget_unguarded([2]);
    let second = green.lock("x").await.unwrap();
    assert!(first.is_valid() && second.is_valid());
}

#[tokio::test]
async fn shutdown_ends_after_releases() {
    let Fixture { clock, nodes, processes: [redlock] } = Fixture::new(3, ["blue"]);
    let lock = redlock.lock("x").await.unwrap();
    nodes.freeze([0, 1]);
    drop(lock);
    let closing = redlock.clone();
    let mut closed = clock.spawn(async move { closing.shutdown().await });
    clock.advance(Duration::from_millis(900));
    assert!(!closed.is_finished(), "two nodes may still answer");
    // The operations are abandoned after a second, and the nodes are not waited for while they are
    // down.
    clock.advance(Duration::from_millis(200));
    assert_eq!(closed.take(), Some(()));
    assert!(redlock.lock("x").into_future().await.is_err());
}

#[test]
#[should_panic(expected = "index out of bounds")]
fn unknown_node_panics() {
    Nodes::new(5, &ManualClock::new()).stop([5]);
}
