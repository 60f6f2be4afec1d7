//! `redlock jobs list`.

use std::{process::ExitCode, sync::Arc, time::SystemTime};

use futures_util::{StreamExt, TryStreamExt};
use serde_json::json;
use tower_redlock::{
    LockError, Redlock, Resource,
    scheduler::{JobControl, JobRun},
};

use super::history::{result, took};
use crate::{
    exit::Failure,
    glob::Glob,
    locks::LockRow,
    output::{Column, Table, print, print_json_line, say, short, shown, unix_millis},
};

/// Number of jobs in one query.
const BATCH: usize = 50;

pub(crate) const COLUMNS: [Column; 6] = [
    Column::left("JOB"),
    Column::left("STATE"),
    Column::right("LAST RUN"),
    Column::left("RESULT"),
    Column::right("TOOK"),
    Column::left("BY"),
];

/// What is known of a job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JobRow {
    pub(crate) name: Arc<str>,
    /// Its lock, while it runs.
    runs: Option<LockRow>,
    control: JobControl,
    last: Option<JobRun>,
}

pub(super) async fn list(redlock: &Redlock, glob: &Glob, json: bool) -> Result<ExitCode, Failure> {
    let names = redlock.claimed_jobs().try_filter(|name| {
        let matches = glob.matches(name);
        async move { matches }
    });
    let mut batches = std::pin::pin!(names.chunks(BATCH));
    let mut table = Table::new(COLUMNS);
    let mut failed = None;
    while let Some(batch) = batches.next().await {
        let (names, errors): (Vec<_>, Vec<_>) = batch.into_iter().partition(Result::is_ok);
        let names: Vec<Arc<str>> = names.into_iter().flatten().collect();
        failed = failed.or(errors.into_iter().find_map(Result::err));
        for job in look(redlock, names).await? {
            if json {
                print_json_line(&job.json())?;
            } else {
                print(&table.row(job.cells()))?;
            }
        }
    }
    print(&table.end())?;
    match failed {
        None => Ok(ExitCode::SUCCESS),
        Some(error) => {
            say("redlock: jobs may be missing from this list");
            Err(error.into())
        }
    }
}

/// Reads the first jobs, in the order of their names, and whether there are further ones.
pub(crate) async fn first_jobs(
    redlock: &Redlock,
    limit: usize,
) -> Result<(Vec<JobRow>, bool), LockError> {
    let mut names: Vec<Arc<str>> = redlock.claimed_jobs().take(limit + 1).try_collect().await?;
    let more = names.len() > limit;
    names.truncate(limit);
    names.sort_unstable();
    Ok((look(redlock, names).await?, more))
}

async fn look(redlock: &Redlock, names: Vec<Arc<str>>) -> Result<Vec<JobRow>, LockError> {
    let controls = redlock.job_controls(&names).await?;
    let mut jobs = Vec::with_capacity(names.len());
    for (name, control) in names.into_iter().zip(controls) {
        let runs = redlock.inspect(Resource::of_job(&name)?).await?;
        let runs = runs.filter(|runs| runs.is_quorum).as_ref().map(LockRow::from);
        let last = redlock.job_history(&name).await?.pop();
        jobs.push(JobRow { name, runs, control, last });
    }
    Ok(jobs)
}

impl JobRow {
    pub(crate) fn state(&self) -> &'static str {
        match (&self.runs, &self.control.paused) {
            (Some(_), None) => "running",
            (Some(_), Some(_)) => "running, paused",
            (None, Some(_)) => "paused",
            (None, None) if !self.control.requested.is_empty() => "requested",
            (None, None) => "idle",
        }
    }

    /// Returns the start of the last run.
    pub(crate) fn last_start(&self) -> Option<SystemTime> {
        self.last.as_ref().map(|last| last.started)
    }

    pub(crate) fn cells(&self) -> [String; 6] {
        let none = || "-".to_owned();
        let age = |at| short(SystemTime::now().duration_since(at).unwrap_or_default());
        let runs = self.runs.as_ref().and_then(|runs| runs.owner.clone());
        let by = runs.or_else(|| self.last.as_ref().map(|last| last.owner.to_string()));
        [
            shown(&self.name),
            self.state().into(),
            self.last.as_ref().map_or_else(none, |last| format!("{} ago", age(last.started))),
            self.last.as_ref().map_or_else(none, |last| result(last.result)),
            self.last.as_ref().map_or_else(none, took),
            by.as_deref().map_or_else(none, shown),
        ]
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let running = self.runs.as_ref().map(|runs| {
            json!({
                "owner": runs.owner.as_deref(),
                "token": runs.token,
                "since_unix_ms": runs.since.and_then(unix_millis),
            })
        });
        json!({
            "job": &*self.name,
            "state": self.state(),
            "running": running,
            "control": self.control,
            "last": self.last,
        })
    }
}
