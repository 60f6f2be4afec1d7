//! The latest snapshot of each kind.

use std::{future::IntoFuture as _, sync::Arc};

use futures_util::future::join_all;
use tokio::sync::Semaphore;
use tower_redlock::{Redlock, diagnosis::Diagnosis};

use super::{
    cached_value::{Cached, CachedByName, FleetSnapshot, RESTING},
    jobs::{self, BatchPace, JobDetails, JobListing, JobNames},
    locks::{self, LockDetails, LockListing},
    once::{self, OnceDetails},
};
use crate::access::Subject;

/// Maximum number of single names that are read at a time.
const MAX_SINGLE_READS: usize = 32;

/// The latest snapshots of each kind.
#[derive(Debug)]
pub(crate) struct FleetSnapshots {
    redlock: Redlock,
    locks: Arc<Cached<LockListing>>,
    nodes: Arc<Cached<Diagnosis>>,
    job_names: Arc<Cached<JobNames>>,
    /// The pages of jobs, by number.
    jobs: CachedByName<JobListing>,
    batches: Arc<BatchPace>,
    lock: CachedByName<LockDetails>,
    job: CachedByName<JobDetails>,
    once: CachedByName<OnceDetails>,
    single: Semaphore,
}

/// `None` if the first read takes long.
type LatestSnapshot<T> = Option<Arc<FleetSnapshot<T>>>;

impl FleetSnapshots {
    pub(crate) fn new(redlock: Redlock) -> Self {
        Self {
            redlock,
            locks: Arc::new(Cached::new(0)),
            nodes: Arc::new(Cached::new(RESTING)),
            job_names: Arc::new(Cached::new(0)),
            jobs: CachedByName::default(),
            batches: Arc::default(),
            lock: CachedByName::default(),
            job: CachedByName::default(),
            once: CachedByName::default(),
            single: Semaphore::new(MAX_SINGLE_READS),
        }
    }

    /// Returns every lock of the fleet.
    pub(crate) async fn locks(&self) -> LatestSnapshot<LockListing> {
        self.locks.get(|reading| locks::read(self.redlock.clone(), reading)).await
    }

    /// Returns the nodes, without their keys: counting them would scan every server.
    pub(crate) async fn nodes(&self) -> LatestSnapshot<Diagnosis> {
        let read = |_| self.redlock.diagnosis().probe(false).count_keys(false).into_future();
        self.nodes.get(read).await
    }

    /// Returns a page of the jobs of the fleet. Only the names of the other jobs are read.
    pub(crate) async fn jobs(&self, page: usize) -> LatestSnapshot<JobListing> {
        let names = self.job_names.get(|_| jobs::names(self.redlock.clone())).await?;
        let page = names.value.page(page);
        let cached = self.jobs.of(&page.0.paging.number.to_string());
        let read = |reading| {
            jobs::read(self.redlock.clone(), page.clone(), Arc::clone(&self.batches), reading)
        };
        cached.get(read).await
    }

    /// Returns all pages of the jobs of the fleet, as far as they were read.
    pub(crate) async fn all_jobs(&self) -> Vec<LatestSnapshot<JobListing>> {
        let first = self.jobs(1).await;
        let pages = first.as_ref().map_or(0, |snapshot| snapshot.value.paging.pages);
        let others = join_all((2..=pages).map(|page| self.jobs(page))).await;
        [first].into_iter().chain(others).collect()
    }

    pub(crate) async fn lock(&self, name: &str) -> LatestSnapshot<LockDetails> {
        let _permit = self.single.acquire().await;
        let read = |_| locks::read_one(self.redlock.clone(), name.to_owned());
        self.lock.of(name).get(read).await
    }

    pub(crate) async fn job(&self, name: &str) -> LatestSnapshot<JobDetails> {
        let _permit = self.single.acquire().await;
        let read = |_| jobs::read_one(self.redlock.clone(), name.to_owned());
        self.job.of(name).get(read).await
    }

    /// Reads a job now, for a question about the run that is under way.
    pub(crate) async fn job_now(&self, name: &str) -> JobDetails {
        let _permit = self.single.acquire().await;
        jobs::read_one(self.redlock.clone(), name.to_owned()).await
    }

    pub(crate) async fn once(&self, key: &str) -> LatestSnapshot<OnceDetails> {
        let _permit = self.single.acquire().await;
        let read = |_| once::read(self.redlock.clone(), key.to_owned());
        self.once.of(key).get(read).await
    }

    /// Makes the next viewer read again what an action may have changed.
    pub(crate) fn outdate(&self, subject: Subject, name: &str) {
        match subject {
            Subject::Lock => {
                self.locks.outdate();
                self.lock.outdate(name);
            }
            Subject::Job => {
                self.jobs.outdate_all();
                self.job.outdate(name);
            }
            Subject::Key => self.once.outdate(name),
        }
    }
}
