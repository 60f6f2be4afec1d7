//! The report as JSON.

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use serde_json::{Value, json};
use tower_redlock::{
    LockError,
    error::{VoteOutcome, Votes},
    lock::Holder,
    node::NodeState,
};

use crate::{
    examine::Seen,
    text,
    verdict::{Finding, Report},
};

pub(crate) fn report(report: &Report) -> Value {
    json!({
        "verdict": report.verdict.name(),
        "exit_code": report.verdict.code(),
        "summary": report.summary(),
        "voting": report.voting(),
        "quorum": report.quorum(),
        "prefix": report.settings.prefix,
        "embedded": report.settings.embedded,
        "nodes": report.seen.iter().map(|seen| node(seen, report)).collect::<Vec<_>>(),
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

fn node(seen: &Seen, report: &Report) -> Value {
    let health = &seen.health;
    let (state, remaining) = match &health.state {
        NodeState::Voting => ("voting", None),
        NodeState::Connecting => ("connecting", None),
        NodeState::Probation { remaining, .. } => ("probation", Some(*remaining)),
        NodeState::Refusing { .. } => ("refusing", None),
        NodeState::Down { .. } => ("down", None),
        _ => ("unknown", None),
    };
    json!({
        "name": &*health.name,
        "votes": seen.votes(&report.settings),
        "state": state,
        "state_text": text::state(seen),
        "probation_ms": remaining.map(millis),
        "role": health.role().map(|role| role.to_string()),
        "version": health.version.as_deref(),
        "run_id": health.run_id.as_deref(),
        "incarnation": health.incarnation.as_deref(),
        "round_trip_micros": health.round_trip.map(micros),
        "vote_micros": seen.vote.as_ref().and_then(|vote| vote.as_ref().ok()).copied().map(micros),
        "clock_ahead_micros": health.clock.map(|clock| clock.ahead_micros),
        "clock_uncertainty_micros": health.clock.map(|clock| micros(clock.uncertainty)),
        "memory_limit": health.memory.as_ref().map(|memory| memory.limit),
        "eviction_policy": health.memory.as_ref().map(|memory| &*memory.policy),
        "append_only": health.persistence.map(|kept| kept.aof),
        "snapshots": health.persistence.and_then(|kept| kept.snapshots),
        "denied": health.denied.iter().map(|rule| &**rule).collect::<Vec<_>>(),
        "max_ttl_ms": health.max_ttl.map(millis),
        "copied_records": health.copying.map(|copying| copying.records),
        "copied_bytes": health.copying.map(|copying| copying.bytes),
        "lock_keys": seen.keys.as_ref().ok(),
        "pending_releases": health.pending_releases,
    })
}

fn finding(finding: &Finding) -> Value {
    json!({
        "severity": finding.severity.name(),
        "code": finding.code,
        "node": finding.node.as_deref(),
        "what": finding.what,
        "do": finding.todo,
    })
}

/// The holder of a name, or that the name is free.
pub(crate) fn holder(name: &str, holder: Option<&Holder>) -> Value {
    let Some(holder) = holder else {
        return json!({ "resource": name, "held": false, "holder": null });
    };
    json!({
        "resource": name,
        "held": holder.is_quorum,
        "holder": {
            "owner": holder.owner.as_deref(),
            "since_unix_ms": holder
                .since
                .and_then(|since| since.duration_since(UNIX_EPOCH).ok())
                .map(millis),
            "remaining_ms": holder.remaining.map(millis),
            "token": holder.token.get(),
            "quorum": holder.is_quorum,
            "nodes": votes(&holder.votes),
        },
    })
}

/// Says that too few nodes answered.
pub(crate) fn unknown(name: &str, error: &LockError) -> Value {
    json!({ "resource": name, "held": null, "error": error.to_string() })
}

pub(crate) fn votes(votes: &Votes) -> Vec<Value> {
    let one = |(node, outcome): (&Arc<str>, &VoteOutcome)| match outcome {
        VoteOutcome::Held { owner, remaining } => json!({
            "node": &**node,
            "held": true,
            "owner": owner.as_deref(),
            "remaining_ms": remaining.map(millis),
        }),
        VoteOutcome::NotCounted(tower_redlock::error::Reason::KeyGone) => {
            json!({ "node": &**node, "held": false })
        }
        other => json!({
            "node": &**node,
            "held": null,
            "reason": match other {
                VoteOutcome::NotCounted(reason) => reason.to_string(),
                _ => "granted".to_owned(),
            },
        }),
    };
    votes.iter().map(|vote| one((&vote.node, &vote.outcome))).collect()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
