//! The first locks of the servers.

use futures_util::TryStreamExt;
use serde_json::{Value, json};
use tower_redlock::Redlock;

use crate::{locks::LockRow, output::shown};

/// Locks in the order of their names, or why they are unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Listing {
    pub(super) locks: Vec<LockRow>,
    /// Whether there are further ones.
    pub(super) more: bool,
    /// Why locks may be missing.
    pub(super) error: Option<String>,
}

impl Listing {
    /// Reads so many locks.
    pub(super) async fn read(redlock: &Redlock, limit: usize) -> Self {
        let mut listing = Self::default();
        let mut locks = std::pin::pin!(redlock.locks());
        loop {
            match locks.try_next().await {
                Ok(Some(_)) if listing.locks.len() == limit => listing.more = true,
                Ok(Some(holder)) => {
                    listing.locks.push(LockRow::from(&holder));
                    continue;
                }
                Ok(None) => {}
                Err(error) => listing.error = Some(error.to_string()),
            }
            break;
        }
        listing.locks.sort_by(|a, b| a.name.cmp(&b.name));
        listing
    }

    /// Returns a line that says how many there are.
    pub(super) fn summary(&self) -> String {
        let count = self.locks.len();
        if let Some(error) = &self.error {
            return format!("locks may be missing: {}", shown(error));
        }
        match (count, self.more) {
            (0, false) => "no locks".into(),
            (1, false) => "1 lock".into(),
            (_, false) => format!("{count} locks"),
            (_, true) => format!("more than {count} locks; `redlock ls` lists all"),
        }
    }

    pub(super) fn json(&self) -> Value {
        let locks: Vec<_> = self.locks.iter().map(LockRow::json).collect();
        json!({ "locks": locks, "more": self.more, "error": self.error })
    }
}
