//! What is read from the servers, for all viewers of the process at once.

mod cached;
mod jobs;
mod keys;
mod locks;
mod once;

use std::sync::Arc;

use tower_redlock::{Redlock, diagnosis::Diagnosis};

use cached::CachedByName;
pub(crate) use cached::Look;
pub(crate) use jobs::{JobDetails, JobListing, ShownJob};
pub(crate) use keys::{millis, unix_millis};
pub(crate) use locks::{LockDetails, LockListing, ShownLock};
pub(crate) use once::OnceDetails;

/// The name of looks that are not at a single name.
const ALL: &str = "";

/// The latest looks of each kind.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    locks: CachedByName<LockListing>,
    nodes: CachedByName<Diagnosis>,
    jobs: CachedByName<JobListing>,
    lock: CachedByName<LockDetails>,
    job: CachedByName<JobDetails>,
    once: CachedByName<OnceDetails>,
}

impl Looks {
    /// Every lock of the fleet. `None` while the first look takes long; so are the others.
    pub(crate) async fn locks(&self, redlock: &Redlock) -> Option<Arc<Look<LockListing>>> {
        let redlock = redlock.clone();
        self.locks.look(ALL, |partial| locks::read(redlock, partial)).await
    }

    /// The nodes, without their keys: counting them would scan every server.
    pub(crate) async fn nodes(&self, redlock: &Redlock) -> Option<Arc<Look<Diagnosis>>> {
        let request = redlock.diagnosis().probe(false).count_keys(false);
        self.nodes.look(ALL, |_| async { request.await }).await
    }

    pub(crate) async fn jobs(&self, redlock: &Redlock) -> Option<Arc<Look<JobListing>>> {
        let redlock = redlock.clone();
        self.jobs.look(ALL, |_| jobs::read(redlock)).await
    }

    pub(crate) async fn lock(
        &self,
        redlock: &Redlock,
        name: &str,
    ) -> Option<Arc<Look<LockDetails>>> {
        let (redlock, of) = (redlock.clone(), name.to_owned());
        self.lock.look(name, |_| locks::read_one(redlock, of)).await
    }

    pub(crate) async fn job(&self, redlock: &Redlock, name: &str) -> Option<Arc<Look<JobDetails>>> {
        let (redlock, of) = (redlock.clone(), name.to_owned());
        self.job.look(name, |_| jobs::read_one(redlock, of)).await
    }

    pub(crate) async fn once(
        &self,
        redlock: &Redlock,
        key: &str,
    ) -> Option<Arc<Look<OnceDetails>>> {
        let (redlock, of) = (redlock.clone(), key.to_owned());
        self.once.look(key, |_| once::read(redlock, of)).await
    }

    /// Makes the next viewer read again: an action has changed something.
    pub(crate) fn forget(&self) {
        self.locks.forget();
        self.jobs.forget();
        self.lock.forget();
        self.job.forget();
        self.once.forget();
    }
}
