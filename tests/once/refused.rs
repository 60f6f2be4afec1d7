//! Nodes that give locks and keep no records, as full servers do.

use std::{convert::Infallible, sync::Arc};

use futures_util::FutureExt;
use tower_redlock::{
    EmbeddedNodes, LockError, Once, OnceError, OnceRequest, Reason, Redlock, RedlockBuilder,
    Unknown, VoteOutcome,
    node::{Node, Op, RecordOp, Reply},
    once::OnceState,
    testing::{ManualClock, Task},
};

use super::scene::{Ended, HOUR, KEY, Runs, SECOND, Scene, TTL, assert_ran};

/// Keeps no record.
#[derive(Debug)]
struct Full(Arc<dyn Node>);

impl Node for Full {
    fn send(&self, op: Op, reply: Reply) {
        match op {
            Op::Record(_) => reply.send(Err(Reason::OutOfMemory)),
            op => self.0.send(op, reply),
        }
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}

/// Of three nodes two are full.
fn two_are_full(nodes: &EmbeddedNodes) -> Redlock {
    let mut nodes = nodes.nodes("redlock");
    let mut next = || nodes.next().expect("there are three");
    let builder = Redlock::builder().node(Full(next())).node(Full(next()));
    let last = next();
    builder.node(Through(last)).build().unwrap()
}

#[derive(Debug)]
pub(super) struct Through(pub(super) Arc<dyn Node>);

impl Node for Through {
    fn send(&self, op: Op, reply: Reply) {
        self.0.send(op, reply);
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}

/// Keeps that work has begun, and not that it is done.
#[derive(Debug)]
struct Fills(Arc<dyn Node>);

impl Node for Fills {
    fn send(&self, op: Op, reply: Reply) {
        match op {
            Op::Record(RecordOp { record, .. }) if record.is_done => {
                reply.send(Err(Reason::OutOfMemory))
            }
            op => self.0.send(op, reply),
        }
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}

/// Does not say what is recorded.
#[derive(Debug)]
struct Silent(Arc<dyn Node>);

impl Node for Silent {
    fn send(&self, op: Op, reply: Reply) {
        match op {
            Op::ReadRecord(_) => reply.send(Err(Reason::Incomplete)),
            op => self.0.send(op, reply),
        }
    }

    fn name(&self) -> &str {
        self.0.name()
    }
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
    let request = redlock.once(KEY).unknown(Unknown::Hold(HOUR));
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

/// One node keeps that it is done, and says so only when it is to keep that it begins.
#[tokio::test]
async fn late_done_record_prevents_start() {
    let nodes = EmbeddedNodes::new(3);
    let runs = Runs::default();
    let work = async |request: OnceRequest| request.run(|_| async { Ok(runs.run()) }).await;
    let ended: Ended = work(two_are_full(&nodes).once(KEY)).await;
    assert!(matches!(ended, Ok(Once::RanUnrecorded(1, _))), "{ended:?}");

    let voters: Vec<_> = nodes.nodes("redlock").collect();
    let builder = Redlock::builder().node(Through(voters[0].clone()));
    let builder = builder.node(Through(voters[1].clone())).node(Silent(voters[2].clone()));
    let redlock = builder.build().unwrap();
    let ended = work(redlock.once(KEY).unknown(Unknown::Hold(HOUR))).await;
    assert!(matches!(ended, Ok(Once::AlreadyDone { .. })), "{ended:?}");
    assert_eq!(runs.count(), 1);
    // The others were told, and nobody keeps that it has begun.
    let state = redlock.once(KEY).status().await.unwrap().expect("it is done").state;
    assert_eq!(state, OnceState::Done);
}

#[tokio::test]
async fn unreadable_record_prevents_start() {
    let (nodes, runs) = (EmbeddedNodes::new(3), Runs::default());
    for unknown in [Unknown::Release, Unknown::Hold(HOUR)] {
        let silent = |node: Arc<dyn Node>| Silent(node);
        let mut voters = nodes.nodes("redlock");
        let last = Through(voters.next().expect("there are three"));
        let builder = voters.map(silent).fold(Redlock::builder().node(last), RedlockBuilder::node);
        let redlock = builder.build().unwrap();
        let request = redlock.once(KEY).unknown(unknown);
        let ended = request.run(|_| async { Ok::<_, Infallible>(runs.run()) }).await;
        assert!(matches!(ended, Err(OnceError::Lock(LockError::NoQuorum { .. }))), "{ended:?}");
    }
    assert_eq!(runs.count(), 0);
}

/// Its effect is there, and nobody is to run it again before somebody has looked.
#[tokio::test]
async fn unrecorded_held_work_stays_held() {
    let (nodes, runs) = (EmbeddedNodes::new(3), Runs::default());
    let voters = nodes.nodes("redlock").map(Fills);
    let redlock = voters.fold(Redlock::builder(), RedlockBuilder::node).build().unwrap();
    let hold = || redlock.once(KEY).unknown(Unknown::Hold(HOUR));
    let work = async || hold().run(|_| async { Ok::<_, Infallible>(runs.run()) }).await;
    let ended = work().await;
    assert!(matches!(ended, Ok(Once::RanUnrecorded(1, _))), "{ended:?}");
    let ended = work().await;
    assert!(matches!(ended, Ok(Once::InProgress { unknown: true, .. })), "{ended:?}");
}

/// The process is paused for a TTL when the last node has kept that the work is to begin.
#[derive(Debug)]
struct Pauses(Arc<dyn Node>, ManualClock);

impl Node for Pauses {
    fn send(&self, op: Op, reply: Reply) {
        let is_record = matches!(op, Op::Record(_));
        self.0.send(op, reply);
        if is_record {
            self.1.leap(TTL);
        }
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}

#[test]
fn unstarted_work_is_not_held() {
    let scene = Scene::new(3);
    let builder = Redlock::builder().owner("blue").spawner(scene.clock.spawner());
    let nodes = scene.at_blue.nodes();
    let last = Pauses(Arc::clone(&nodes[2]), scene.clock.clone());
    let builder = nodes[..2].iter().fold(builder.clock(scene.clock.clone()), |builder, node| {
        builder.node(Through(Arc::clone(node)))
    });
    let redlock = builder.node(last).build().unwrap();
    let ended = scene.does(redlock.once(KEY).unknown(Unknown::Hold(HOUR)));
    assert!(matches!(ended, Err(OnceError::Lock(LockError::TooSlow { .. }))), "{ended:?}");
    assert_eq!(scene.runs.count(), 0);
    assert_ran(&scene.green_does(), 1);
}

#[test]
fn lost_check_is_not_held() {
    let scene = Scene::new(3);
    let request = scene.at_blue.once(KEY).unknown(Unknown::Hold(HOUR)).max_hold(SECOND);
    let request = request
        .unless(|_| std::future::pending::<Result<bool, Infallible>>())
        .run(|_| async { panic!("it does not begin") });
    let ended: Task<Ended> = scene.clock.spawn(request);
    scene.clock.advance(SECOND);
    let ended = ended.now_or_never().expect("it is dropped at the end of max_hold");
    assert!(matches!(ended, Err(OnceError::Lock(LockError::Lost { .. }))), "{ended:?}");
    assert_ran(&scene.green_does(), 1);
}
