//! Nodes that grant locks but store no records, as full servers do.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::FutureExt;
use tower_redlock::{
    LockError, Redlock,
    error::{Reason, VoteOutcome},
    node::{EmbeddedNodes, Node, Op, RecordOp},
    once::{Once, OnceError, OnceRequest, OnceState, UnknownOutcome},
    testing::Task,
};

use super::fixture::{Ended, Fixture, HOUR, KEY, Runs, SECOND, TTL, assert_ran};
use crate::support::mock_node::{MockNode, with_nodes};

/// Stores no record.
fn full(node: &Arc<dyn Node>) -> MockNode {
    MockNode::refusing(node, Reason::OutOfMemory, |op| matches!(op, Op::Record(_)))
}

/// Stores that work has started, but not that it is done.
fn filling(node: &Arc<dyn Node>) -> MockNode {
    MockNode::refusing(node, Reason::OutOfMemory, |op| {
        matches!(op, Op::Record(RecordOp { record, .. }) if record.is_done)
            || matches!(op, Op::Repair(_))
    })
}

/// Does not report what is recorded.
fn silent(node: &Arc<dyn Node>) -> MockNode {
    MockNode::refusing(node, Reason::Incomplete, |op| matches!(op, Op::ReadRecord(_)))
}

/// Two of three nodes are full.
fn two_are_full(nodes: &EmbeddedNodes) -> Redlock {
    let nodes: Vec<_> = nodes.nodes("redlock").collect();
    let last = MockNode::forwarding(&nodes[2]);
    with_nodes(Redlock::builder(), [full(&nodes[0]), full(&nodes[1]), last]).build().unwrap()
}

#[track_caller]
fn assert_full(error: &LockError) {
    let LockError::NoQuorum { votes } = error else { panic!("{error}") };
    let full = VoteOutcome::NotCounted(Reason::OutOfMemory);
    assert_eq!(votes.iter().filter(|vote| vote.outcome == full).count(), 2, "{votes}");
}

#[tokio::test]
async fn start_record_needs_a_quorum() {
    let nodes = EmbeddedNodes::new(3);
    let (redlock, runs) = (two_are_full(&nodes), Runs::default());
    let request = redlock.once(KEY).unknown(UnknownOutcome::Hold(HOUR));
    let ended = request.run(|_| async { Ok::<_, Infallible>(runs.run()) }).await;
    let Err(OnceError::Lock(error)) = ended else { panic!("{ended:?}") };
    assert_full(&error);
    assert_eq!(runs.count(), 0);
    // The node that kept it has forgotten it.
    assert_eq!(redlock.once(KEY).forget().await, Ok(false));
}

#[tokio::test]
async fn unrecorded_work_is_reported() {
    let nodes = EmbeddedNodes::new(3);
    let (redlock, runs) = (two_are_full(&nodes), Runs::default());
    let ended = redlock.once(KEY).run(|_| async { Ok::<_, Infallible>(runs.run()) }).await;
    let Ok(Once::RanUnrecorded(1, error)) = ended else { panic!("{ended:?}") };
    assert_full(&error);
}

/// One node has the record of done work, and reports it only in reply to the record of a start.
#[tokio::test]
async fn late_done_record_prevents_start() {
    let nodes = EmbeddedNodes::new(3);
    let runs = Runs::default();
    let work = async |request: OnceRequest| request.run(|_| async { Ok(runs.run()) }).await;
    let ended: Ended = work(two_are_full(&nodes).once(KEY)).await;
    assert!(matches!(ended, Ok(Once::RanUnrecorded(1, _))), "{ended:?}");

    let voters: Vec<_> = nodes.nodes("redlock").collect();
    let [first, second] = [&voters[0], &voters[1]].map(MockNode::forwarding);
    let nodes = [first, second, silent(&voters[2])];
    let redlock = with_nodes(Redlock::builder(), nodes).build().unwrap();
    let ended = work(redlock.once(KEY).unknown(UnknownOutcome::Hold(HOUR))).await;
    assert!(matches!(ended, Ok(Once::AlreadyDone { .. })), "{ended:?}");
    assert_eq!(runs.count(), 1);
    // The other nodes removed the record of the start.
    let state = redlock.once(KEY).status().await.unwrap().expect("it is done").state;
    assert_eq!(state, OnceState::Done);
}

#[tokio::test]
async fn unreadable_record_prevents_start() {
    let (nodes, runs) = (EmbeddedNodes::new(3), Runs::default());
    for unknown in [UnknownOutcome::Release, UnknownOutcome::Hold(HOUR)] {
        let voters: Vec<_> = nodes.nodes("redlock").collect();
        let mocks = [MockNode::forwarding(&voters[0]), silent(&voters[1]), silent(&voters[2])];
        let redlock = with_nodes(Redlock::builder(), mocks).build().unwrap();
        let request = redlock.once(KEY).unknown(unknown);
        let ended = request.run(|_| async { Ok::<_, Infallible>(runs.run()) }).await;
        assert!(matches!(ended, Err(OnceError::Lock(LockError::NoQuorum { .. }))), "{ended:?}");
    }
    assert_eq!(runs.count(), 0);
}

/// The work had its effect, so it must not run again before a person has decided.
#[tokio::test]
async fn unrecorded_held_work_stays_held() {
    let (nodes, runs) = (EmbeddedNodes::new(3), Runs::default());
    let voters = nodes.nodes("redlock").map(|node| filling(&node));
    let redlock = with_nodes(Redlock::builder(), voters).build().unwrap();
    let work = async |redlock: &Redlock| {
        let hold = redlock.once(KEY).unknown(UnknownOutcome::Hold(HOUR));
        hold.run(|_| async { Ok::<_, Infallible>(runs.run()) }).await
    };
    let ended = work(&redlock).await;
    assert!(matches!(ended, Ok(Once::RanUnrecorded(1, _))), "{ended:?}");
    drop(redlock);
    let other = Redlock::builder().nodes_from(&nodes).build().unwrap();
    let ended = work(&other).await;
    assert!(matches!(ended, Ok(Once::InProgress { unknown: true, .. })), "{ended:?}");
}

#[test]
fn unstarted_work_is_not_held() {
    let fixture = Fixture::new(3);
    let builder = Redlock::builder().owner("blue").spawner(fixture.clock.spawner());
    let nodes = fixture.at_blue.nodes();
    // The process pauses for a TTL after the last node has stored that the work begins.
    let clock = fixture.clock.clone();
    let last = MockNode::over(&nodes[2], move |op, reply, inner| {
        let is_record = matches!(op, Op::Record(_));
        inner.send(op, reply);
        if is_record {
            clock.leap(TTL);
        }
    });
    let mocks = [MockNode::forwarding(&nodes[0]), MockNode::forwarding(&nodes[1]), last];
    let redlock = with_nodes(builder.clock(fixture.clock.clone()), mocks).build().unwrap();
    let ended = fixture.does(redlock.once(KEY).unknown(UnknownOutcome::Hold(HOUR)));
    assert!(matches!(ended, Err(OnceError::Lock(LockError::TooSlow { .. }))), "{ended:?}");
    assert_eq!(fixture.runs.count(), 0);
    assert_ran(&fixture.green_does(), 1);
}

#[test]
fn lost_check_is_not_held() {
    let fixture = Fixture::new(3);
    let request = fixture.at_blue.once(KEY).unknown(UnknownOutcome::Hold(HOUR)).max_hold(SECOND);
    let request = request
        .unless(|_| std::future::pending::<Result<bool, Infallible>>())
        .run(|_| async { panic!("it does not begin") });
    let ended: Task<Ended> = fixture.clock.spawn(request);
    fixture.clock.advance(SECOND);
    let ended = ended.now_or_never().expect("it is dropped at the end of max_hold");
    assert!(matches!(ended, Err(OnceError::Lock(LockError::Lost { .. }))), "{ended:?}");
    assert_ran(&fixture.green_does(), 1);
}

/// Also if a quorum stores it before the last node was sent to.
#[tokio::test]
async fn record_is_sent_to_every_node() {
    let sent: [Arc<AtomicUsize>; 3] = Default::default();
    let nodes: Vec<_> = EmbeddedNodes::new(3).nodes("redlock").collect();
    let mocks = [0, 1, 2].map(|i| {
        let sent = Arc::clone(&sent[i]);
        MockNode::over(&nodes[i], move |op, reply, inner| {
            if matches!(op, Op::Record(_)) {
                sent.fetch_add(1, Ordering::SeqCst);
            }
            inner.send(op, reply);
        })
    });
    let redlock = with_nodes(Redlock::builder(), mocks).build().unwrap();
    let ended = redlock.once(KEY).run(|_| async { Ok::<_, Infallible>(1) }).await;
    assert_ran(&ended, 1);
    assert_eq!(sent.map(|sent| sent.load(Ordering::SeqCst)), [1, 1, 1]);
}
