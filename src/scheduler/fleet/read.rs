//! Reads what the nodes store about jobs.

use std::{sync::Arc, time::Duration};

use super::{
    control::JobControl,
    history::{JobRun, JobRuns},
};
use crate::{
    error::LockError,
    lock::{Holder, Redlock, documents},
    protocol::JobDocument,
    resource::Resource,
    schedule::WallTime,
};

/// Interval between two reads of the control of all jobs, on each replica, without its jitter of a
/// quarter. A requested run starts within it.
pub(in super::super) const CONTROL_INTERVAL: Duration = Duration::from_secs(4);

/// # Jobs of a fleet
impl Redlock {
    /// Returns who has paused a job on the whole fleet, until when, and which runs are requested. What is
    /// over by the clock of the nodes is left out. The job need not be known to this process.
    ///
    /// # Errors
    ///
    /// [`LockError::NoQuorum`] if too few nodes answered, and [`LockError::InvalidResource`].
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    pub async fn job_control(&self, name: &str) -> Result<JobControl, LockError> {
        Ok(self.job_controls([name]).await?.pop().unwrap_or_default())
    }

    /// Returns the latest runs of a job on the whole fleet, at most 50, the oldest first: those that have
    /// ended, those that were interrupted, and those in progress that were triggered, or are of a
    /// [parallel](crate::Job::parallel) job. Each replica stores a run
    /// when it ends, on a majority of the servers. The job need not be known to this process.
    ///
    /// # Errors
    ///
    /// As [`job_control`](Self::job_control).
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    pub async fn job_history(&self, name: &str) -> Result<Vec<JobRun>, LockError> {
        let name = checked(self, name)?;
        let texts = documents::read(self, JobDocument::History, &[name]).await?;
        Ok(texts.iter().flat_map(|text| JobRuns::from_text(text).into_runs()).collect())
    }

    /// Returns who runs a job now: the holder of its lock, `job:<name>`, and for a
    /// [parallel](crate::Job::parallel) job the holders of its slots, `slot:<number>:job:<name>`. The lock of
    /// a parallel job is held only while a tick is claimed, or the end of a run is stored. The job need not be
    /// known to this process.
    ///
    /// ```
    /// use std::{convert::Infallible, time::Duration};
    /// use tower_redlock::{Redlock, Schedule};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let redlock = Redlock::embedded();
    /// let tick = redlock.job_tick("report", Schedule::every(Duration::from_secs(3_600)));
    /// tick.run(async |_| {
    ///     let holders = redlock.job_holders("report").await.unwrap();
    ///     assert_eq!(holders[0].owner.as_ref(), Some(redlock.owner()));
    ///     Ok::<_, Infallible>(())
    /// })
    /// .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`job_control`](Self::job_control).
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    pub async fn job_holders(&self, name: &str) -> Result<Vec<Holder>, LockError> {
        let resource = Resource::of_job(name)?;
        let slots = resource
            .names()
            .flat_map(|name| Resource::of_slots(name, Resource::MAX_SLOTS).shared_names().to_vec());
        let names: Vec<_> = resource.shared_names().iter().cloned().chain(slots).collect();
        let holders = self.holders(&names.into()).await?;
        let is_run = |holder: &Holder| holder.is_quorum && holder.owner.is_some();
        Ok(holders.into_iter().flatten().filter(is_run).collect())
    }

    /// Returns [`job_control`](Self::job_control) of many jobs, in their order: one query for each 500
    /// jobs.
    ///
    /// # Errors
    ///
    /// As [`job_control`](Self::job_control).
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    pub async fn job_controls<I>(&self, names: I) -> Result<Vec<JobControl>, LockError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let names = names.into_iter().map(|name| checked(self, name.as_ref()));
        let names: Vec<_> = names.collect::<Result<_, _>>()?;
        let now = WallTime::since_epoch(self.nodes_wall());
        let mut controls = controls(self, &names).await?;
        for control in &mut controls {
            let _ = control.expire(now);
        }
        Ok(controls)
    }
}

/// Returns the name of a job, if it is valid and belongs to a set of this manager.
pub(super) fn checked(redlock: &Redlock, name: &str) -> Result<Arc<str>, LockError> {
    Resource::of_job(name).and_then(|_| redlock.check_set(name))?;
    Ok(name.into())
}

/// Returns the controls of jobs, in their order.
pub(in super::super) async fn controls(
    redlock: &Redlock,
    jobs: &[Arc<str>],
) -> Result<Vec<JobControl>, LockError> {
    let texts = documents::read(redlock, JobDocument::Control, jobs).await?;
    Ok(texts.iter().map(|text| JobControl::from_text(text)).collect())
}
