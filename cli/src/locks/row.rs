//! A lock as one row of a table, and as one object of JSON.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tower_redlock::lock::Holder;

use crate::output::{Column, millis, short, shown, unix_millis};

/// The columns of [`LockRow::cells`].
pub(crate) const COLUMNS: [Column; 7] = [
    Column::left("NAME"),
    Column::left("OWNER"),
    Column::right("TOKEN"),
    Column::right("HELD"),
    Column::right("ENDS IN"),
    Column::left("NODES"),
    Column::left("WAITERS"),
];

/// What a table shows of a lock.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LockRow {
    pub(crate) name: String,
    /// `None`: a key that this crate did not write.
    pub(crate) owner: Option<String>,
    pub(crate) token: u64,
    pub(crate) since: Option<SystemTime>,
    /// `None`: it has no TTL.
    pub(crate) remaining: Option<Duration>,
    /// Number of nodes that keep the key of this lease.
    pub(crate) kept: usize,
    pub(crate) nodes: usize,
    pub(crate) is_quorum: bool,
    /// Another process waits for it, or did since the lease began.
    pub(crate) is_awaited: bool,
    pub(crate) lingers: bool,
}

impl From<&Holder> for LockRow {
    fn from(holder: &Holder) -> Self {
        Self {
            name: holder.name.to_string(),
            owner: holder.owner.as_deref().map(str::to_owned),
            token: holder.token.get(),
            since: holder.since,
            remaining: holder.remaining,
            kept: holder.kept,
            nodes: holder.votes.len(),
            is_quorum: holder.is_quorum,
            is_awaited: holder.is_awaited,
            lingers: holder.lingers,
        }
    }
}

impl LockRow {
    pub(crate) fn cells(&self, now: SystemTime) -> [String; 7] {
        let nodes = format!("{}/{}", self.kept, self.nodes);
        let none = || "-".to_owned();
        [
            shown(&self.name),
            self.owner.as_deref().map_or_else(|| "(foreign key)".into(), shown),
            if self.token == 0 { none() } else { self.token.to_string() },
            // A clock ahead of ours.
            self.since.map_or_else(none, |at| short(now.duration_since(at).unwrap_or_default())),
            self.remaining.map_or_else(|| "never".into(), short),
            if self.is_quorum { nodes } else { format!("{nodes} minority") },
            if self.is_awaited { "yes".into() } else { String::new() },
        ]
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "name": self.name,
            "owner": self.owner,
            "token": self.token,
            "since_unix_ms": self.since.and_then(unix_millis),
            "remaining_ms": self.remaining.map(millis),
            "quorum": self.is_quorum,
            "awaited": self.is_awaited,
            "lingers": self.lingers,
            "kept": self.kept,
            "nodes": self.nodes,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn row() -> LockRow {
        LockRow {
            name: "invoice:42".into(),
            owner: Some("night-shift".into()),
            token: 17,
            since: Some(UNIX_EPOCH + Duration::from_secs(100)),
            remaining: Some(Duration::from_millis(9_870)),
            kept: 3,
            nodes: 5,
            is_quorum: true,
            is_awaited: true,
            lingers: false,
        }
    }

    #[test]
    fn cells_of_a_lock() {
        let now = UNIX_EPOCH + Duration::from_secs(175);
        let cells = ["invoice:42", "night-shift", "17", "1m15s", "9.8s", "3/5", "yes"];
        assert_eq!(row().cells(now), cells);
        // A holder whose clock is ahead.
        assert_eq!(row().cells(UNIX_EPOCH)[3], "0ms");
    }

    #[test]
    fn cells_of_a_foreign_minority() {
        let row = LockRow {
            name: "odd\u{202e}".into(),
            owner: None,
            token: 0,
            since: None,
            remaining: None,
            kept: 1,
            is_quorum: false,
            is_awaited: false,
            lingers: false,
            ..row()
        };
        let cells = [r"odd\u{202e}", "(foreign key)", "-", "-", "never", "1/5 minority", ""];
        assert_eq!(row.cells(UNIX_EPOCH), cells);
        assert_eq!(row.json()["owner"], Value::Null);
        assert_eq!(row.json()["name"], "odd\u{202e}");
    }

    #[test]
    fn owners_are_escaped() {
        let row = LockRow { owner: Some("a\x1b[2Jb\n".into()), ..row() };
        assert_eq!(row.cells(UNIX_EPOCH)[1], r"a\u{1b}[2Jb\n");
    }
}
