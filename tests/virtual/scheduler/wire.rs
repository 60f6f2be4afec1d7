//! Nodes that count operations and misbehave on demand.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tower_redlock::{
    error::Reason,
    node::{Answer, ClaimOp, ClaimsAnswer, Node, Op, PrepareOp, PromisedAnswer, Reply},
    testing::ManualClock,
};

use crate::support::mock_node::MockNode;

/// What becomes of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Passes,
    /// It takes this time to the node, and the answer as long back.
    Late(Duration),
    /// It does not reach the node.
    Refused,
    /// The node runs it, and its answer is lost.
    Unanswered,
    /// The node says that, up to a moment, it lost what it knew of jobs.
    Floor(u64),
}

type Judge = Box<dyn FnMut(usize, &Op) -> Fate + Send>;

/// What a replica sends.
#[derive(Clone, Default)]
pub(crate) struct Wire {
    sent: Arc<Mutex<BTreeMap<&'static str, usize>>>,
    judge: Arc<Mutex<Option<Judge>>>,
}

impl Wire {
    /// Number of operations sent to all nodes since the last call.
    pub(crate) fn sent(&self) -> usize {
        self.sent_by_kind().values().sum()
    }

    /// Without what concerns documents of jobs.
    pub(crate) fn sent_by_kind(&self) -> BTreeMap<&'static str, usize> {
        let mut sent = self.all_sent();
        sent.retain(|kind, _| !DOCUMENTS.contains(kind));
        sent
    }

    pub(crate) fn all_sent(&self) -> BTreeMap<&'static str, usize> {
        std::mem::take(&mut *self.sent.lock().unwrap())
    }

    /// From now on, decides what becomes of each operation to a node.
    pub(crate) fn judge(&self, judge: impl FnMut(usize, &Op) -> Fate + Send + 'static) {
        *self.judge.lock().unwrap() = Some(Box::new(judge));
    }

    /// From now on, the operations that `selects` selects have this fate.
    pub(crate) fn apply(&self, fate: Fate, selects: impl Fn(usize, &Op) -> bool + Send + 'static) {
        self.judge(move |node, op| if selects(node, op) { fate } else { Fate::Passes });
    }

    pub(crate) fn calm(&self) {
        *self.judge.lock().unwrap() = None;
    }

    /// A node that counts its operations and does with them what the judge decides.
    pub(crate) fn node(
        &self,
        inner: &Arc<dyn Node>,
        number: usize,
        clock: &ManualClock,
    ) -> MockNode {
        let (wire, clock, node) = (self.clone(), clock.clone(), Arc::clone(inner));
        MockNode::over(inner, move |op, reply, inner| {
            *wire.sent.lock().unwrap().entry(kind(&op)).or_default() += 1;
            let mut judge = wire.judge.lock().unwrap();
            let fate = judge.as_mut().map_or(Fate::Passes, |judge| judge(number, &op));
            drop(judge);
            match fate {
                Fate::Passes => inner.send(op, reply),
                Fate::Late(by) => send_late(&clock, by, Arc::clone(&node), op, reply),
                Fate::Refused => reply.not_sent(Reason::NotConnected("refused".into())),
                Fate::Floor(floor) => inner.send(
                    op,
                    Reply::from_fn(move |said| reply.send(said.map(|it| lifted(it, floor)))),
                ),
                Fate::Unanswered => {
                    inner.send(op, Reply::from_fn(drop));
                    reply.send(Err(Reason::Disconnected));
                }
            }
        })
    }
}

fn send_late(clock: &ManualClock, by: Duration, node: Arc<dyn Node>, op: Op, reply: Reply) {
    let (there, returns) = (clock.sleep(by), clock.clone());
    let answered = Reply::from_fn(move |answer| {
        let back = returns.sleep(by);
        drop(returns.spawn(async move {
            back.await;
            reply.send(answer);
        }));
    });
    drop(clock.spawn(async move {
        there.await;
        node.send(op, answered);
    }));
}

const DOCUMENTS: [&str; 3] = ["control", "history", "leader"];

fn kind(op: &Op) -> &'static str {
    let name = match op {
        Op::Prepare(PrepareOp { job, .. }) | Op::Claim(ClaimOp { job, .. }) => Some(job),
        Op::Claims(jobs) => jobs.first(),
        _ => None,
    };
    let name = name.and_then(|name| name.strip_prefix('\u{1}'));
    if let Some(document) = name.and_then(|name| name.split(':').next()) {
        return DOCUMENTS.into_iter().find(|known| *known == document).unwrap();
    }
    match op {
        Op::Acquire(_) => "acquire",
        Op::Raise(_) => "raise",
        Op::Extend(_) => "extend",
        Op::Release(_) => "release",
        Op::Prepare(_) => "prepare",
        Op::Claim(_) => "claim",
        Op::Claims(_) => "claims",
        _ => "other",
    }
}

fn lifted(answer: Answer, floor: u64) -> Answer {
    match answer {
        Answer::Promised(PromisedAnswer { claim, .. }) => {
            Answer::Promised(PromisedAnswer::new(floor, claim))
        }
        Answer::Claims(ClaimsAnswer { claims, .. }) => {
            Answer::Claims(ClaimsAnswer::new(floor, claims))
        }
        other => other,
    }
}
