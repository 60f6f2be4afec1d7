//! `redlock inspect`: the holder of a name, node by node.

use std::time::Duration;

use humantime::format_rfc3339_seconds;
use serde_json::{Value, json};
use tower_redlock::{
    LockError, Redlock, Resource,
    error::{Reason, Vote, VoteOutcome},
    lock::{Holder, SharedHolder},
};

use super::{
    readers::{owners, with_readers},
    slot::{is_one_lock, with_slot},
};
use crate::{
    client::Client,
    exit::Failure,
    options::SharedArgs,
    output::{age, indented, millis, shown, time, unix_millis},
};

/// Number of tries while a node is too busy to answer.
const MAX_TRIES: usize = 5;
/// Interval between tries.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Shows the holder of a name, node by node
///
/// The lock of a job, a leader or a once key has a name that begins with `job:`, `leader:` or `once:`. Slot 3
/// of `export` is `slot:3:export`; `redlock ls export` lists the slots that are held.
#[derive(Debug, clap::Args)]
pub(crate) struct InspectArgs {
    /// The name of the lock
    name: String,
}

pub(crate) async fn inspect(shared: &SharedArgs, args: &InspectArgs) -> Result<(), Failure> {
    let client = Client::reading(shared).await?;
    let (name, holder) = (&args.name, holder_of(&client, &args.name).await?);
    client.output.show(&holder_json(name, holder.as_ref()), &text(name, holder.as_ref()))
}

/// Asks for the holder, a few times until every node has answered.
pub(crate) async fn ask(redlock: &Redlock, name: &str) -> Result<Option<Holder>, LockError> {
    let timed_out = |vote: &Vote| matches!(vote.outcome, VoteOutcome::NotCounted(Reason::TimedOut));
    let is_incomplete = |result: &Result<Option<Holder>, LockError>| match result {
        Ok(holder) => holder.as_ref().is_some_and(|holder| holder.votes.iter().any(timed_out)),
        Err(error) => matches!(error, LockError::NoQuorum { .. }),
    };
    let mut result = redlock.inspect(name).await;
    for _ in 1..MAX_TRIES {
        if !is_incomplete(&result) {
            break;
        }
        tokio::time::sleep(RETRY_PAUSE).await;
        result = redlock.inspect(name).await;
    }
    result
}

/// Asks for the holder. Prints that it is unknown if too few nodes answered.
pub(super) async fn holder_of(client: &Client, name: &str) -> Result<Option<Holder>, Failure> {
    is_one_lock(name)?;
    let holder = ask(&client.redlock, name).await;
    let Err(error @ LockError::NoQuorum { .. }) = holder else { return Ok(holder?) };
    client.output.show_json(&unknown_json(name, &error))?;
    let mut failure = Failure::from(error);
    failure.message =
        format!("the holder of {:?} is unknown: {}", Resource::display_name(name), failure.message);
    Err(failure)
}

pub(super) fn text(name: &str, holder: Option<&Holder>) -> String {
    let name = Resource::display_name(name);
    let Some(holder) = holder else { return format!("{name:?} is free\n") };
    let owner = owners(holder, "a key that tower-redlock did not write");
    let state = if holder.is_quorum {
        format!("{name:?} is held by {owner}\n")
    } else {
        format!(
            "{name:?} is not held; fewer than a quorum of nodes have a key of {owner}: an attempt is under way, \
             or a client crashed\n"
        )
    };
    let ago = |since| {
        let at = format_rfc3339_seconds(since);
        format!("since {at}, {} ago by the holder's clock", time(age(since)))
    };
    let since = match &*holder.shared_by {
        [] => holder.since.map(ago).into_iter().collect(),
        readers => {
            let line = |reader: &SharedHolder| {
                let since = reader.since.map(|since| format!(" {}", ago(since)));
                format!("{}{}", shown(&reader.owner), since.unwrap_or_default())
            };
            readers.iter().map(line).collect::<Vec<_>>()
        }
    };
    let end = holder.remaining.map_or_else(
        || "without a TTL: it stays until it is deleted".into(),
        |left| format!("free in {} unless it is renewed", time(left)),
    );
    let token = match holder.token.get() {
        0 if holder.is_shared() => "shared; the servers do not keep its fencing token".into(),
        0 => "without a fencing token".into(),
        token => format!("fencing token {token}"),
    };
    let votes = holder.votes.iter().map(|vote| match &vote.outcome {
        VoteOutcome::NotCounted(Reason::KeyGone) => format!("{}: no key", shown(&vote.node)),
        _ => shown(&vote.to_string()),
    });
    state + &indented(since.into_iter().chain([end, token]).chain(votes))
}

/// The holder of a name, or that the name is free.
pub(super) fn holder_json(name: &str, holder: Option<&Holder>) -> Value {
    let json = match holder {
        None => json!({ "resource": name, "held": false, "holder": null }),
        Some(holder) => json!({
            "resource": name,
            "held": holder.is_quorum,
            "holder": with_readers(json!({
                "owner": holder.owner.as_deref(),
                "since_unix_ms": holder.since.and_then(unix_millis),
                "remaining_ms": holder.remaining.map(millis),
                "token": holder.token.get(),
                "quorum": holder.is_quorum,
                "nodes": holder.votes.iter().map(vote_json).collect::<Vec<_>>(),
            }), holder),
        }),
    };
    with_slot(json, name)
}

/// The document for a holder that is unknown, as too few nodes answered.
pub(super) fn unknown_json(name: &str, error: &LockError) -> Value {
    with_slot(json!({ "resource": name, "held": null, "error": error.to_string() }), name)
}

fn vote_json(vote: &Vote) -> Value {
    let node = &*vote.node;
    match &vote.outcome {
        VoteOutcome::Held { owner, remaining } => json!({
            "node": node,
            "held": true,
            "owner": owner.as_deref(),
            "remaining_ms": remaining.map(millis),
        }),
        VoteOutcome::NotCounted(Reason::KeyGone) => json!({ "node": node, "held": false }),
        VoteOutcome::NotCounted(reason) => {
            json!({ "node": node, "held": null, "reason": reason.to_string() })
        }
        _ => json!({ "node": node, "held": null, "reason": "granted" }),
    }
}
