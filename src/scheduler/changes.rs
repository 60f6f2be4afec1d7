//! Jobs that are added, replaced and removed while the scheduler runs.

use std::sync::Arc;

use super::{
    Job, SchedulerHandle, StartError, UnknownJob,
    check::check_all,
    shared_job::{Retirement, SharedJob},
    tasks::spawn,
};
use crate::guard::is_inside;

/// # Changes while it runs
///
/// They concern this replica: the others make the same changes, as they start the same jobs.
impl SchedulerHandle {
    /// Adds a job, and starts it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tower_redlock::{Job, Redlock, Schedule, Scheduler};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let hourly = Schedule::every(Duration::from_secs(3600));
    /// let jobs = Scheduler::new(Redlock::embedded()).start()?;
    /// jobs.add(Job::new("report", hourly, |_| async {}))?;
    ///
    /// let daily = Schedule::every(Duration::from_secs(86_400));
    /// jobs.replace(Job::new("report", daily, |_| async {}))?;
    /// jobs.remove("report").await?;
    /// assert!(jobs.jobs().is_empty());
    /// # jobs.shutdown(Duration::from_secs(1)).await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Scheduler::start`](super::Scheduler::start), with [`StartError::DuplicateJob`] also for a job
    /// that is still being [removed](Self::remove); and [`StartError::ShuttingDown`]. The job was not added
    /// then.
    pub fn add(&self, job: Job) -> Result<(), StartError> {
        self.check(&job)?;
        let state = Arc::new(SharedJob::of(&job));
        self.shared.roster.add(&state)?;
        spawn(&self.shared, state, job);
        Ok(())
    }

    /// Replaces the schedule, work and options of the job with this name. A current run ends as it was
    /// begun, and the next tick is one of the new schedule: see [Good to know](super#good-to-know) for a
    /// changed schedule. Counters, pauses and pending triggers stay. A second replacement before the end of
    /// the run takes the place of the first.
    ///
    /// # Errors
    ///
    /// As [`Scheduler::start`](super::Scheduler::start), [`StartError::UnknownJob`] also for a job that is
    /// being [removed](Self::remove), and [`StartError::ShuttingDown`]. The job continues unchanged then.
    pub fn replace(&self, job: Job) -> Result<(), StartError> {
        self.check(&job)?;
        let unknown = || StartError::UnknownJob { job: job.name.as_str().into() };
        let state = self.find(&job.name).map_err(|_| unknown())?;
        if state.is_removed() {
            return Err(unknown());
        }
        if !state.is_gone() {
            state.retire(Retirement::Replaced(Box::new(job)));
            return Ok(());
        }
        // Its task ended by a panic: begin anew.
        let new = Arc::new(SharedJob::of(&job));
        if !self.shared.roster.replace(&state, &new) {
            return Err(unknown());
        }
        spawn(&self.shared, new, job);
        Ok(())
    }

    /// Removes a job from this replica. Starts no more runs of it, and waits until the current one has
    /// ended, which it is not asked to. Then its name is free for [`add`](Self::add). Triggers of this
    /// replica that wait are cancelled; [requests](Self::trigger) to the fleet stay for other replicas. The
    /// servers keep its claim and history: see [`Redlock::forget_job`](crate::Redlock::forget_job).
    ///
    /// Called by a run of the job itself it returns at once, and the job is removed when that run has ended.
    /// A task that the run started, and awaits, is not seen as a part of it: the two wait for each other
    /// until [`max_run`](super::Job::max_run).
    ///
    /// # Errors
    ///
    /// [`UnknownJob`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not cancel the removal.
    pub async fn remove(&self, name: &str) -> Result<(), UnknownJob> {
        let job = self.find(name)?;
        let mut changes = self.shared.roster.changes();
        job.retire(Retirement::Removed);
        if job.is_gone() {
            // Its task ended by a panic.
            self.shared.roster.remove(&job);
        }
        // A run that removes its own job ends before its job does.
        while !is_inside(&job) && !job.is_gone() && changes.changed().await.is_ok() {}
        Ok(())
    }

    fn check(&self, job: &Job) -> Result<(), StartError> {
        let redlock = &self.shared.redlock;
        if redlock.is_forked() {
            return Err(StartError::Forked { built_in: redlock.built_in() });
        }
        if !self.shared.is_running() {
            return Err(StartError::ShuttingDown);
        }
        if redlock.is_closed() {
            return Err(StartError::Closed);
        }
        check_all(redlock, std::slice::from_ref(job))
    }
}
