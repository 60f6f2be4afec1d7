//! The status of a key.

use std::{fmt::Write, process::ExitCode, time::SystemTime};

use humantime::format_rfc3339_seconds;
use serde_json::{Value, json};
use tower_redlock::{
    LockError, Redlock,
    once::{OnceState, OnceStatus},
};

use crate::{
    exit::Failure,
    output::{millis, print, print_json, short, shown, unix_millis},
};

pub(super) async fn status(redlock: &Redlock, key: &str, json: bool) -> Result<ExitCode, Failure> {
    let status = look(redlock, key, json).await?;
    if json {
        print_json(&object(key, status.as_ref()))?;
    } else {
        print(&text(key, status.as_ref()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks for the status. Prints that it is unknown where too few nodes answered.
pub(super) async fn look(
    redlock: &Redlock,
    key: &str,
    json: bool,
) -> Result<Option<OnceStatus>, Failure> {
    let status = redlock.once(key).status().await;
    if let Err(error @ LockError::NoQuorum { .. }) = &status
        && json
    {
        print_json(&json!({ "key": key, "state": null, "error": error.to_string() }))?;
    }
    Ok(status?)
}

pub(super) fn object(key: &str, status: Option<&OnceStatus>) -> Value {
    let Some(status) = status else { return json!({ "key": key, "state": "free" }) };
    json!({
        "key": key,
        "state": match status.state {
            OnceState::InProgress => "in-progress",
            OnceState::Done => "done",
            _ => "unknown",
        },
        "by": status.by.as_deref(),
        "since_unix_ms": status.since.and_then(unix_millis),
        "remaining_ms": status.remaining.map(millis),
        "token": status.token.get(),
    })
}

pub(super) fn text(key: &str, status: Option<&OnceStatus>) -> String {
    let Some(status) = status else {
        return format!("{key:?} is free: its work was never begun, or nothing is kept of it\n");
    };
    let (state, by, end) = match status.state {
        OnceState::InProgress => {
            ("is in progress", "run by", "its lock ends unless it is renewed,")
        }
        OnceState::Done => ("is done", "done by", "is forgotten"),
        _ => ("was begun, and its outcome is unknown", "begun by", "is forgotten"),
    };
    let mut text = format!("{key:?} {state}\n");
    // Writing to a string does not fail.
    let owner = status.by.as_deref().map_or_else(|| "an unknown client".into(), shown);
    let _ = writeln!(text, "    {by} {owner}");
    if let Some(since) = status.since {
        let ago = SystemTime::now().duration_since(since).unwrap_or_default();
        let at = format_rfc3339_seconds(since);
        let _ = writeln!(text, "    since {at}, {} ago by that client's clock", short(ago));
    }
    if let Some(remaining) = status.remaining {
        let _ = writeln!(text, "    {end} in {}", short(remaining));
    }
    if status.token.get() != 0 {
        let _ = writeln!(text, "    fencing token {}", status.token);
    }
    text
}
