//! The diagnosis of a set of nodes: their states, the advice and the verdict.

use std::{fmt, sync::Arc};

use super::{
    NodeDiagnosis,
    advice::{Advice, Severity},
    node_advice, set_advice,
    terms::DiagnosisTerms,
};
use crate::{node::NodeState, protocol::formulas};

/// The state of all nodes, with advice. Returned by [`Redlock::diagnosis`](crate::Redlock::diagnosis).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnosis {
    /// Each node, in the order of [`Redlock::nodes`](crate::Redlock::nodes).
    pub nodes: Vec<NodeDiagnosis>,
    /// The advice: problems first, then hints, each in the order of their codes and nodes.
    pub advice: Vec<Advice>,
    /// The diagnosis of each set, if there are several.
    sets: Vec<Self>,
}

/// Returns the nodes of each set.
fn by_set<'a>(
    mut nodes: &'a [NodeDiagnosis],
    sets: &'a [usize],
) -> impl Iterator<Item = &'a [NodeDiagnosis]> {
    sets.iter().filter_map(move |count| {
        let (set, others) = nodes.split_at_checked(*count)?;
        nodes = others;
        Some(set)
    })
}

/// Returns the advice on a set.
fn advise(nodes: &[NodeDiagnosis], terms: &DiagnosisTerms) -> Vec<Advice> {
    let mut advice = Vec::new();
    for node in nodes {
        let of_node = node_advice::advise(node, terms).into_iter();
        let name = &node.health.name;
        advice.extend(of_node.map(|one| Advice { node: Some(Arc::clone(name)), ..one }));
    }
    advice.extend(set_advice::advise(nodes, terms));
    advice
}

impl Diagnosis {
    pub(super) fn new(nodes: Vec<NodeDiagnosis>, terms: &DiagnosisTerms) -> Self {
        if terms.sets.len() < 2 {
            let advice = advise(&nodes, terms);
            return Self::with(nodes, advice, Vec::new());
        }
        let of_set =
            |nodes: &[NodeDiagnosis]| Self::with(nodes.to_vec(), advise(nodes, terms), Vec::new());
        let sets: Vec<_> = by_set(&nodes, &terms.sets).map(of_set).collect();
        let advice = sets.iter().flat_map(|set| set.advice.iter().cloned()).collect();
        Self::with(nodes, advice, sets)
    }

    /// Sorts the advice: problems first.
    fn with(nodes: Vec<NodeDiagnosis>, mut advice: Vec<Advice>, sets: Vec<Self>) -> Self {
        advice.sort_by_key(|advice| (advice.severity != Severity::Problem, advice.code));
        Self { nodes, advice, sets }
    }

    /// Returns the diagnosis of each [set](crate::Redlock::sharded), in the order of
    /// [`Redlock::sets`](crate::Redlock::sets); this one alone if there is one set. Nodes of two sets may have
    /// the same name.
    pub fn sets(&self) -> &[Self] {
        if self.sets.is_empty() { std::slice::from_ref(self) } else { &self.sets }
    }

    /// Returns for each set its nodes that vote, its nodes, and the votes that a lock needs.
    fn votes(&self) -> impl Iterator<Item = (usize, &[NodeDiagnosis], usize)> {
        self.sets().iter().map(|set| (set.voting(), &*set.nodes, formulas::quorum(set.nodes.len())))
    }

    /// Returns the number of nodes that [vote](NodeDiagnosis::votes).
    pub fn voting(&self) -> usize {
        self.nodes.iter().filter(|node| node.votes).count()
    }

    /// Returns the number of votes that a lock needs; of several [sets](crate::Redlock::sharded), the number
    /// that a lock in each of them needs together.
    pub fn quorum(&self) -> usize {
        self.votes().map(|(_, _, quorum)| quorum).sum()
    }

    /// Returns the verdict; of several sets the worst one.
    pub fn verdict(&self) -> Verdict {
        if self.votes().any(|(voting, _, quorum)| voting < quorum) {
            Verdict::NoQuorum
        } else if self.advice.iter().any(|advice| advice.severity == Severity::Problem) {
            Verdict::Degraded
        } else {
            Verdict::Healthy
        }
    }

    /// Returns the verdict in one sentence, without a full stop.
    pub fn summary(&self) -> String {
        let of_set = |(set, (voting, nodes, quorum)): (usize, (usize, &[NodeDiagnosis], usize))| {
            let of_set = if self.sets.len() > 1 { format!(" of set {set}") } else { String::new() };
            format!("{voting} of {} nodes{of_set} vote, {quorum} are needed", nodes.len())
        };
        let vote = (1..).zip(self.votes()).map(of_set).collect::<Vec<_>>().join("; ");
        match self.verdict() {
            Verdict::Healthy => format!("locks work; {vote}"),
            Verdict::Degraded => {
                let mut votes = self.votes();
                let has_spare =
                    votes.all(|(voting, nodes, quorum)| voting > quorum || voting == nodes.len());
                let spare = if has_spare { "" } else { ", and no further one may fail" };
                format!("locks work, but something needs attention; {vote}{spare}")
            }
            Verdict::NoQuorum => {
                let in_probation = |node: &&NodeDiagnosis| {
                    matches!(node.health.state, NodeState::Probation { .. })
                };
                let waiting = |nodes: &[NodeDiagnosis]| nodes.iter().filter(in_probation).count();
                let mut votes = self.votes();
                let heals =
                    if votes.all(|(voting, nodes, quorum)| voting + waiting(nodes) >= quorum) {
                        "; waiting is enough: the probations end by themselves while a client runs"
                    } else {
                        ""
                    };
                let which =
                    if self.sets.len() > 1 { "no locks in a set of nodes" } else { "no locks" };
                format!("{which} at present; {vote}{heals}")
            }
        }
    }
}

/// Whether locks work. [`Display`](fmt::Display) is `healthy`, `degraded` or `no quorum`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "config", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Verdict {
    /// Locks work, and nothing needs attention.
    Healthy,
    /// Locks work, and there is at least one [problem](Severity::Problem).
    Degraded,
    /// Fewer than a quorum of nodes vote: no locks at present.
    NoQuorum,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::NoQuorum => "no quorum",
        })
    }
}
