//! What a person, or a reconciler, can see and decide.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::UNIX_EPOCH,
};

use futures_util::FutureExt;
use tower_redlock::{
    LockError, Redlock, RedlockBuilder,
    node::{Answer, Op},
    once::{Once, OnceState, OnceStatus, UnknownOutcome},
    time::Clock,
};

use super::fixture::{Fixture, HOUR, KEY, TTL, assert_done_by, assert_ran};
use crate::support::mock_node::MockNode;

fn status(fixture: &Fixture) -> Option<OnceStatus> {
    fixture.at_green.once(KEY).status().now_or_never().expect("at once").expect("a quorum")
}

/// Drops work of blue after its start: its outcome is unknown.
fn unknown(fixture: &Fixture) {
    let mut work = fixture.stuck(fixture.at_blue.once(KEY).unknown(UnknownOutcome::Hold(HOUR)));
    fixture.blue.partition(0..3);
    fixture.clock.advance(TTL);
    work.take().expect("it was stopped").unwrap_err();
}

#[test]
fn status_follows_the_key() {
    let fixture = Fixture::new(3);
    assert_eq!(status(&fixture), None);
    let began = UNIX_EPOCH + fixture.clock.wall();
    let _work = fixture.works_for(TTL / 2);
    let seen = status(&fixture).expect("in progress");
    assert_eq!((seen.state, seen.by.as_deref()), (OnceState::InProgress, Some("blue")));
    assert_eq!((seen.since, seen.remaining), (Some(began), Some(TTL)));
    let token = seen.token;
    fixture.clock.advance(TTL / 2);
    let seen = status(&fixture).expect("done");
    assert_eq!((seen.state, seen.by.as_deref()), (OnceState::Done, Some("blue")));
    assert_eq!((seen.since, seen.remaining), (Some(began + TTL / 2), Some(96 * HOUR)));
    assert_eq!(seen.token, token);
}

#[test]
fn inspection_restores_no_record() {
    let fixture = Fixture::new(3);
    assert_ran(&fixture.blue_does(), 1);
    let (nodes, repairs) = (fixture.at_green.nodes(), Arc::<AtomicUsize>::default());
    let of_node = Arc::clone(&repairs);
    let lost = MockNode::over(&nodes[0], move |op, reply, inner| match op {
        Op::ReadRecord(_) => reply.send(Ok(Answer::Recorded(None))),
        Op::Repair(_) => drop(of_node.fetch_add(1, Ordering::Relaxed)),
        other => inner.send(other, reply),
    });
    let builder = Redlock::builder().clock(fixture.clock.clone()).spawner(fixture.clock.spawner());
    let others = nodes[1..].iter().map(MockNode::forwarding);
    let redlock = others.fold(builder.node(lost), RedlockBuilder::node).build().unwrap();

    let inspected = redlock.once(KEY).inspect().now_or_never().expect("at once");
    fixture.clock.settle();
    assert_eq!(inspected.unwrap().map(|found| found.state), Some(OnceState::Done));
    assert_eq!(repairs.load(Ordering::Relaxed), 0);

    let status = redlock.once(KEY).status().now_or_never().expect("at once");
    fixture.clock.settle();
    assert_eq!(status.unwrap().map(|found| found.state), Some(OnceState::Done));
    assert_eq!(repairs.load(Ordering::Relaxed), 1, "the status restores it");
}

#[test]
fn unknown_work_is_marked_done() {
    let fixture = Fixture::new(3);
    unknown(&fixture);
    let seen = status(&fixture).expect("unknown");
    assert_eq!((seen.state, seen.by.as_deref()), (OnceState::Unknown, Some("blue")));
    assert_eq!(seen.remaining, Some(HOUR.saturating_sub(TTL)));
    fixture.at_green.once(KEY).mark_done().now_or_never().expect("at once").unwrap();
    assert_done_by(&fixture.blue_does_after_healing(), "green");
    assert_eq!(fixture.runs.count(), 0);
}

#[test]
fn unknown_work_is_forgotten() {
    let fixture = Fixture::new(3);
    unknown(&fixture);
    let forget = || fixture.at_green.once(KEY).forget().now_or_never().expect("at once");
    assert_eq!(forget(), Ok(true));
    assert_eq!(forget(), Ok(false));
    assert_eq!(status(&fixture), None);
    assert_ran(&fixture.green_does(), 1);
    assert_eq!(forget(), Ok(true), "also what is done");
    assert_ran(&fixture.green_does(), 2);
}

#[test]
fn running_work_refuses_decisions() {
    let fixture = Fixture::new(3);
    let _work = fixture.stuck(fixture.at_blue.once(KEY).unknown(UnknownOutcome::Hold(HOUR)));
    assert_eq!(status(&fixture).expect("it runs").state, OnceState::InProgress);
    let asked = fixture.green_does();
    assert!(matches!(asked, Ok(Once::InProgress { unknown: false, .. })), "{asked:?}");
    let done = fixture.at_green.once(KEY).mark_done().now_or_never().expect("at once");
    assert!(matches!(done, Err(LockError::Held { .. })), "{done:?}");
    let forgotten = fixture.at_green.once(KEY).forget().now_or_never().expect("at once");
    assert!(matches!(forgotten, Err(LockError::Held { .. })), "{forgotten:?}");
}

#[test]
fn forget_needs_every_node() {
    let fixture = Fixture::new(3);
    assert_ran(&fixture.green_does(), 1);
    fixture.nodes.stop([1]);
    let forget = || fixture.at_green.once(KEY).forget().now_or_never().expect("at once");
    assert!(matches!(forget(), Err(LockError::NoQuorum { .. })));
    assert!(matches!(fixture.green_does(), Ok(Once::AlreadyDone { .. })));
    fixture.nodes.start([1]);
    assert_eq!(forget(), Ok(true));
    assert_ran(&fixture.green_does(), 2);
}

#[test]
fn status_needs_a_quorum() {
    let fixture = Fixture::new(3);
    fixture.nodes.stop([0, 1]);
    let status = fixture.at_green.once(KEY).status().now_or_never().expect("at once");
    assert!(matches!(status, Err(LockError::NoQuorum { .. })), "{status:?}");
}

impl Fixture {
    fn blue_does_after_healing(&self) -> super::fixture::Ended {
        self.blue.heal(0..3);
        self.blue_does()
    }
}

#[test]
fn mark_done_refuses_zero_retain() {
    let fixture = Fixture::new(3);
    let request = fixture.at_green.once(KEY).retain(std::time::Duration::ZERO);
    let done = request.mark_done().now_or_never().expect("at once");
    assert!(matches!(done, Err(LockError::InvalidRequest(_))), "{done:?}");
    assert_eq!(fixture.nodes.key_counts(), [0; 3]);
    assert_eq!(status(&fixture), None);
}

/// A key that a failed attempt left on one node does not count as a holder.
#[test]
fn minority_lock_does_not_hide_unknown() {
    let fixture = Fixture::new(3);
    unknown(&fixture);
    let node = fixture.at_green.nodes()[0].clone();
    let builder = Redlock::builder().clock(fixture.clock.clone()).spawner(fixture.clock.spawner());
    let alone = builder.node(MockNode::forwarding(&node)).build().unwrap();
    let name = tower_redlock::Resource::of_once(KEY).unwrap();
    let _left = alone.lock(name).into_future().now_or_never().expect("at once").unwrap();
    assert_eq!(status(&fixture).expect("unknown").state, OnceState::Unknown);
}
