//! Nodes that give locks and keep no records, as full servers do.

use std::{convert::Infallible, sync::Arc};

use tower_redlock::{
    EmbeddedNodes, LockError, Once, OnceError, Reason, Redlock, Unknown, VoteOutcome,
    node::{Node, Op, Reply},
};

use super::scene::{HOUR, KEY, Runs};

/// Keeps no record.
#[derive(Debug)]
struct Full(Arc<dyn Node>);

impl Node for Full {
    fn send(&self, op: Op, reply: Reply) {
        match op {
            Op::Record { .. } => reply.send(Err(Reason::OutOfMemory)),
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
struct Through(Arc<dyn Node>);

impl Node for Through {
    fn send(&self, op: Op, reply: Reply) {
        self.0.send(op, reply);
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
async fn work_that_may_not_be_unknown_does_not_begin_where_too_few_nodes_keep_that_it_does() {
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
async fn work_that_can_not_be_recorded_says_so() {
    let nodes = EmbeddedNodes::new(3);
    let (redlock, runs) = (two_are_full(&nodes), Runs::default());
    let ended = redlock.once(KEY).run(|_| async { Ok::<_, Infallible>(runs.run()) }).await;
    let Ok(Once::RanUnrecorded(1, error)) = ended else { panic!("{ended:?}") };
    assert_full(&error);
}
