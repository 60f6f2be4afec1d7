//! Contenders that start at the same moment, round after round, until one of them wins: with real
//! leases, and messages that arrive in any order.

use std::time::Duration;

use super::fixture::lease_params;
use crate::{
    protocol::{Answer, GrantedAnswer, HeldAnswer, OpId, ReleasedAnswer},
    quorum::{Action, Event, LeadNode, Lease, LeaseCommand, LeaseParams},
    timestamp::Timestamp,
    vote::Reason,
};

const NOW: Timestamp = Timestamp::from_nanos(1);

struct Race {
    random: u64,
    /// The holder of each node's key.
    nodes: Vec<Option<usize>>,
    down: Option<usize>,
}

impl Race {
    fn below(&mut self, limit: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random % u64::try_from(limit).unwrap()).unwrap()
    }

    fn ask(
        &mut self,
        node: usize,
        who: usize,
        command: LeaseCommand,
    ) -> (OpId, Result<Answer, Reason>) {
        let key = &mut self.nodes[node];
        match command {
            _ if self.down == Some(node) => {
                let op =
                    if command == LeaseCommand::Release { OpId::Release } else { OpId::Acquire };
                (op, Err(Reason::NotConnected("down".into())))
            }
            LeaseCommand::Release => {
                let existed = key.take_if(|holder| *holder == who).is_some();
                (OpId::Release, Ok(Answer::Released(ReleasedAnswer { existed, awaited: false })))
            }
            LeaseCommand::Acquire { .. } => {
                let holder = *key.get_or_insert(who);
                let answer = if holder == who {
                    Answer::Granted(GrantedAnswer { accepted: true, fence: 0 })
                } else {
                    let owner = Some(holder.to_string().into());
                    Answer::Held(HeldAnswer::new(owner, Some(Duration::from_secs(1)), 0))
                };
                (OpId::Acquire, Ok(answer))
            }
            other => panic!("{other:?}"),
        }
    }

    /// All contenders try once. Returns the numbers of winners and of commands.
    fn round(&mut self, contenders: usize, lead_node: Option<usize>) -> (usize, usize) {
        let params = LeaseParams {
            auto_extend: false,
            proposal: None,
            block: 1,
            lead_node: lead_node
                .map(|node| LeadNode { node, max_delay: Duration::from_millis(10) }),
            ..lease_params(self.nodes.len())
        };
        let mut out = Vec::new();
        let mut sent: Vec<(usize, usize, LeaseCommand)> = Vec::new();
        let (mut winners, mut asked) = (0, 0);
        let mut post = |who, out: &mut Vec<Action>, sent: &mut Vec<_>| {
            for action in out.drain(..) {
                match action {
                    Action::Send { node, command } => sent.push((who, node, command)),
                    Action::Acquired { .. } => winners += 1,
                    _ => {}
                }
            }
        };
        let mut leases = Vec::new();
        for who in 0..contenders {
            leases.push(Lease::start(params, NOW, &mut out));
            post(who, &mut out, &mut sent);
        }
        while !sent.is_empty() {
            let any = self.below(sent.len());
            let (who, node, _) = sent[any];
            // Commands of one contender to a node arrive in order.
            let first = sent.iter().position(|(w, n, _)| (*w, *n) == (who, node)).unwrap();
            let (_, _, command) = sent.remove(first);
            asked += 1;
            let (op, result) = self.ask(node, who, command);
            leases[who].handle(Event::Answer { node, op, result, view: None }, NOW, &mut out);
            post(who, &mut out, &mut sent);
        }
        (winners, asked)
    }
}

/// Returns the number of rounds until one contender wins, over many races: the mean and the
/// maximum.
fn rounds(
    contenders: usize,
    nodes: usize,
    lead_node: Option<usize>,
    down: Option<usize>,
) -> (f64, u32) {
    const RACES: u32 = 1_000;
    let (mut sum, mut most) = (0, 0);
    for race in 1..=RACES {
        let mut race = Race {
            random: u64::from(race).wrapping_mul(0x9E37_79B9_7F4A_7C15),
            nodes: vec![None; nodes],
            down,
        };
        let mut rounds = 1;
        loop {
            let (winners, _) = race.round(contenders, lead_node);
            assert!(winners <= 1, "two have it");
            if winners == 1 {
                break;
            }
            assert!(race.nodes.iter().all(Option::is_none), "who lost keeps nothing");
            rounds += 1;
        }
        sum += rounds;
        most = most.max(rounds);
    }
    (f64::from(sum) / f64::from(RACES), most)
}

#[test]
fn lead_node_yields_winner_at_once() {
    for nodes in [3, 4, 5, 9] {
        for contenders in [1, 2, 3, 8, 32] {
            let (_, most) = rounds(contenders, nodes, Some(0), None);
            assert_eq!(most, 1, "{contenders} contenders, {nodes} nodes");
        }
    }
}

#[test]
fn failed_lead_costs_no_rounds() {
    let (behind, _) = rounds(4, 5, Some(0), Some(0));
    let (without, _) = rounds(4, 5, None, Some(0));
    assert!(behind < without * 1.5, "{behind} to {without}");
}

#[test]
fn refused_contender_asked_one_node() {
    let mut race = Race { random: 1, nodes: vec![None; 5], down: None };
    let (winners, asked) = race.round(20, Some(0));
    // Each contender asked the lead node, and the winner asked the other four.
    assert_eq!((winners, asked), (1, 20 + 4));
}
