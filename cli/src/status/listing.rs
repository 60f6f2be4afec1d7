//! The first locks and jobs of the servers.

use std::time::{Duration, SystemTime};

use futures_util::TryStreamExt;
use serde_json::{Value, json};
use tower_redlock::{Redlock, Resource, lock::Holder};

use crate::{
    jobs::{self, FirstJobs, JobRow, first_jobs},
    locks::{self, lock_cells, lock_json},
    output::{Table, shown, time},
};

/// Number of jobs that are read.
const MAX_JOBS: usize = 10;

/// Locks in the order of their names, or why they are unknown.
#[derive(Clone, Debug, Default)]
pub(super) struct Listing {
    pub(super) locks: Vec<Holder>,
    /// Whether there are further ones.
    pub(super) more: bool,
    /// The first jobs.
    pub(super) jobs: Vec<JobRow>,
    pub(super) more_jobs: bool,
    /// Why locks or jobs may be missing.
    pub(super) error: Option<String>,
}

impl Listing {
    /// Reads the locks, up to this number, and the first jobs.
    pub(super) async fn read(redlock: &Redlock, limit: usize) -> Self {
        let mut listing = Self::default();
        let mut locks = std::pin::pin!(redlock.locks());
        loop {
            match locks.try_next().await {
                Ok(Some(_)) if listing.locks.len() == limit => listing.more = true,
                Ok(Some(holder)) => {
                    listing.locks.push(holder);
                    continue;
                }
                Ok(None) => {}
                Err(error) => listing.error = Some(error.to_string()),
            }
            break;
        }
        // The slots of a name stand together, by their numbers.
        listing.locks.sort_by_cached_key(|lock| match Resource::slot_of(&lock.name) {
            Some((slot, of)) => (of.to_owned(), Some(slot)),
            None => (lock.name.to_string(), None),
        });
        match first_jobs(redlock, MAX_JOBS).await {
            Ok(FirstJobs { jobs, more, error }) => {
                (listing.jobs, listing.more_jobs) = (jobs, more);
                listing.error = listing.error.or(error.map(|error| error.to_string()));
            }
            Err(error) => listing.error = Some(error.to_string()),
        }
        listing
    }

    /// Returns a line that says how many there are.
    pub(super) fn summary(&self) -> String {
        let count = self.locks.len();
        if let Some(error) = &self.error {
            return format!("locks or jobs may be missing: {}", shown(error));
        }
        match (count, self.more) {
            (0, false) => "no locks".into(),
            (1, false) => "1 lock".into(),
            (_, false) => format!("{count} locks"),
            (_, true) => format!("more than {count} locks; `redlock ls` lists all"),
        }
    }

    /// Returns the jobs as lines of text, below a line that says how many there are; nothing without jobs.
    pub(super) fn job_lines(&self) -> Vec<String> {
        let count = self.jobs.len();
        let summary = match (count, self.more_jobs) {
            (0, _) => return Vec::new(),
            (1, false) => "1 job".into(),
            (_, false) => format!("{count} jobs"),
            (_, true) => format!("more than {count} jobs; `redlock jobs list` lists all"),
        };
        let text = Table::of(jobs::COLUMNS, self.jobs.iter().map(JobRow::cells));
        std::iter::once(summary).chain(text.lines().map(str::to_owned)).collect()
    }

    pub(super) fn lock_table(&self, now: SystemTime) -> String {
        Table::of(locks::COLUMNS, self.locks.iter().map(|lock| lock_cells(lock, now)))
    }

    pub(super) fn json(&self) -> Value {
        let locks: Vec<_> = self.locks.iter().map(lock_json).collect();
        let jobs: Vec<_> = self.jobs.iter().map(JobRow::json).collect();
        json!({
            "locks": locks,
            "more": self.more,
            "jobs": jobs,
            "more_jobs": self.more_jobs,
            "error": self.error,
        })
    }
}

/// Returns a table of nodes: their names, round trips and states.
pub(super) fn node_table<'a>(
    nodes: impl Iterator<Item = (&'a str, Option<Duration>, String)>,
) -> String {
    let rows = nodes.map(|(name, trip, state)| {
        [shown(name), trip.map_or_else(|| "-".into(), time), shown(&state)]
    });
    Table::of(["NODE", ">ROUND TRIP", "STATE"], rows)
}
