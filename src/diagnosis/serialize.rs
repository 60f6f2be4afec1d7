//! Serialization of a diagnosis.

use std::{sync::Arc, time::Duration};

use serde::{Serialize, Serializer};

use super::{Advice, Diagnosis, NodeDiagnosis, Verdict};
use crate::node::NodeState;

#[derive(Serialize)]
struct DiagnosisFields<'a> {
    verdict: Verdict,
    summary: String,
    voting: usize,
    quorum: usize,
    nodes: &'a [NodeDiagnosis],
    advice: &'a [Advice],
    /// The health of each set, if there are several.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    sets: &'a [Diagnosis],
}

impl Serialize for Diagnosis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = DiagnosisFields {
            verdict: self.verdict(),
            summary: self.summary(),
            voting: self.voting(),
            quorum: self.quorum(),
            nodes: &self.nodes,
            advice: &self.advice,
            sets: if self.sets().len() > 1 { self.sets() } else { &[] },
        };
        fields.serialize(serializer)
    }
}

/// `None` is a value that is unknown, or does not apply to the node's state.
#[derive(Serialize)]
struct NodeFields<'a> {
    name: &'a str,
    votes: bool,
    state: &'static str,
    state_text: String,
    probation_ms: Option<u64>,
    role: Option<String>,
    server: Option<String>,
    version: Option<&'a str>,
    findings: Vec<String>,
    run_id: Option<&'a str>,
    incarnation: Option<&'a str>,
    round_trip_micros: Option<u64>,
    vote_micros: Option<u64>,
    clock_ahead_micros: Option<i64>,
    clock_uncertainty_micros: Option<u64>,
    memory_limit: Option<u64>,
    eviction_policy: Option<&'a str>,
    append_only: Option<bool>,
    snapshots: Option<bool>,
    denied: &'a [Arc<str>],
    max_ttl_ms: Option<u64>,
    copied_records: Option<u64>,
    copied_bytes: Option<u64>,
    lock_keys: Option<u64>,
    unacknowledged: usize,
}

impl Serialize for NodeDiagnosis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let health = &self.health;
        let (state, remaining) = match &health.state {
            NodeState::Voting => ("voting", None),
            NodeState::Connecting => ("connecting", None),
            NodeState::Probation { remaining, .. } => ("probation", Some(*remaining)),
            NodeState::Refusing { .. } => ("refusing", None),
            NodeState::Down { .. } => ("down", None),
        };
        let vote = self.test_vote.as_ref().and_then(|vote| vote.as_ref().ok());
        let fields = NodeFields {
            name: &health.name,
            votes: self.votes,
            state,
            state_text: self.state(),
            probation_ms: remaining.map(millis),
            role: health.role().map(|role| role.to_string()),
            server: health.kind.map(|kind| kind.to_string()),
            findings: health.findings.iter().map(ToString::to_string).collect(),
            version: health.version.as_deref(),
            run_id: health.run_id.as_deref(),
            incarnation: health.incarnation.as_deref(),
            round_trip_micros: health.round_trip.map(micros),
            vote_micros: vote.copied().map(micros),
            clock_ahead_micros: health.clock.map(|clock| clock.ahead_micros),
            clock_uncertainty_micros: health.clock.map(|clock| micros(clock.uncertainty)),
            memory_limit: health.memory.as_ref().map(|memory| memory.limit),
            eviction_policy: health.memory.as_ref().map(|memory| &*memory.policy),
            append_only: health.persistence.map(|kept| kept.aof),
            snapshots: health.persistence.and_then(|kept| kept.snapshots),
            denied: &health.denied,
            max_ttl_ms: health.max_ttl.map(millis),
            copied_records: health.copying.map(|copying| copying.records),
            copied_bytes: health.copying.map(|copying| copying.bytes),
            lock_keys: self.lock_keys.as_ref().and_then(|keys| keys.as_ref().ok()).copied(),
            unacknowledged: health.unacknowledged,
        };
        fields.serialize(serializer)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
