//! R6: a node that may have forgotten locks does not vote until every one of them has expired.
//!
//! A node that lost its data, or went back to older data, has no tag, or that of another
//! incarnation. It is enrolled anew, into a probation of `max_ttl` plus drift on the client's own
//! clock. Then it learns from the others what it must not fall behind, and is activated. Each
//! client counts for itself; whichever is first activates for all.

use std::{sync::Arc, time::Duration};

use super::rules;
use crate::time::Timestamp;

/// How a node stands, as last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Not seen, or of no use for others: not connected, a replica, or one server under two names.
    Out,
    /// It belongs to another set of nodes.
    OtherLayout,
    /// It does not vote until its probation is over.
    Probation {
        /// Names this probation, and no other.
        tag: Arc<str>,
        /// The longest TTL of any lock that the node may have forgotten, as far as it knows.
        max_ttl: Duration,
        /// It was taken from another set, which may still grant: it learns from nodes that vote,
        /// and does not start by itself.
        moved: bool,
    },
    /// It votes.
    Active,
}

impl Sight {
    /// Whether it may start by itself, together with others.
    fn starts(&self) -> bool {
        matches!(self, Self::Probation { moved: false, .. })
    }
}

/// What is to be done for a node whose probation is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The node.
    pub node: usize,
    /// Names the probation that was waited out.
    pub tag: Arc<str>,
    /// For how long.
    pub waited: Duration,
    /// What it takes to activate it.
    pub how: How,
}

/// Where an activated node learns what it forgot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// From at least `needed` of these nodes, which vote: each quorum that ever granted a lock has
    /// one of them.
    Learn {
        /// The voting nodes.
        from: Vec<usize>,
        /// How many of them have to answer.
        needed: usize,
    },
    /// So many nodes are in probation that too few others vote: it starts above every token that
    /// can have been granted, and takes what it can get.
    Bootstrap {
        /// The other nodes that can be asked.
        from: Vec<usize>,
    },
}

/// How a step came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The node votes, or is not in this probation any more.
    Done,
    /// A node knows of a longer TTL: so long has to be waited.
    Longer(Duration),
    /// A node did not answer.
    Failed,
}

/// The probations of a set of nodes, as one client counts them.
#[derive(Debug)]
pub struct Enrolment {
    quorum: usize,
    max_ttl: Duration,
    drift_factor: f64,
    nodes: Box<[Entry]>,
}

#[derive(Clone, Debug)]
struct Entry {
    sight: Sight,
    /// Kept while the node is out of sight: its probation goes on.
    wait: Option<Wait>,
    busy: bool,
    retry_at: Timestamp,
}

#[derive(Clone, Debug)]
struct Wait {
    tag: Arc<str>,
    since: Timestamp,
    max_ttl: Duration,
    /// It started by itself together with others, which may vote by now.
    bootstrapped: bool,
}

const RETRY: Duration = Duration::from_millis(200);

impl Enrolment {
    /// For `nodes` nodes, and locks of at most `max_ttl`.
    pub fn new(nodes: usize, max_ttl: Duration, drift_factor: f64) -> Self {
        let entry = Entry { sight: Sight::Out, wait: None, busy: false, retry_at: Timestamp::ZERO };
        let nodes = vec![entry; nodes].into_boxed_slice();
        Self { quorum: rules::quorum(nodes.len()), max_ttl, drift_factor, nodes }
    }

    /// Takes how a node stands; `now` is when its answer came, not when it was asked.
    pub fn see(&mut self, node: usize, sight: Sight, now: Timestamp) {
        let entry = &mut self.nodes[node];
        match &sight {
            Sight::Probation { tag, max_ttl, .. } => {
                let max_ttl = self.max_ttl.max(*max_ttl);
                match &mut entry.wait {
                    Some(wait) if wait.tag == *tag => wait.max_ttl = wait.max_ttl.max(max_ttl),
                    _ => {
                        let tag = Arc::clone(tag);
                        entry.wait = Some(Wait { tag, since: now, max_ttl, bootstrapped: false });
                    }
                }
            }
            Sight::Active | Sight::OtherLayout => entry.wait = None,
            Sight::Out => {}
        }
        entry.sight = sight;
    }

    /// What is to be done now; each step is followed by [`ended`](Self::ended).
    pub fn due(&mut self, now: Timestamp) -> Vec<Step> {
        let mut steps = Vec::new();
        for node in 0..self.nodes.len() {
            let Some(at) = self.due_at(node) else { continue };
            if now < at {
                continue;
            }
            let Some(how) = self.how(node) else { continue };
            let entry = &mut self.nodes[node];
            let Some(wait) = &mut entry.wait else { continue };
            wait.bootstrapped |= matches!(how, How::Bootstrap { .. });
            steps.push(Step {
                node,
                tag: Arc::clone(&wait.tag),
                waited: now.since(wait.since),
                how,
            });
            entry.busy = true;
        }
        steps
    }

    /// When [`due`](Self::due) has something to give, unless a node is seen otherwise before.
    pub fn next_wake(&self) -> Option<Timestamp> {
        (0..self.nodes.len())
            .filter(|&node| self.how(node).is_some())
            .filter_map(|node| self.due_at(node))
            .min()
    }

    /// A step is over.
    pub fn ended(&mut self, node: usize, outcome: Outcome, now: Timestamp) {
        let entry = &mut self.nodes[node];
        entry.busy = false;
        match outcome {
            Outcome::Done => {}
            Outcome::Longer(max_ttl) => {
                if let Some(wait) = &mut entry.wait {
                    wait.max_ttl = wait.max_ttl.max(max_ttl);
                }
                entry.retry_at = now;
            }
            Outcome::Failed => entry.retry_at = now + RETRY,
        }
    }

    /// For how long a node in probation does not vote yet; zero where only others are waited for.
    pub fn remaining(&self, node: usize, now: Timestamp) -> Duration {
        let wait = self.nodes[node].wait.as_ref();
        wait.map_or(Duration::ZERO, |wait| self.end(wait).since(now))
    }

    /// How many nodes vote.
    pub fn active(&self) -> usize {
        self.nodes.iter().filter(|entry| entry.sight == Sight::Active).count()
    }

    fn due_at(&self, node: usize) -> Option<Timestamp> {
        let entry = &self.nodes[node];
        if entry.busy || !matches!(entry.sight, Sight::Probation { .. }) {
            return None;
        }
        let wait = entry.wait.as_ref()?;
        let together = match self.how(node)? {
            How::Bootstrap { .. } if !wait.bootstrapped => self.quorum_end()?,
            _ => Timestamp::ZERO,
        };
        Some(self.end(wait).max(together).max(entry.retry_at))
    }

    /// When the probations of a quorum are over. Those that start by themselves do so together:
    /// one that voted before the others were due would not be in probation any more, and so leave
    /// too few for them to start and too few to learn from.
    fn quorum_end(&self) -> Option<Timestamp> {
        let in_probation = |entry: &&Entry| entry.sight.starts();
        let waits = self.nodes.iter().filter(in_probation).filter_map(|entry| entry.wait.as_ref());
        let mut ends: Vec<_> = waits.map(|wait| self.end(wait)).collect();
        ends.sort_unstable();
        ends.get(self.quorum - 1).copied()
    }

    fn end(&self, wait: &Wait) -> Timestamp {
        wait.since + wait.max_ttl + rules::drift(wait.max_ttl, self.drift_factor)
    }

    fn how(&self, node: usize) -> Option<How> {
        let others = |wanted: fn(&Sight) -> bool| -> Vec<usize> {
            let of = |&(other, entry): &(usize, &Entry)| other != node && wanted(&entry.sight);
            self.nodes.iter().enumerate().filter(of).map(|(other, _)| other).collect()
        };
        let active = others(|sight| *sight == Sight::Active);
        let needed = self.nodes.len() - self.quorum + 1;
        if active.len() >= needed {
            return Some(How::Learn { from: active, needed });
        }
        // An old set may still be granting there: only `adopt` ends that.
        if self.nodes.iter().any(|entry| entry.sight == Sight::OtherLayout) {
            return None;
        }
        let begun = self.nodes[node].wait.as_ref().is_some_and(|wait| wait.bootstrapped);
        let in_probation = self.nodes.iter().filter(|entry| entry.sight.starts()).count();
        if !self.nodes[node].sight.starts() || (!begun && in_probation < self.quorum) {
            return None;
        }
        let from = others(|sight| matches!(sight, Sight::Active | Sight::Probation { .. }));
        Some(How::Bootstrap { from })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn at(ms: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(ms)
    }

    fn probation(tag: &str) -> Sight {
        Sight::Probation { tag: tag.into(), max_ttl: Duration::ZERO, moved: false }
    }

    fn enrolment(sights: &[Sight]) -> Enrolment {
        let mut enrolment = Enrolment::new(sights.len(), TTL, 0.01);
        for (node, sight) in sights.iter().enumerate() {
            enrolment.see(node, sight.clone(), at(0));
        }
        enrolment
    }

    /// `max_ttl` plus 1 % and 2 ms.
    const END: u64 = 10_102;

    #[test]
    fn a_node_is_activated_after_max_ttl_and_learns_from_enough_others() {
        let mut set = enrolment(&[probation("a"), Sight::Active, Sight::Active]);
        assert_eq!(set.next_wake(), Some(at(END)));
        assert_eq!(set.due(at(END - 1)), []);
        let steps = set.due(at(END));
        assert_eq!(steps[0].how, How::Learn { from: vec![1, 2], needed: 2 });
        assert_eq!(set.due(at(END)), [], "it is under way");
    }

    #[test]
    fn with_too_few_others_it_waits_for_them() {
        let mut set = enrolment(&[probation("a"), Sight::Active, Sight::Out]);
        assert_eq!(set.due(at(60_000)), []);
        assert_eq!(set.next_wake(), None);
        set.see(2, Sight::Active, at(60_000));
        assert_eq!(set.due(at(60_000)).len(), 1);
    }

    #[test]
    fn a_set_that_is_new_as_a_whole_starts_by_itself() {
        let mut set = enrolment(&[probation("a"), probation("b"), Sight::Out]);
        let steps = set.due(at(END));
        assert_eq!(steps.len(), 2);
        assert_eq!(steps[0].how, How::Bootstrap { from: vec![1] });
        let mut one = enrolment(&[probation("a")]);
        assert_eq!(one.due(at(END)).len(), 1, "a single node always does");
    }

    #[test]
    fn nodes_that_start_by_themselves_start_together() {
        let mut set = enrolment(&[probation("a"), Sight::Out, Sight::Out]);
        set.see(1, probation("b"), at(60_000));
        assert_eq!(set.due(at(60_000 + END - 1)), []);
        assert_eq!(set.next_wake(), Some(at(60_000 + END)));
        assert_eq!(set.due(at(60_000 + END)).len(), 2);
        // One of them votes before the other one's activation, which failed, is tried again.
        set.ended(0, Outcome::Done, at(60_000 + END));
        set.see(0, Sight::Active, at(60_000 + END));
        set.ended(1, Outcome::Failed, at(60_000 + END));
        let steps = set.due(at(60_200 + END));
        assert_eq!(steps[0].how, How::Bootstrap { from: vec![0] });
    }

    #[test]
    fn no_set_starts_by_itself_while_a_node_of_it_belongs_to_another() {
        let blank = |n| vec![probation("x"); n];
        let mut set = enrolment(&[blank(4), vec![Sight::OtherLayout; 3]].concat());
        assert_eq!(set.due(at(60_000)), []);
    }

    #[test]
    fn a_node_that_was_moved_from_a_set_that_may_still_grant_only_learns() {
        let moved = Sight::Probation { tag: "m".into(), max_ttl: Duration::ZERO, moved: true };
        let mut set = enrolment(&[moved, probation("a"), Sight::Out]);
        assert_eq!(set.due(at(60_000)), []);
        set.see(1, Sight::Active, at(60_000));
        set.see(2, Sight::Active, at(60_000));
        let steps = set.due(at(60_000));
        assert_eq!(steps[0].how, How::Learn { from: vec![1, 2], needed: 2 });
    }

    #[test]
    fn another_probation_is_waited_out_anew() {
        let mut set = enrolment(&[probation("a"), Sight::Active, Sight::Active]);
        set.see(0, probation("b"), at(9_000));
        assert_eq!(set.next_wake(), Some(at(9_000 + END)));
    }

    #[test]
    fn a_probation_goes_on_while_the_node_is_out_of_sight() {
        let mut set = enrolment(&[probation("a"), Sight::Active, Sight::Active]);
        set.see(0, Sight::Out, at(1_000));
        assert_eq!(set.due(at(60_000)), []);
        set.see(0, probation("a"), at(60_000));
        assert_eq!(set.due(at(60_000)).len(), 1);
    }

    #[test]
    fn a_longer_ttl_is_waited_for_and_what_failed_is_tried_again() {
        let mut set = enrolment(&[probation("a"), Sight::Active, Sight::Active]);
        assert_eq!(set.due(at(END)).len(), 1);
        set.ended(0, Outcome::Longer(Duration::from_secs(20)), at(END));
        assert_eq!(set.next_wake(), Some(at(20_202)));
        assert_eq!(set.due(at(20_202)).len(), 1);
        set.ended(0, Outcome::Failed, at(20_202));
        assert_eq!(set.next_wake(), Some(at(20_402)));
    }
}
