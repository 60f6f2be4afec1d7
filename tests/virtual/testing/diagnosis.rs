//! Diagnoses of nodes that fail, and the keys of their test votes.

use std::{
    future::IntoFuture,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use tower_redlock::{
    Redlock,
    diagnosis::{Diagnosis, Verdict},
    error::Reason,
    node::{EmbeddedNodes, Node, Op, Reply},
    testing::{ManualClock, Nodes},
};

use crate::durations::{MS, SECOND};
use crate::fixture::Fixture;
use crate::support::mock_node::{MockNode, with_nodes};

fn codes(diagnosis: &Diagnosis) -> Vec<(&str, Option<&str>)> {
    diagnosis.advice.iter().map(|advice| (advice.code, advice.node.as_deref())).collect()
}

/// A manager over three nodes, the last of which `mock` makes.
fn over(clock: &ManualClock, nodes: &Nodes, mock: impl Fn(&Arc<dyn Node>) -> MockNode) -> Redlock {
    let inner = nodes.replica("inner").redlock();
    let [first, second, third] = inner.nodes() else { panic!("three nodes") };
    let mocks = [MockNode::forwarding(first), MockNode::forwarding(second), mock(third)];
    let builder = Redlock::builder().clock(clock.clone()).spawner(clock.spawner());
    with_nodes(builder, mocks).build().unwrap()
}

#[tokio::test]
async fn running_nodes_are_healthy() {
    let Fixture { nodes, processes: [redlock], .. } = Fixture::new(3, ["blue"]);
    let held = redlock.lock("x").await.unwrap();

    let diagnosis = redlock.diagnosis().await;

    assert_eq!(diagnosis.verdict(), Verdict::Healthy);
    assert_eq!(codes(&diagnosis), []);
    assert!(diagnosis.nodes.iter().all(|node| node.test_vote == Some(Ok(Duration::ZERO))));
    assert_eq!(nodes.key_counts(), [1; 3], "the lock's");
    assert!(held.is_valid());
}

#[tokio::test]
async fn embedded_nodes_give_a_hint() {
    let diagnosis = Redlock::embedded().diagnosis().await;
    assert_eq!(codes(&diagnosis), [("embedded", None)]);
    assert_eq!((diagnosis.verdict(), diagnosis.voting()), (Verdict::Healthy, 5));
}

#[tokio::test]
async fn stopped_nodes_are_down() {
    let Fixture { nodes, processes: [redlock], .. } = Fixture::new(3, ["blue"]);
    nodes.stop([0, 2]);
    let diagnosis = redlock.diagnosis().await;
    assert_eq!(codes(&diagnosis), [("down", Some("node-0")), ("down", Some("node-2"))]);
    assert_eq!((diagnosis.verdict(), diagnosis.voting()), (Verdict::NoQuorum, 1));
}

#[tokio::test]
async fn fresh_nodes_are_in_probation() {
    let clock = ManualClock::new();
    let nodes = Nodes::fresh(3, &clock);
    let diagnosis = nodes.replica("blue").redlock().diagnosis().await;
    let of_node = |name| ("probation", Some(name));
    assert_eq!(codes(&diagnosis), ["node-0", "node-1", "node-2"].map(of_node));
    assert!(diagnosis.summary().contains("waiting is enough"), "{}", diagnosis.summary());
}

#[tokio::test]
async fn frozen_node_is_silent() {
    let Fixture { clock, nodes, processes: [redlock] } = Fixture::new(3, ["blue"]);
    nodes.freeze([1]);
    let mut examined = clock.spawn(redlock.diagnosis().into_future());
    clock.advance(2 * SECOND);
    let diagnosis = examined.take().expect("a node has 2 s to answer");
    assert_eq!(codes(&diagnosis), [("silent", Some("node-1"))]);
    assert_eq!((diagnosis.verdict(), diagnosis.voting()), (Verdict::Degraded, 2));
    nodes.thaw([1]);
    assert_eq!(nodes.key_counts(), [0; 3]);
}

#[tokio::test]
async fn dropped_diagnosis_releases_votes() {
    let Fixture { nodes, processes: [redlock], .. } = Fixture::new(3, ["blue"]);
    nodes.freeze([0, 2]);
    assert!(redlock.diagnosis().into_future().now_or_never().is_none(), "it is dropped");
    nodes.thaw([0, 2]);
    assert_eq!(nodes.key_counts(), [0; 3]);
}

#[tokio::test]
async fn lost_release_is_repeated() {
    let Fixture { clock, nodes, .. } = Fixture::new(3, []);
    let releases = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&releases);
    let redlock = over(&clock, &nodes, |inner| {
        let count = Arc::clone(&count);
        MockNode::refusing(inner, Reason::Disconnected, move |op| {
            matches!(op, Op::Release(_)) && count.fetch_add(1, Ordering::SeqCst) == 0
        })
    });
    let diagnosis = redlock.diagnosis().await;
    assert_eq!(codes(&diagnosis), [("silent", Some("node-2"))]);
    assert_eq!((nodes.key_counts(), releases.load(Ordering::SeqCst)), (vec![0, 0, 1], 1));
    clock.advance(SECOND / 2);
    assert_eq!((nodes.key_counts(), releases.load(Ordering::SeqCst)), (vec![0, 0, 0], 2));
}

#[tokio::test]
async fn key_expires_without_release() {
    let Fixture { clock, nodes, .. } = Fixture::new(3, []);
    let redlock = over(&clock, &nodes, |inner| {
        MockNode::refusing(inner, Reason::Disconnected, |op| matches!(op, Op::Release(_)))
    });
    let _ = redlock.diagnosis().await;
    assert_eq!(nodes.key_counts(), [0, 0, 1]);
    clock.advance(SECOND);
    assert_eq!(nodes.key_counts(), [0; 3]);
}

#[tokio::test]
async fn nothing_is_sent_without_probe() {
    let embedded = EmbeddedNodes::new(3);
    let sent = Arc::new(AtomicUsize::new(0));
    let inner = Redlock::builder().nodes_from(&embedded).build().unwrap();
    let observed = inner.nodes().iter().map(|node| {
        let sent = Arc::clone(&sent);
        MockNode::observing(node, move |_| {
            sent.fetch_add(1, Ordering::SeqCst);
        })
    });
    let redlock = with_nodes(Redlock::builder(), observed).build().unwrap();
    let diagnosis = redlock.diagnosis().probe(false).await;
    assert_eq!(sent.load(Ordering::SeqCst), 0);
    assert!(diagnosis.nodes.iter().all(|node| node.votes && node.test_vote.is_none()));
    let _ = redlock.diagnosis().await;
    assert_eq!(sent.load(Ordering::SeqCst), 6, "an acquire and a release to each");
}

/// A node that answers its first acquires after 100 ms.
fn slow(clock: &ManualClock, inner: &Arc<dyn Node>, slow: usize) -> (MockNode, Arc<AtomicUsize>) {
    let (clock, acquires) = (clock.clone(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&acquires);
    let node = MockNode::over(inner, move |op, reply, inner| {
        let is_acquire = matches!(op, Op::Acquire(_));
        if !is_acquire || count.fetch_add(1, Ordering::SeqCst) >= slow {
            return inner.send(op, reply);
        }
        let later = clock.clone();
        let delay = move |answer| {
            drop(later.clone().spawn(async move {
                later.sleep(100 * MS).await;
                reply.send(answer);
            }));
        };
        inner.send(op, Reply::from_fn(delay));
    });
    (node, acquires)
}

/// Examines three nodes, of which the last is slow, and counts its acquires.
fn examine_slow(slow_votes: usize) -> (Diagnosis, usize) {
    let Fixture { clock, nodes, .. } = Fixture::new(3, []);
    let acquires = std::sync::Mutex::new(Arc::default());
    let redlock = over(&clock, &nodes, |inner| {
        let (node, count) = slow(&clock, inner, slow_votes);
        *acquires.lock().unwrap() = count;
        node
    });
    let mut examined = clock.spawn(redlock.diagnosis().into_future());
    clock.advance(SECOND);
    let acquires = acquires.lock().unwrap().load(Ordering::SeqCst);
    (examined.take().expect("the diagnosis ends"), acquires)
}

#[test]
fn slow_vote_is_requested_again() {
    let (diagnosis, acquires) = examine_slow(1);
    assert_eq!((codes(&diagnosis), acquires), (vec![], 2));
    assert_eq!(diagnosis.nodes[2].test_vote, Some(Ok(Duration::ZERO)));
}

#[test]
fn slow_votes_are_reported() {
    let (diagnosis, acquires) = examine_slow(usize::MAX);
    assert_eq!((codes(&diagnosis), acquires), (vec![("slow", Some("node-2"))], 3));
    assert_eq!(diagnosis.nodes[2].test_vote, Some(Ok(100 * MS)));
    assert_eq!(diagnosis.verdict(), Verdict::Degraded);
}
