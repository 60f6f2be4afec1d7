//! Diagnoses of nodes that are made by hand.

mod codes;
mod reports;
#[cfg(feature = "config")]
mod serialized;
mod verdicts;

use std::{sync::Arc, time::Duration};

use super::{Diagnosis, NodeDiagnosis, terms::DiagnosisTerms};
use crate::{
    error::Reason,
    node::{NodeHealth, NodeState},
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// The inputs of a diagnosis.
struct Findings {
    health: Vec<NodeHealth>,
    votes: Vec<Option<Result<Duration, Reason>>>,
    keys: Result<u64, Reason>,
    terms: DiagnosisTerms,
}

impl Findings {
    /// Nodes that vote and have no findings.
    fn healthy(nodes: usize) -> Self {
        let names = (0..nodes).map(|i| format!("node-{i}"));
        let terms = DiagnosisTerms {
            prefix: "redlock".into(),
            max_ttl: 10 * SECOND,
            node_timeout: 50 * MS,
            restart_guard: true,
            is_embedded: false,
            sets: vec![nodes],
            owed: Vec::new(),
        };
        Self {
            health: names.map(|name| NodeHealth::voting(&name)).collect(),
            votes: vec![Some(Ok(MS)); nodes],
            keys: Ok(0),
            terms,
        }
    }

    fn diagnosis(&self) -> Diagnosis {
        let nodes = self.health.iter().zip(&self.votes).map(|(health, vote)| {
            NodeDiagnosis::new(health.clone(), Some(self.keys.clone()), vote.clone(), &self.terms)
        });
        Diagnosis::new(nodes.collect(), &self.terms)
    }

    fn down(&mut self, node: usize, reason: Reason) {
        self.health[node].state = NodeState::Down { reason, since: SECOND };
        self.votes[node] = Some(Err(Reason::NotConnected("refused".into())));
    }

    fn refusing(&mut self, node: usize, reason: Reason) {
        self.health[node].state = NodeState::Refusing { reason, since: SECOND };
    }
}

fn text(text: &str) -> Arc<str> {
    text.into()
}
