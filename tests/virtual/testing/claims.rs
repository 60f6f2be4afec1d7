//! Claims of jobs' ticks on nodes that are frozen, stopped or blank.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tower_redlock::{
    Redlock,
    error::Reason,
    node::{
        Answer, ClaimOp, ClaimsAnswer, Op, PrepareOp, PromisedAnswer, Reply, TickClaim, TickRun,
    },
    testing::{ManualClock, Nodes},
};

const MS: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_millis(100);

type Said = Result<Answer, Reason>;

fn prepare(token: u64) -> Op {
    Op::Prepare(PrepareOp::new("job".into(), token, PATIENCE))
}

fn kept(token: u64) -> TickClaim {
    TickClaim::new(token, TickRun::new(9 * MS, 1, 10 * MS), "blue".into(), None)
}

fn claim(token: u64) -> Op {
    Op::Claim(ClaimOp::new("job".into(), Arc::new(kept(token)), PATIENCE))
}

#[expect(clippy::unnecessary_wraps, reason = "to be compared with what a node says")]
fn promised(token: Option<u64>) -> Said {
    Ok(Answer::Promised(PromisedAnswer::new(0, token.map(kept).map(Box::new))))
}

/// One node, called directly.
struct Asked {
    clock: ManualClock,
    nodes: Nodes,
    redlock: Redlock,
    said: Arc<Mutex<Vec<Said>>>,
}

impl Asked {
    fn new() -> Self {
        let clock = ManualClock::new();
        let nodes = Nodes::new(1, &clock);
        let redlock = nodes.replica("blue").redlock();
        Self { clock, nodes, redlock, said: Arc::default() }
    }

    fn send(&self, op: Op) {
        let said = Arc::clone(&self.said);
        let reply = Reply::from_fn(move |result| said.lock().unwrap().push(result));
        self.redlock.nodes()[0].send(op, reply);
    }

    /// Returns the answers since the last call.
    fn said(&self) -> Vec<Said> {
        std::mem::take(&mut *self.said.lock().unwrap())
    }

    fn ask(&self, op: Op) -> Said {
        self.send(op);
        self.said().pop().expect("an answer at once")
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
    let asked = Asked::new();
    asked.nodes.freeze([0]);
    for op in [prepare(5), claim(5), prepare(7), claim(5), claim(7)] {
        asked.send(op);
    }

    asked.clock.advance(PATIENCE);

    assert!(asked.said().is_empty(), "it is silent");

    asked.nodes.thaw([0]);
    let expected = [
        promised(None),
        Ok(Answer::Claimed),
        promised(Some(5)),
        Err(Reason::Superseded),
        Ok(Answer::Claimed),
    ];

    assert_eq!(asked.said(), expected);
    assert_eq!(asked.kept(), Some(kept(7)));
}

#[test]
fn frozen_node_refuses_late_claims() {
    let asked = Asked::new();

    assert_eq!(asked.ask(claim(5)), Ok(Answer::Claimed));

    asked.nodes.freeze([0]);
    asked.send(prepare(8));
    asked.send(claim(9));
    asked.send(Op::Claims(["job".into()].into()));
    asked.clock.advance(PATIENCE + MS);
    asked.send(prepare(6));
    asked.nodes.thaw([0]);
    let told = Ok(Answer::Claims(ClaimsAnswer::new(0, vec![Some(kept(5))])));
    let expected = [Err(Reason::Late), Err(Reason::Late), told, promised(Some(5))];

    assert_eq!(asked.said(), expected, "6 is taken: neither 8 nor 9 was promised");
}

#[test]
fn forgetful_node_forgets_claims() {
    let asked = Asked::new();

    assert_eq!(asked.ask(claim(5)), Ok(Answer::Claimed));

    asked.nodes.stop([0]);
    assert!(matches!(asked.ask(prepare(6)), Err(Reason::NotConnected(_))));

    asked.nodes.start([0]);
    assert_eq!(asked.kept(), Some(kept(5)), "a stopped one keeps them");
    assert_eq!(asked.ask(prepare(4)), Err(Reason::Superseded));

    asked.nodes.forget_unguarded([0]);
    assert_eq!(asked.kept(), None);
    assert_eq!(asked.ask(prepare(4)), promised(None));
}
