//! The report as JSON.

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use serde_json::{Value, json};
use tower_redlock::{
    LockError,
    diagnosis::{Advice, Diagnosis},
    error::{VoteOutcome, Votes},
    lock::Holder,
};

use crate::{diagnose::exit_code, setup::Settings};

pub(crate) fn report(diagnosis: &Diagnosis, settings: &Settings) -> Value {
    json!({
        "verdict": diagnosis.verdict().to_string(),
        "exit_code": exit_code(diagnosis.verdict()),
        "summary": diagnosis.summary(),
        "voting": diagnosis.voting(),
        "quorum": diagnosis.quorum(),
        "prefix": settings.prefix,
        "embedded": settings.embedded,
        "nodes": diagnosis.nodes,
        "findings": diagnosis.advice.iter().map(finding).collect::<Vec<_>>(),
    })
}

fn finding(advice: &Advice) -> Value {
    json!({
        "severity": advice.severity,
        "code": advice.code,
        "node": advice.node,
        "what": advice.what,
        "do": advice.todo,
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
