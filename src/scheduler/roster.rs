//! The jobs of a scheduler on this replica, and the number of their tasks.

use std::sync::Arc;

use tokio::sync::watch;

use super::{StartError, UnknownJob, shared_job::SharedJob};
use crate::{
    protocol::Op,
    sync::{Mutex, Notify},
};

/// The jobs of a scheduler on this replica.
///
/// # Invariants
///
/// No two jobs have the same name, and there are at most [`Op::MAX_JOBS`]. Each job is listed until its
/// task has ended.
pub(super) struct Roster {
    /// The jobs in the order in which they were added.
    jobs: Mutex<Vec<Arc<SharedJob>>>,
    /// Number of job tasks that have not ended. Sent with each change of the jobs.
    alive: watch::Sender<usize>,
    /// Notified when the servers keep their maximum number of jobs.
    pub(super) is_full: Notify,
    /// Notified when a run of a job is seen on another replica.
    pub(super) runs_elsewhere: Notify,
}

impl Roster {
    /// Each of the jobs has a task.
    pub(super) fn new(jobs: Vec<Arc<SharedJob>>) -> Self {
        assert!(jobs.len() <= Op::MAX_JOBS, "{} jobs", jobs.len());
        let alive = watch::Sender::new(jobs.len());
        Self {
            jobs: Mutex::new(jobs),
            alive,
            is_full: Notify::new(),
            runs_elsewhere: Notify::new(),
        }
    }

    pub(super) fn jobs(&self) -> Vec<Arc<SharedJob>> {
        crate::sync::lock(&self.jobs).clone()
    }

    pub(super) fn find(&self, name: &str) -> Result<Arc<SharedJob>, UnknownJob> {
        let jobs = crate::sync::lock(&self.jobs);
        let job = jobs.iter().find(|job| &*job.name == name).cloned();
        job.ok_or_else(|| UnknownJob { name: name.into() })
    }

    /// Adds a job, which gets a task.
    pub(super) fn add(&self, job: &Arc<SharedJob>) -> Result<(), StartError> {
        let mut jobs = crate::sync::lock(&self.jobs);
        if jobs.iter().any(|known| known.name == job.name) {
            return Err(StartError::DuplicateJob { job: Arc::clone(&job.name) });
        }
        if jobs.len() >= Op::MAX_JOBS {
            return Err(StartError::TooManyJobs { jobs: jobs.len() + 1 });
        }
        jobs.push(Arc::clone(job));
        drop(jobs);
        self.alive.send_modify(|tasks| *tasks += 1);
        Ok(())
    }

    /// Puts another job, which gets a task, in the place of one whose task is gone. Returns whether that was
    /// listed.
    pub(super) fn replace(&self, gone: &Arc<SharedJob>, job: &Arc<SharedJob>) -> bool {
        assert_eq!(gone.name, job.name, "a job is replaced under its name");
        let mut jobs = crate::sync::lock(&self.jobs);
        let Some(known) = jobs.iter_mut().find(|known| Arc::ptr_eq(known, gone)) else {
            return false;
        };
        *known = Arc::clone(job);
        drop(jobs);
        self.alive.send_modify(|tasks| *tasks += 1);
        true
    }

    /// Removes a job whose task ends.
    pub(super) fn remove(&self, job: &Arc<SharedJob>) {
        crate::sync::lock(&self.jobs).retain(|known| !Arc::ptr_eq(known, job));
    }

    /// Counts a task as ended.
    pub(super) fn task_ended(&self) {
        self.alive.send_modify(|tasks| {
            debug_assert!(*tasks > 0, "a task ends once");
            *tasks -= 1;
        });
    }

    /// Notifies those that wait for a change: a job has changed.
    pub(super) fn note_change(&self) {
        self.alive.send_modify(|_| {});
    }

    /// Returns a receiver of the number of tasks that have not ended, sent with each change.
    pub(super) fn changes(&self) -> watch::Receiver<usize> {
        self.alive.subscribe()
    }
}
