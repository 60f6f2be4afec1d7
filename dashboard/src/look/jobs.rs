//! The jobs of the fleet.

use std::{sync::Arc, time::SystemTime};

use futures_util::{StreamExt as _, TryStreamExt as _, future::try_join_all, stream};
use serde::Serialize;
use tower_redlock::{
    LockError, Redlock, Resource,
    scheduler::{JobControl, JobRun},
};

use super::{ShownLock, keys::serialize_time};

/// Maximum number of jobs that are read.
const MAX_JOBS: usize = 1_000;
/// Number of jobs in one query.
const BATCH: usize = 50;

/// The jobs that were ever claimed, sorted by name, as far as they were read.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobListing {
    pub(crate) jobs: Vec<ShownJob>,
    /// There are more than were read.
    pub(crate) more: bool,
    /// Why jobs may be missing.
    pub(crate) error: Option<String>,
}

/// What the servers say of a job.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ShownJob {
    pub(crate) name: Arc<str>,
    /// The lock of its run.
    pub(crate) running: Option<RunningOn>,
    pub(crate) control: JobControl,
    /// Its latest run.
    pub(crate) last: Option<JobRun>,
}

/// Where a job runs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RunningOn {
    pub(crate) owner: Option<Arc<str>>,
    #[serde(rename = "since_unix_ms", serialize_with = "serialize_time")]
    pub(crate) since: Option<SystemTime>,
    pub(crate) token: u64,
}

impl ShownJob {
    pub(crate) fn state(&self) -> &'static str {
        match (&self.running, &self.control.paused) {
            (Some(_), _) => "running",
            (None, Some(_)) => "paused",
            (None, None) if !self.control.requested.is_empty() => "requested",
            (None, None) => "idle",
        }
    }
}

/// What the servers say of one job.
#[derive(Clone, Debug)]
pub(crate) struct JobDetails {
    pub(crate) job: Result<ShownJob, String>,
    /// Its last runs, the oldest first.
    pub(crate) runs: Vec<JobRun>,
}

pub(super) async fn read(redlock: Redlock) -> JobListing {
    let mut listing = JobListing::default();
    let names: Result<Vec<_>, _> = redlock.claimed_jobs().take(MAX_JOBS + 1).try_collect().await;
    let mut names = match names {
        Ok(names) => names,
        Err(error) => return JobListing { error: Some(error.to_string()), ..listing },
    };
    listing.more = names.len() > MAX_JOBS;
    names.truncate(MAX_JOBS);
    names.sort_unstable();
    let mut batches = stream::iter(names.chunks(BATCH));
    while let Some(batch) = batches.next().await {
        match read_batch(&redlock, batch).await {
            Ok(jobs) => listing.jobs.extend(jobs),
            Err(error) => {
                listing.error = Some(error.to_string());
                break;
            }
        }
    }
    listing
}

async fn read_batch(redlock: &Redlock, names: &[Arc<str>]) -> Result<Vec<ShownJob>, LockError> {
    let controls = redlock.job_controls(names).await?;
    let jobs = names.iter().zip(controls).map(async |(name, control)| {
        let (running, mut runs) =
            tokio::try_join!(running_on(redlock, name), redlock.job_history(name))?;
        Ok::<_, LockError>(ShownJob { name: Arc::clone(name), running, control, last: runs.pop() })
    });
    try_join_all(jobs).await
}

async fn running_on(redlock: &Redlock, job: &str) -> Result<Option<RunningOn>, LockError> {
    let holder = redlock.inspect(Resource::of_job(job)?).await?;
    Ok(holder.filter(|holder| holder.is_quorum).map(|holder| {
        let ShownLock { owner, since, token, .. } = ShownLock::from(&holder);
        RunningOn { owner, since, token }
    }))
}

pub(super) async fn read_one(redlock: Redlock, name: String) -> JobDetails {
    let read = async {
        tokio::try_join!(
            redlock.job_control(&name),
            running_on(&redlock, &name),
            redlock.job_history(&name)
        )
    };
    match read.await {
        Ok((control, running, runs)) => {
            let last = runs.last().cloned();
            JobDetails { job: Ok(ShownJob { name: name.into(), running, control, last }), runs }
        }
        Err(error) => JobDetails { job: Err(error.to_string()), runs: Vec::new() },
    }
}
