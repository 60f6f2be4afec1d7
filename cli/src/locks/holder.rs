//! The holder of a name: asking for it, and showing it.

use std::{
    fmt::Write,
    sync::Arc,
    time::{Duration, SystemTime},
};

use humantime::format_rfc3339_seconds;
use serde_json::{Value, json};
use tower_redlock::{
    LockError, Redlock,
    error::{Reason, VoteOutcome, Votes},
    lock::Holder,
};

use crate::{
    exit::Failure,
    output::{millis, print, print_json, shown, time, unix_millis},
};

/// Number of tries while a node is too busy to answer.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(100);

/// Asks again until every node has answered, a few times.
pub(crate) async fn ask(redlock: &Redlock, name: &str) -> Result<Option<Holder>, LockError> {
    let mut result = redlock.inspect(name).await;
    for _ in 1..TRIES {
        let incomplete = match &result {
            Ok(Some(holder)) => holder
                .votes
                .iter()
                .any(|vote| matches!(vote.outcome, VoteOutcome::NotCounted(Reason::TimedOut))),
            Ok(None) => false,
            Err(error) => matches!(error, LockError::NoQuorum { .. }),
        };
        if !incomplete {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        result = redlock.inspect(name).await;
    }
    result
}

/// Asks for the holder. Prints that it is unknown where too few nodes answered.
pub(super) async fn look(
    redlock: &Redlock,
    name: &str,
    json: bool,
) -> Result<Option<Holder>, Failure> {
    let holder = ask(redlock, name).await;
    if let Err(error @ LockError::NoQuorum { .. }) = &holder {
        if json {
            print_json(&unknown_json(name, error))?;
        }
        let mut failure = Failure::from(error.clone());
        failure.message = format!("the holder of {name:?} is unknown: {}", failure.message);
        return Err(failure);
    }
    Ok(holder?)
}

pub(super) fn show(name: &str, holder: Option<&Holder>, json: bool) -> Result<(), Failure> {
    if json { print_json(&holder_json(name, holder)) } else { print(&text(name, holder)) }
}

pub(super) fn text(name: &str, holder: Option<&Holder>) -> String {
    let Some(holder) = holder else { return format!("{name:?} is free\n") };
    let owner = holder
        .owner
        .as_deref()
        .map_or_else(|| "a key that tower-redlock did not write".into(), shown);
    let mut text = if holder.is_quorum {
        format!("{name:?} is held by {owner}\n")
    } else {
        format!(
            "{name:?} is not held; fewer than a quorum of nodes have a key of {owner}: of an attempt under way, or left by a crash\n"
        )
    };
    if let Some(since) = holder.since {
        let ago = SystemTime::now().duration_since(since).unwrap_or_default();
        // Writing to a string does not fail.
        let at = format_rfc3339_seconds(since);
        let _ = writeln!(text, "    since {at}, {} ago by the holder's clock", time(ago));
    }
    match holder.remaining {
        Some(left) => {
            let _ = writeln!(text, "    free in {} unless it is renewed", time(left));
        }
        None => text.push_str("    without a TTL: it stays until it is deleted\n"),
    }
    match holder.token.get() {
        0 => text.push_str("    without a fencing token\n"),
        token => {
            let _ = writeln!(text, "    fencing token {token}");
        }
    }
    for vote in holder.votes.iter() {
        let _ = match &vote.outcome {
            VoteOutcome::NotCounted(Reason::KeyGone) => {
                writeln!(text, "    {}: no key", shown(&vote.node))
            }
            _ => writeln!(text, "    {}", shown(&vote.to_string())),
        };
    }
    text
}

/// The holder of a name, or that the name is free.
pub(super) fn holder_json(name: &str, holder: Option<&Holder>) -> Value {
    let Some(holder) = holder else {
        return json!({ "resource": name, "held": false, "holder": null });
    };
    json!({
        "resource": name,
        "held": holder.is_quorum,
        "holder": {
            "owner": holder.owner.as_deref(),
            "since_unix_ms": holder.since.and_then(unix_millis),
            "remaining_ms": holder.remaining.map(millis),
            "token": holder.token.get(),
            "quorum": holder.is_quorum,
            "nodes": votes(&holder.votes),
        },
    })
}

/// Says that too few nodes answered.
pub(super) fn unknown_json(name: &str, error: &LockError) -> Value {
    json!({ "resource": name, "held": null, "error": error.to_string() })
}

fn votes(votes: &Votes) -> Vec<Value> {
    let one = |(node, outcome): (&Arc<str>, &VoteOutcome)| match outcome {
        VoteOutcome::Held { owner, remaining } => json!({
            "node": &**node,
            "held": true,
            "owner": owner.as_deref(),
            "remaining_ms": remaining.map(millis),
        }),
        VoteOutcome::NotCounted(Reason::KeyGone) => json!({ "node": &**node, "held": false }),
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
