//! The state of one node, as a diagnosis shows it.

use std::time::Duration;

use super::terms::DiagnosisTerms;
use crate::{
    error::{Reason, ServerText},
    node::{NodeHealth, NodeState},
};

/// The state of one node in a [`Diagnosis`](super::Diagnosis).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeDiagnosis {
    /// Its health, after the test vote.
    pub health: NodeHealth,
    /// Whether the node votes: by its health and, if there was a test vote, by an answer within the
    /// node timeout.
    pub votes: bool,
    /// The duration of a test vote, or why there was none. `None` without [test
    /// votes](super::DiagnosisRequest::probe).
    pub test_vote: Option<Result<Duration, Reason>>,
    /// The number of lock keys on the server, or why it is unknown. [`Reason::Unknown`] for nodes
    /// that are not servers. `None` without [counts](super::DiagnosisRequest::count_keys).
    pub lock_keys: Option<Result<u64, Reason>>,
}

impl NodeDiagnosis {
    pub(super) fn new(
        health: NodeHealth,
        lock_keys: Option<Result<u64, Reason>>,
        test_vote: Option<Result<Duration, Reason>>,
        terms: &DiagnosisTerms,
    ) -> Self {
        let in_time = match &test_vote {
            Some(Ok(took)) => *took < terms.node_timeout,
            Some(Err(_)) => false,
            None => true,
        };
        Self { votes: health.is_voting() && in_time, health, test_vote, lock_keys }
    }

    /// Returns a short text with the state, and the reason if the node does not vote: `voting, a
    /// vote takes 1.2ms`.
    pub fn state(&self) -> String {
        let state = match &self.health.state {
            NodeState::Down { reason: Reason::NotConnected(why), .. } => {
                format!("down: {}", ServerText(why))
            }
            NodeState::Down { reason, .. } => format!("down: {reason}"),
            NodeState::Refusing { reason: Reason::OtherLayout { .. }, .. } => {
                "no vote: it belongs to another set of nodes".into()
            }
            NodeState::Refusing { reason, .. } => format!("no vote: {reason}"),
            state => state.to_string(),
        };
        match &self.test_vote {
            Some(Ok(took)) => format!("{state}, a vote takes {}", time(*took)),
            Some(Err(reason)) if self.health.is_voting() => format!("no vote: {reason}"),
            _ => state,
        }
    }
}

/// Formats a time with at most one decimal digit.
fn time(time: Duration) -> String {
    if time.subsec_nanos() == 0 { format!("{time:?}") } else { format!("{time:.1?}") }
}
