//! What the servers know of a key of once.

use std::time::SystemTime;

use serde_json::{Value, json};
use tower_redlock::{
    Redlock,
    once::{OnceState, OnceStatus},
};

use crate::text::unix_millis;

/// What is known of a key.
#[derive(Clone, Debug)]
pub(crate) struct OnceDetails {
    /// `Ok(None)`: nothing was begun.
    pub(crate) status: Result<Option<OnceStatus>, String>,
    read: SystemTime,
}

impl OnceDetails {
    pub(crate) fn state(status: &OnceStatus) -> &'static str {
        match status.state {
            OnceState::Done => "done",
            OnceState::InProgress => "in progress",
            _ => "unknown",
        }
    }

    /// Returns when the record expires, by the wall clock of this process.
    pub(crate) fn ends(&self, status: &OnceStatus) -> Option<SystemTime> {
        self.read.checked_add(status.remaining?)
    }

    pub(crate) fn json(&self, key: &str) -> Value {
        match &self.status {
            Err(error) => json!({ "key": key, "error": error }),
            Ok(None) => json!({ "key": key, "state": "none" }),
            Ok(Some(status)) => json!({
                "key": key,
                "state": Self::state(status),
                "by": status.by,
                "since_unix_ms": status.since.and_then(unix_millis),
                "ends_unix_ms": self.ends(status).and_then(unix_millis),
                "token": status.token.get(),
            }),
        }
    }
}

pub(super) async fn read(redlock: Redlock, key: String) -> OnceDetails {
    let status = redlock.once_key(key).inspect().await.map_err(|error| error.to_string());
    OnceDetails { status, read: SystemTime::now() }
}
