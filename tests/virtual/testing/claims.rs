//! Claims of jobs' ticks on nodes that are frozen, stopped or blank.

use std::{sync::Arc, time::Duration};

use tower_redlock::{
    error::Reason,
    node::{Answer, ClaimOp, ClaimsAnswer, Op, PrepareOp, PromisedAnswer, TickClaim, TickRun},
    testing::{ManualClock, Nodes},
};

use crate::durations::MS;
use crate::fixture::{self, DirectNode};

const CLAIM_TIMEOUT: Duration = Duration::from_millis(100);

type Said = Result<Answer, Reason>;

fn prepare(token: u64) -> Op {
    Op::Prepare(PrepareOp::new("job".into(), token, CLAIM_TIMEOUT))
}

fn kept(token: u64) -> TickClaim {
    TickClaim::new(token, TickRun::new(9 * MS, 1, 10 * MS), "blue".into(), None)
}

fn claim(token: u64) -> Op {
    Op::Claim(ClaimOp::new("job".into(), Arc::new(kept(token)), CLAIM_TIMEOUT))
}

#[expect(clippy::unnecessary_wraps, reason = "to be compared with what a node says")]
fn promised(token: Option<u64>) -> Said {
    Ok(Answer::Promised(PromisedAnswer::new(0, token.map(kept).map(Box::new))))
}

/// One node, called directly.
struct Fixture {
    clock: ManualClock,
    nodes: Nodes,
    node: DirectNode,
}

impl Fixture {
    fn new() -> Self {
        let fixture::Fixture { clock, nodes, processes: [redlock] } =
            fixture::Fixture::new(1, ["blue"]);
        Self { clock, nodes, node: DirectNode::new(redlock) }
    }

    fn ask(&self, op: Op) -> Said {
        self.node.send(op);
        self.node.replies().pop().expect("the node answers at once")
    }

    fn kept(&self) -> Option<TickClaim> {
        match self.ask(Op::Claims(["job".into()].into())) {
            Ok(Answer::Claims(ClaimsAnswer { mut claims, .. })) => {
                claims.pop().expect("one answer for one job")
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn frozen_node_runs_timely_claims() {
    let fixture = Fixture::new();
    fixture.nodes.freeze([0]);
    for op in [prepare(5), claim(5), prepare(7), claim(5), claim(7)] {
        fixture.node.send(op);
    }
    fixture.clock.advance(CLAIM_TIMEOUT);
    assert!(fixture.node.replies().is_empty(), "it is silent");
    fixture.nodes.thaw([0]);
    let expected = [
        promised(None),
        Ok(Answer::Claimed),
        promised(Some(5)),
        Err(Reason::Superseded),
        Ok(Answer::Claimed),
    ];
    assert_eq!(fixture.node.replies(), expected);
    assert_eq!(fixture.kept(), Some(kept(7)));
}

#[test]
fn frozen_node_refuses_late_claims() {
    let fixture = Fixture::new();
    assert_eq!(fixture.ask(claim(5)), Ok(Answer::Claimed));
    fixture.nodes.freeze([0]);
    fixture.node.send(prepare(8));
    fixture.node.send(claim(9));
    fixture.node.send(Op::Claims(["job".into()].into()));
    fixture.clock.advance(CLAIM_TIMEOUT + MS);
    fixture.node.send(prepare(6));
    fixture.nodes.thaw([0]);
    let told = Ok(Answer::Claims(ClaimsAnswer::new(0, vec![Some(kept(5))])));
    let expected = [Err(Reason::Late), Err(Reason::Late), told, promised(Some(5))];
    assert_eq!(fixture.node.replies(), expected, "6 is taken: neither 8 nor 9 was promised");
}

#[test]
fn forgetful_node_forgets_claims() {
    let fixture = Fixture::new();
    assert_eq!(fixture.ask(claim(5)), Ok(Answer::Claimed));
    fixture.nodes.stop([0]);
    assert!(matches!(fixture.ask(prepare(6)), Err(Reason::NotConnected(_))));
    fixture.nodes.start([0]);
    assert_eq!(fixture.kept(), Some(kept(5)), "a stopped one keeps them");
    assert_eq!(fixture.ask(prepare(4)), Err(Reason::Superseded));
    fixture.nodes.forget_unguarded([0]);
    assert_eq!(fixture.kept(), None);
    assert_eq!(fixture.ask(prepare(4)), promised(None));
}
