//! `redlock jobs list`.

use std::{sync::Arc, time::SystemTime};

use futures_util::{StreamExt, TryStreamExt};
use serde_json::json;
use tower_redlock::{
    LockError, Redlock, Resource,
    lock::Holder,
    scheduler::{JobControl, JobRun, JobRunResult},
};

use super::show::{result, took};
use crate::{
    client::Client,
    exit::Failure,
    glob::Glob,
    output::{Table, age, print, print_json_line, say, short, shown, shown_or, unix_millis},
};

/// Number of jobs in one query.
const BATCH_SIZE: usize = 50;

pub(crate) const COLUMNS: [&str; 6] = ["JOB", "STATE", ">LAST RUN", "RESULT", ">TOOK", "BY"];

/// What is known of a job.
#[derive(Clone, Debug)]
pub(crate) struct JobRow {
    pub(crate) name: Arc<str>,
    /// The locks of its runs.
    runs: Vec<Holder>,
    control: JobControl,
    last: Option<JobRun>,
}

pub(super) async fn list(client: &Client, glob: &Glob) -> Result<(), Failure> {
    let matches = |name: &Arc<str>| std::future::ready(glob.matches(name));
    let names = client.redlock.claimed_jobs().try_filter(matches);
    let mut batches = std::pin::pin!(names.chunks(BATCH_SIZE));
    let mut table = Table::new(COLUMNS);
    let mut failed = None;
    while let Some(batch) = batches.next().await {
        let (names, errors): (Vec<_>, Vec<_>) = batch.into_iter().partition(Result::is_ok);
        failed = failed.or(errors.into_iter().find_map(Result::err));
        for job in read_jobs(&client.redlock, names.into_iter().flatten().collect()).await? {
            if client.output.json {
                print_json_line(&job.json())?;
            } else {
                print(&table.row(job.cells()))?;
            }
        }
    }
    print(&table.end())?;
    let Some(error) = failed else { return Ok(()) };
    say("redlock: jobs may be missing from this list");
    Err(error.into())
}

/// The first jobs, in the order of their names.
#[derive(Debug)]
pub(crate) struct FirstJobs {
    pub(crate) jobs: Vec<JobRow>,
    /// Whether there are further ones.
    pub(crate) more: bool,
    /// Why jobs of a set of servers may be missing.
    pub(crate) error: Option<LockError>,
}

/// Reads the first jobs, at most `limit`.
pub(crate) async fn first_jobs(redlock: &Redlock, limit: usize) -> Result<FirstJobs, LockError> {
    let listed: Vec<_> = redlock.claimed_jobs().take(limit + 1).collect().await;
    let (names, errors): (Vec<_>, Vec<_>) = listed.into_iter().partition(Result::is_ok);
    let mut names: Vec<Arc<str>> = names.into_iter().flatten().collect();
    let (more, error) = (names.len() > limit, errors.into_iter().find_map(Result::err));
    names.truncate(limit);
    names.sort_unstable();
    Ok(FirstJobs { jobs: read_jobs(redlock, names).await?, more, error })
}

async fn read_jobs(redlock: &Redlock, names: Vec<Arc<str>>) -> Result<Vec<JobRow>, LockError> {
    let controls = redlock.job_controls(&names).await?;
    let mut jobs = Vec::with_capacity(names.len());
    for (name, control) in names.into_iter().zip(controls) {
        let lock = redlock.inspect(Resource::of_job(&name)?).await?;
        let mut history = redlock.job_history(&name).await?;
        // Only a run of a parallel job is in the history and has a slot.
        let may_have_slots = history.iter().any(|run| run.result == JobRunResult::Open);
        let mut runs: Vec<_> = lock.into_iter().filter(|lock| lock.is_quorum).collect();
        if may_have_slots {
            runs = redlock.job_holders(&name).await?;
            let is_slot = |run: &Holder| Resource::slot_of(&run.name).is_some();
            if runs.iter().any(is_slot) {
                // The job's lock is held while a tick is claimed.
                runs.retain(is_slot);
            }
        }
        let last = history.pop();
        jobs.push(JobRow { name, runs, control, last });
    }
    Ok(jobs)
}

impl JobRow {
    pub(crate) fn state(&self) -> &'static str {
        match (self.runs.is_empty(), &self.control.paused) {
            (false, None) => "running",
            (false, Some(_)) => "running, paused",
            (true, Some(_)) => "paused",
            (true, None) if !self.control.requested.is_empty() => "requested",
            (true, None) => "idle",
        }
    }

    /// Returns the start of the last run.
    pub(crate) fn last_start(&self) -> Option<SystemTime> {
        self.last.as_ref().map(|last| last.started)
    }

    pub(crate) fn cells(&self) -> [String; 6] {
        let holder = self.runs.first().and_then(|run| run.owner.as_deref());
        let by = holder.or_else(|| self.last.as_ref().map(|last| &*last.owner));
        let last = self.last.as_ref().map(|last| {
            [format!("{} ago", short(age(last.started))), result(last.result), took(last)]
        });
        let [start, result, took] = last.unwrap_or_else(|| ["-"; 3].map(str::to_owned));
        let state = match self.runs.len() {
            0 | 1 => self.state().into(),
            runs => format!("{} ({runs} runs)", self.state()),
        };
        [shown(&self.name), state, start, result, took, shown_or(by, "-")]
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let run = |run: &Holder| {
            json!({
                "owner": run.owner.as_deref(),
                "slot": Resource::slot_of(&run.name).map(|(slot, _)| slot),
                "token": run.token.get(),
                "since_unix_ms": run.since.and_then(unix_millis),
            })
        };
        let mut runs = self.runs.iter().map(run);
        json!({
            "job": &*self.name,
            "state": self.state(),
            "running": runs.next(),
            "running_beside": runs.collect::<Vec<_>>(),
            "control": self.control,
            "last": self.last,
        })
    }
}
