//! What the servers know of a key of once.

use serde::Serialize;
use serde_json::{Value, json};
use tower_redlock::{
    Redlock,
    once::{OnceState, OnceStatus},
};

use super::{millis, unix_millis};

/// What is known of a key.
#[derive(Clone, Debug)]
pub(crate) struct OnceDetails {
    /// `Ok(None)`: nothing was begun.
    pub(crate) status: Result<Option<OnceStatus>, String>,
}

impl OnceDetails {
    pub(crate) fn state(status: &OnceStatus) -> &'static str {
        match status.state {
            OnceState::Done => "done",
            OnceState::InProgress => "in progress",
            _ => "unknown",
        }
    }

    pub(crate) fn json(&self, key: &str) -> Value {
        let status = match &self.status {
            Err(error) => return json!({ "key": key, "error": error }),
            Ok(None) => return json!({ "key": key, "state": "none" }),
            Ok(Some(status)) => status,
        };
        let shown = ShownOnce {
            key,
            state: Self::state(status),
            by: status.by.as_deref(),
            since_unix_ms: status.since.and_then(unix_millis),
            remaining_ms: status.remaining.map(millis),
            token: status.token.get(),
        };
        serde_json::to_value(shown).unwrap_or_default()
    }
}

#[derive(Serialize)]
struct ShownOnce<'a> {
    key: &'a str,
    state: &'static str,
    by: Option<&'a str>,
    since_unix_ms: Option<u64>,
    remaining_ms: Option<u64>,
    token: u64,
}

pub(super) async fn read(redlock: Redlock, key: String) -> OnceDetails {
    OnceDetails { status: redlock.once(key).status().await.map_err(|error| error.to_string()) }
}
