//! `redlock jobs list`.

use std::{process::ExitCode, sync::Arc, time::SystemTime};

use futures_util::{StreamExt, TryStreamExt};
use serde_json::json;
use tower_redlock::{
    LockError, Redlock, Resource,
    lock::Holder,
    scheduler::{JobControl, JobRun},
};

use super::history::{result, took};
use crate::{
    exit::Failure,
    glob::Glob,
    output::{Column, Table, print, print_json_line, say, short, shown, unix_millis},
};

/// Number of jobs that are asked about at once.
const BATCH: usize = 50;

const COLUMNS: [Column; 6] = [
    Column::left("JOB"),
    Column::left("STATE"),
    Column::right("LAST RUN"),
    Column::left("RESULT"),
    Column::right("TOOK"),
    Column::left("BY"),
];

/// What is known of a job.
struct Job {
    name: Arc<str>,
    /// The holder of its lock, which runs it.
    runs: Option<Holder>,
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

async fn look(redlock: &Redlock, names: Vec<Arc<str>>) -> Result<Vec<Job>, LockError> {
    let controls = redlock.job_controls(&names).await?;
    let mut jobs = Vec::with_capacity(names.len());
    for (name, control) in names.into_iter().zip(controls) {
        let runs = redlock.inspect(Resource::of_job(&name)?).await?.filter(|runs| runs.is_quorum);
        let last = redlock.job_history(&name).await?.pop();
        jobs.push(Job { name, runs, control, last });
    }
    Ok(jobs)
}

impl Job {
    fn state(&self) -> &'static str {
        match (&self.runs, &self.control.paused) {
            (Some(_), None) => "running",
            (Some(_), Some(_)) => "running, paused",
            (None, Some(_)) => "paused",
            (None, None) if !self.control.requested.is_empty() => "requested",
            (None, None) => "idle",
        }
    }

    fn cells(&self) -> [String; 6] {
        let none = || "-".to_owned();
        let age = |at| short(SystemTime::now().duration_since(at).unwrap_or_default());
        let runs = self.runs.as_ref().and_then(|runs| runs.owner.clone());
        let by = runs.or_else(|| self.last.as_ref().map(|last| Arc::clone(&last.owner)));
        [
            shown(&self.name),
            self.state().into(),
            self.last.as_ref().map_or_else(none, |last| format!("{} ago", age(last.started))),
            self.last.as_ref().map_or_else(none, |last| result(last.result)),
            self.last.as_ref().map_or_else(none, took),
            by.as_deref().map_or_else(none, shown),
        ]
    }

    fn json(&self) -> serde_json::Value {
        let running = self.runs.as_ref().map(|runs| {
            json!({
                "owner": runs.owner.as_deref(),
                "token": runs.token.get(),
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
