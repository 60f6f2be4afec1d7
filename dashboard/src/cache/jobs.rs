//! The jobs of the fleet.

use std::{future::Future, sync::Arc, time::Duration};

use futures_util::{
    StreamExt as _,
    future::{join_all, try_join_all},
};
use serde::Serialize;
use tokio::{
    sync::Mutex,
    time::{Instant, sleep_until},
};
use tower_redlock::{
    LockError, Redlock, Resource,
    scheduler::{JobControl, JobRun, JobRunResult, JobStop, StoredSchedule},
};

use super::{ShownLock, cached_value::Reading};
use crate::{
    access::Subject,
    paging::Paging,
    set_place::{SetPlace, each_set},
};

/// Maximum number of jobs that are read.
const MAX_JOBS: usize = 1_000;
/// Number of jobs on a page.
const PAGE_SIZE: usize = 100;
/// Number of jobs in one query.
const BATCH_SIZE: usize = 50;
/// Pause after a batch, as a multiple of the time that it took.
const PAUSE_FACTOR: u32 = 9;
/// Maximum pause, for servers that do not answer.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The names of the jobs that were ever claimed, sorted, as far as they were read.
#[derive(Clone, Debug, Default)]
pub(super) struct JobNames {
    names: Vec<Arc<str>>,
    more: bool,
    error: Option<String>,
}

/// A page of jobs.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobListing {
    pub(crate) jobs: Vec<ShownJob>,
    pub(crate) paging: Paging,
    /// There are more than were read.
    pub(crate) more: bool,
    /// Why jobs may be missing.
    pub(crate) error: Option<String>,
}

impl JobNames {
    /// Returns a page on which nothing has been read so far, and the names on it.
    pub(super) fn page(&self, wanted: usize) -> (JobListing, Vec<Arc<str>>) {
        let paging = Paging::new(self.names.len(), PAGE_SIZE, wanted);
        let (more, error) = (self.more, self.error.clone());
        let names = self.names[paging.range()].to_vec();
        (JobListing { jobs: Vec::new(), paging, more, error }, names)
    }
}

/// Lets one batch be read at a time, for all pages, with a pause after each: the servers spend a tenth of the
/// time on batches at most.
#[derive(Debug, Default)]
pub(super) struct BatchPace {
    /// The earliest begin of the next batch.
    next: Mutex<Option<Instant>>,
}

impl BatchPace {
    async fn batch<T>(&self, read: impl Future<Output = T>) -> T {
        let mut next = self.next.lock().await;
        if let Some(next) = *next {
            sleep_until(next).await;
        }
        let begun = Instant::now();
        let value = read.await;
        *next = Some(Instant::now() + MAX_PAUSE.min(PAUSE_FACTOR * begun.elapsed()));
        value
    }
}

/// What the servers say of a job.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ShownJob {
    pub(crate) name: Arc<str>,
    /// The lock of its run; of several, of the one in the first slot.
    pub(crate) running: Option<ShownLock>,
    /// The slots of the other runs of a parallel job.
    pub(crate) running_beside: Vec<ShownLock>,
    pub(crate) control: JobControl,
    /// Its latest run.
    pub(crate) last: Option<JobRun>,
}

impl ShownJob {
    /// Returns the runs that are under way.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &ShownLock> {
        self.running.iter().chain(&self.running_beside)
    }

    /// Returns the request to stop the runs that are under way, if there is one.
    pub(crate) fn stop(&self) -> Option<&JobStop> {
        let stop = self.control.stop.as_ref()?;
        let is_meant = |run: &ShownLock| match run.slot {
            None => stop.run == run.token,
            Some(_) => run.since.is_some_and(|since| since <= stop.at),
        };
        self.runs().any(is_meant).then_some(stop)
    }

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
pub(crate) type JobDetails = Result<JobPage, String>;

/// A job and its runs.
#[derive(Clone, Debug)]
pub(crate) struct JobHistory {
    pub(crate) job: ShownJob,
    /// Its last runs, the oldest first.
    pub(crate) runs: Vec<JobRun>,
}

/// What the page of a job shows.
#[derive(Clone, Debug)]
pub(crate) struct JobPage {
    pub(crate) history: JobHistory,
    /// `None` if the servers know no schedule of it.
    pub(crate) schedule: Option<StoredSchedule>,
}

pub(super) async fn names(redlock: Redlock) -> JobNames {
    let listed: Vec<_> = redlock.claimed_jobs().take(MAX_JOBS + 1).collect().await;
    // The error of a set that is down is the last item.
    let error = listed.iter().find_map(|name| name.as_ref().err()).map(ToString::to_string);
    let mut names: Vec<_> = listed.into_iter().flatten().collect();
    let more = names.len() > MAX_JOBS;
    names.truncate(MAX_JOBS);
    names.sort_unstable();
    JobNames { names, more, error }
}

/// Reads what a page shows of its jobs.
pub(super) async fn read(
    redlock: Redlock,
    (mut listing, names): (JobListing, Vec<Arc<str>>),
    pace: Arc<BatchPace>,
    reading: Arc<Reading<JobListing>>,
) -> JobListing {
    for batch in names.chunks(BATCH_SIZE) {
        let (jobs, error) = pace.batch(read_batch(&redlock, batch)).await;
        let is_in_vain = jobs.is_empty();
        listing.jobs.extend(jobs);
        if let Some(error) = error {
            listing.error = Some(error.to_string());
            if is_in_vain {
                break;
            }
        }
        if listing.jobs.len() < names.len() && reading.is_wanted() {
            reading.show(listing.clone());
        }
    }
    listing
}

/// Reads the jobs of each set on its own. Also returns why some are missing.
async fn read_batch(redlock: &Redlock, names: &[Arc<str>]) -> (Vec<ShownJob>, Option<LockError>) {
    let of_set = async |(place, set): (Option<SetPlace>, &Redlock)| {
        let is_there = |name: &&Arc<str>| SetPlace::of(redlock, Subject::Job, name) == place;
        let names: Vec<_> = names.iter().filter(is_there).cloned().collect();
        read_of_set(set, &names).await
    };
    let (mut jobs, mut error) = (Vec::new(), None);
    for found in join_all(each_set(redlock).map(of_set)).await {
        match found {
            Ok(found) => jobs.extend(found),
            Err(found) => error = error.or(Some(found)),
        }
    }
    jobs.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    (jobs, error)
}

async fn read_of_set(redlock: &Redlock, names: &[Arc<str>]) -> Result<Vec<ShownJob>, LockError> {
    let controls = redlock.job_controls(names).await?;
    let jobs = names.iter().zip(controls).map(async |(name, control)| {
        Ok::<_, LockError>(read_job(redlock, Arc::clone(name), control).await?.job)
    });
    try_join_all(jobs).await
}

async fn read_job(
    redlock: &Redlock,
    name: Arc<str>,
    control: JobControl,
) -> Result<JobHistory, LockError> {
    let lock = redlock.inspect(Resource::of_job(&name)?);
    let (lock, runs) = tokio::try_join!(lock, redlock.job_history(&name))?;
    // Only a run of a parallel job is in the history and has a slot.
    let may_have_slots = runs.iter().any(|run| run.result == JobRunResult::Open);
    let locks = if may_have_slots {
        redlock.job_holders(&name).await?
    } else {
        lock.into_iter().filter(|lock| lock.is_quorum).collect()
    };
    let mut locks: Vec<_> = locks.iter().map(ShownLock::from).collect();
    if locks.iter().any(|lock| lock.slot.is_some()) {
        // The job's lock is held while a tick is claimed.
        locks.retain(|lock| lock.slot.is_some());
    }
    let mut locks = locks.into_iter();
    let (running, running_beside, last) = (locks.next(), locks.collect(), runs.last().cloned());
    Ok(JobHistory { job: ShownJob { name, running, running_beside, control, last }, runs })
}

pub(super) async fn read_one(redlock: Redlock, name: String) -> JobDetails {
    let read = async {
        let (control, schedule) =
            tokio::try_join!(redlock.job_control(&name), redlock.job_schedule(&name))?;
        let history = read_job(&redlock, name.into(), control).await?;
        Ok(JobPage { history, schedule })
    };
    read.await.map_err(|error: LockError| error.to_string())
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn batches_take_a_tenth() {
        let (pace, begun) = (BatchPace::default(), Instant::now());
        let batch = || pace.batch(async { tokio::time::sleep(Duration::from_millis(100)).await });
        // They are batches of two pages, for instance.
        join_all([batch(), batch(), batch()]).await;
        assert_eq!(begun.elapsed(), Duration::from_millis(2_100));
    }

    #[test]
    fn page_has_its_names() {
        let names = (0..250).map(|number| format!("{number:03}").into()).collect();
        let names = JobNames { names, ..JobNames::default() };
        for (wanted, number, first, count) in
            [(0, 1, "000", 100), (2, 2, "100", 100), (9, 3, "200", 50)]
        {
            let (listing, names) = names.page(wanted);
            assert_eq!(listing.paging, Paging::new(250, 100, wanted));
            assert_eq!(listing.paging.number, number);
            assert_eq!((&*names[0], names.len()), (first, count));
        }
    }
}
