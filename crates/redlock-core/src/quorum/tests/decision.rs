//! Every attempt ends, in time, and its verdict does not depend on the order of the answers.

use std::time::Duration;

use proptest::{collection::vec, option, prelude::*};

use super::{
    fixture::{TIMEOUT, lease_params},
    node::{op_id, reasons},
    safety::config,
};
use crate::{
    protocol::{Answer, GrantedAnswer, HeldAnswer, OpId, RaisedAnswer, formulas},
    quorum::{Action, Event, Lease, LeaseCommand, Refusal},
    timestamp::Timestamp,
    vote::Reason,
};

type Said = Result<Answer, Reason>;

fn reason() -> impl Strategy<Value = Said> {
    (0..reasons().len()).prop_map(|kind| Err(reasons()[kind].clone()))
}

fn vote() -> impl Strategy<Value = Said> {
    let granted = |(accepted, fence)| Ok(Answer::Granted(GrantedAnswer { accepted, fence }));
    let held = |left: Option<u64>| {
        let remaining = left.map(Duration::from_millis);
        Ok(Answer::Held(HeldAnswer::new(None, remaining, 9_000)))
    };
    prop_oneof![
        3 => (any::<bool>(), 0_u64..10_000).prop_map(granted),
        2 => option::of(0_u64..1_000).prop_map(held),
        1 => reason(),
    ]
}

fn raised() -> impl Strategy<Value = Said> {
    let answer = |(accepted, fence)| Ok(Answer::Raised(RaisedAnswer { accepted, fence }));
    prop_oneof![3 => (any::<bool>(), 0_u64..100_000).prop_map(answer), 1 => reason()]
}

/// Generates the answers of each node: its vote, and its answers to three raises; or none.
fn nodes() -> impl Strategy<Value = Vec<(Option<Said>, [Option<Said>; 3])>> {
    let raises = prop::array::uniform3(option::weighted(0.7, raised()));
    vec((option::weighted(0.8, vote()), raises), 1..=9)
}

/// A lease, and its decisions and commands so far.
struct AttemptRun {
    lease: Lease,
    now: Timestamp,
    out: Vec<Action>,
    seen: usize,
}

impl AttemptRun {
    fn start(nodes: usize) -> Self {
        let mut out = Vec::new();
        let now = Timestamp::from_nanos(1);
        Self { lease: Lease::start(lease_params(nodes), now, &mut out), now, out, seen: 0 }
    }

    fn answer(&mut self, node: usize, op: OpId, result: Said) {
        self.lease.handle(Event::Answer { node, op, result, view: None }, self.now, &mut self.out);
    }

    /// Returns the commands that were sent since the last call.
    fn sent(&mut self) -> Vec<(usize, LeaseCommand)> {
        let new = self.out[self.seen..].iter().filter_map(|action| match *action {
            Action::Send { node, command } => Some((node, command)),
            _ => None,
        });
        let new = new.collect();
        self.seen = self.out.len();
        new
    }

    fn decisions(&self) -> Vec<&Action> {
        let is_decision =
            |action: &&Action| matches!(action, Action::Acquired { .. } | Action::Refused(_));
        self.out.iter().filter(is_decision).collect()
    }

    fn wake(&mut self) {
        let at = self.lease.next_wake().expect("nothing would ever end this");
        assert!(at > self.now, "wakes without end");
        self.now = at;
        self.lease.handle(Event::Wake, self.now, &mut self.out);
    }

    fn kind(&self) -> &'static str {
        let decisions = self.decisions();
        assert_eq!(decisions.len(), 1, "decided once");
        match decisions[0] {
            Action::Acquired { .. } => "acquired",
            Action::Refused(Refusal::Held { .. }) => "held",
            Action::Refused(Refusal::NoQuorum { .. }) => "no quorum",
            other => panic!("{other:?}"),
        }
    }
}

proptest! {
    #![proptest_config(config())]

    /// One node timeout for the votes and one for each of three raises, for any answers and losses.
    #[test]
    fn attempts_end_within_four_node_timeouts(nodes in nodes(), slow in any::<bool>()) {
        let mut run = AttemptRun::start(nodes.len());
        let started = run.now;

        for _ in 0..4 {
            if !run.decisions().is_empty() {
                break;
            }
            // A slow answer comes at the last moment before the time is up.
            if let (true, Some(at)) = (slow, run.lease.next_wake()) {
                run.now = at.saturating_sub(Duration::from_nanos(1));
            }
            loop {
                let sent = run.sent();
                if sent.is_empty() {
                    break;
                }
                for (node, command) in sent {
                    let said = match command {
                        LeaseCommand::Acquire { .. } => &nodes[node].0,
                        LeaseCommand::Raise { round, .. } => &nodes[node].1[usize::from(round) - 1],
                        LeaseCommand::Extend { .. } | LeaseCommand::Release => &None,
                    };
                    if let Some(said) = said {
                        run.answer(node, op_id(command), said.clone());
                    }
                }
            }
            if run.decisions().is_empty() {
                run.wake();
            }
        }
        prop_assert_eq!(run.decisions().len(), 1);
        prop_assert!(run.now <= started + TIMEOUT * 4);
        if let Some(verdict) = run.out.iter().position(|a| matches!(a, Action::Refused(_))) {
            for (node, (said, _)) in nodes.iter().enumerate() {
                let has_refused = matches!(said, Some(Ok(Answer::Held(_))));
                let release = Action::Send { node, command: LeaseCommand::Release };
                let is_sent = run.out[..verdict].contains(&release);
                prop_assert!(is_sent || has_refused, "no release to {}", node);
            }
        }
    }

    /// R3: the verdict depends on the answers, not on their order. All raises are accepted here.
    #[test]
    fn verdict_is_independent_of_order(
        (votes, order) in vec(option::weighted(0.9, vote()), 1..=9).prop_flat_map(|votes| {
            let order = Just((0..votes.len()).collect::<Vec<_>>()).prop_shuffle();
            (Just(votes), order)
        }),
    ) {
        let mut run = AttemptRun::start(votes.len());

        for &node in &order {
            if let Some(said) = &votes[node] {
                run.answer(node, OpId::Acquire, said.clone());
            }
        }
        for (node, command) in run.sent() {
            if let LeaseCommand::Raise { .. } = command {
                let said = Ok(Answer::Raised(RaisedAnswer { accepted: true, fence: 0 }));
                run.answer(node, op_id(command), said);
            }
        }
        while run.decisions().is_empty() {
            run.wake();
        }

        let count = |what: fn(&Answer) -> bool| {
            votes.iter().flatten().filter(|said| said.as_ref().is_ok_and(what)).count()
        };
        let granted = count(|answer| matches!(answer, Answer::Granted(_)));
        let held = count(|answer| matches!(answer, Answer::Held(_)));
        let quorum = formulas::quorum(votes.len());
        let expected = if granted >= quorum {
            "acquired"
        } else if held > 0 && granted + held >= quorum {
            "held"
        } else {
            "no quorum"
        };
        prop_assert_eq!(run.kind(), expected, "in the order {:?}", order);
    }
}
