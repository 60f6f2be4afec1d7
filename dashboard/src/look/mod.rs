//! What is read from the servers, for all viewers of the process at once.

mod cached;
mod jobs;
mod keys;
mod locks;
mod once;

use std::sync::Arc;

use tokio::sync::Semaphore;
use tower_redlock::{Redlock, diagnosis::Diagnosis};

pub(crate) use cached::Look;
use cached::{Cached, CachedByName, Pace};
use jobs::{BatchPace, JobNames};
pub(crate) use jobs::{JobDetails, JobListing, ShownJob};
pub(crate) use keys::{millis, unix_millis};
pub(crate) use locks::{HeldLock, LockDetails, LockListing, ShownLock};
pub(crate) use once::OnceDetails;

use crate::access::Action;

/// Maximum number of looks at single names at a time.
const MAX_SINGLE_LOOKS: usize = 32;

/// The latest looks of each kind.
#[derive(Debug)]
pub(crate) struct Looks {
    locks: Arc<Cached<LockListing>>,
    nodes: Arc<Cached<Diagnosis>>,
    job_names: Arc<Cached<JobNames>>,
    /// By the number of the page.
    jobs: CachedByName<JobListing>,
    batches: Arc<BatchPace>,
    lock: CachedByName<LockDetails>,
    job: CachedByName<JobDetails>,
    once: CachedByName<OnceDetails>,
    single: Semaphore,
}

impl Default for Looks {
    fn default() -> Self {
        Self {
            locks: Arc::new(Cached::new(Pace::Paused)),
            nodes: Arc::new(Cached::new(Pace::Tenth)),
            job_names: Arc::new(Cached::new(Pace::Paused)),
            jobs: CachedByName::default(),
            batches: Arc::default(),
            lock: CachedByName::default(),
            job: CachedByName::default(),
            once: CachedByName::default(),
            single: Semaphore::new(MAX_SINGLE_LOOKS),
        }
    }
}

impl Looks {
    /// Every lock of the fleet. `None` while the first look takes long; so are the others.
    pub(crate) async fn locks(&self, redlock: &Redlock) -> Option<Arc<Look<LockListing>>> {
        self.locks.look(|partial| locks::read(redlock.clone(), partial)).await
    }

    /// The nodes, without their keys: counting them would scan every server.
    pub(crate) async fn nodes(&self, redlock: &Redlock) -> Option<Arc<Look<Diagnosis>>> {
        let read = |_| {
            let request = redlock.diagnosis().probe(false).count_keys(false);
            async { request.await }
        };
        self.nodes.look(read).await
    }

    /// A page of the jobs of the fleet: of the others, only the names are read.
    pub(crate) async fn jobs(
        &self,
        redlock: &Redlock,
        page: usize,
    ) -> Option<Arc<Look<JobListing>>> {
        let names = self.job_names.look(|_| jobs::names(redlock.clone())).await?;
        let page = names.value.page(page);
        let read =
            |partial| jobs::read(redlock.clone(), page.clone(), Arc::clone(&self.batches), partial);
        self.jobs.of(&page.0.number.to_string()).look(read).await
    }

    pub(crate) async fn lock(
        &self,
        redlock: &Redlock,
        name: &str,
    ) -> Option<Arc<Look<LockDetails>>> {
        let _permit = self.single.acquire().await;
        let read = |_| locks::read_one(redlock.clone(), name.to_owned());
        self.lock.of(name).look(read).await
    }

    pub(crate) async fn job(&self, redlock: &Redlock, name: &str) -> Option<Arc<Look<JobDetails>>> {
        let _permit = self.single.acquire().await;
        let read = |_| jobs::read_one(redlock.clone(), name.to_owned());
        self.job.of(name).look(read).await
    }

    pub(crate) async fn once(
        &self,
        redlock: &Redlock,
        key: &str,
    ) -> Option<Arc<Look<OnceDetails>>> {
        let _permit = self.single.acquire().await;
        let read = |_| once::read(redlock.clone(), key.to_owned());
        self.once.of(key).look(read).await
    }

    /// Makes the next viewer read again what an action may have changed.
    pub(crate) fn outdate(&self, action: Action, subject: &str) {
        match action {
            Action::BreakLock => {
                self.locks.outdate();
                self.lock.outdate(subject);
            }
            Action::TriggerJob | Action::PauseJob | Action::ResumeJob => {
                self.jobs.outdate_all();
                self.job.outdate(subject);
            }
            Action::MarkDone | Action::ForgetKey => self.once.outdate(subject),
        }
    }
}
