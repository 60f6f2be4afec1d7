//! Nodes that count operations and misbehave on demand.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use tower_redlock::{
    Reason,
    node::{
        Answer, ClaimsAnswer, Hints, Node, NodeHealth, Op, PromisedAnswer, Reply, Subscription,
    },
    time::Timestamp,
};

/// What becomes of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Passes,
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

    pub(crate) fn sent_by_kind(&self) -> BTreeMap<&'static str, usize> {
        std::mem::take(&mut *self.sent.lock().unwrap())
    }

    /// From now on, decides what becomes of each operation to a node.
    pub(crate) fn judge(&self, judge: impl FnMut(usize, &Op) -> Fate + Send + 'static) {
        *self.judge.lock().unwrap() = Some(Box::new(judge));
    }

    pub(crate) fn calm(&self) {
        *self.judge.lock().unwrap() = None;
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
    }
}

#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) inner: Arc<dyn Node>,
    pub(crate) number: usize,
    pub(crate) wire: Wire,
    /// The nodes tell their own time; else they have the clock of the replica.
    pub(crate) tells_time: bool,
}

fn kind(op: &Op) -> &'static str {
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

impl Node for Watched {
    fn send(&self, op: Op, reply: Reply) {
        *self.wire.sent.lock().unwrap().entry(kind(&op)).or_default() += 1;
        let judge = &mut *self.wire.judge.lock().unwrap();
        let fate = judge.as_mut().map_or(Fate::Passes, |judge| judge(self.number, &op));
        match fate {
            Fate::Passes => self.inner.send(op, reply),
            Fate::Refused => reply.not_sent(Reason::NotConnected("refused".into())),
            Fate::Floor(floor) => self.inner.send(
                op,
                Reply::from_fn(move |said| reply.send(said.map(|answer| lifted(answer, floor)))),
            ),
            Fate::Unanswered => {
                self.inner.send(op, Reply::from_fn(drop));
                reply.send(Err(Reason::Disconnected));
            }
        }
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn health(&self) -> NodeHealth {
        self.inner.health()
    }

    fn wall(&self, now: Timestamp, wall: Duration) -> Option<Duration> {
        if self.tells_time { self.inner.wall(now, wall) } else { Some(wall) }
    }

    fn has_own_wall(&self) -> bool {
        self.tells_time
    }

    fn subscribe(&self, name: &Arc<str>, hints: Hints) -> Subscription {
        self.inner.subscribe(name, hints)
    }
}
