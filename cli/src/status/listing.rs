//! The first locks and jobs of the servers.

use futures_util::TryStreamExt;
use serde_json::{Value, json};
use tower_redlock::Redlock;

use crate::{
    jobs::{COLUMNS, JobRow, first_jobs},
    locks::LockRow,
    output::{Table, shown},
};

/// Locks in the order of their names, or why they are unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Listing {
    pub(super) locks: Vec<LockRow>,
    /// Whether there are further ones.
    pub(super) more: bool,
    /// The first jobs.
    pub(super) jobs: Vec<JobRow>,
    pub(super) more_jobs: bool,
    /// Why locks or jobs may be missing.
    pub(super) error: Option<String>,
}

/// Number of jobs that are read.
const JOBS: usize = 10;

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
        match first_jobs(redlock, JOBS).await {
            Ok((jobs, more)) => (listing.jobs, listing.more_jobs) = (jobs, more),
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
        let mut table = Table::new(COLUMNS);
        let mut text: String = self.jobs.iter().map(|job| table.row(job.cells())).collect();
        text.push_str(&table.end());
        std::iter::once(summary).chain(text.lines().map(str::to_owned)).collect()
    }

    pub(super) fn json(&self) -> Value {
        let locks: Vec<_> = self.locks.iter().map(LockRow::json).collect();
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
