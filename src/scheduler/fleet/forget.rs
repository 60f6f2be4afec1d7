//! Removes what the nodes keep of a job.

use std::{sync::Arc, time::Duration};

use super::{command::control_lock, error::ControlError, unused::unused};
use crate::{
    error::{LockError, SlotHolder},
    lock::{Holder, Redlock, documents},
    resource::Resource,
};

/// # Jobs that are gone
impl Redlock {
    /// Deletes what the servers keep of a job: the claim of its ticks, its pause and requested runs, and its
    /// history. Frees its place among the 10,000 jobs of the namespace. Returns whether a server kept
    /// something.
    ///
    /// [Remove](crate::SchedulerHandle::remove) the job from all replicas first: one that still
    /// has it stores it again with its next tick. If a job of this name is added later, it is a new one:
    /// ticks before that do not belong to it.
    ///
    /// # Errors
    ///
    /// [`ControlError::Incomplete`], with the nodes that did not confirm it: run it again once they answer.
    /// Until then, such a node keeps what it had, and teaches it to servers that lost their data. A new job of
    /// this name may then find the former claim, which delays no tick, as its ticks lie in the past; the
    /// former history, until its first run; and the former pause, until it is resumed.
    /// [`ControlError::Nodes`] with [`LockError::Held`](LockError::Held) while the job runs.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not undo it. Run it again.
    pub async fn forget_job(&self, name: &str) -> Result<bool, ControlError> {
        self.forget(name, None).await
    }

    /// [Forgets](Self::forget_job) a job if it has been [unused](Self::unused_jobs) for that long. Checks that
    /// again under the job's lock. Returns false if it is in use, or was forgotten already.
    ///
    /// A [`Scheduler`](crate::Scheduler) does this with all jobs, once a day: see
    /// [`forget_unused_after`](crate::Scheduler::forget_unused_after).
    ///
    /// # Errors, cancel safety
    ///
    /// As [`forget_job`](Self::forget_job).
    pub async fn forget_unused_job(
        &self,
        name: &str,
        unused_for: Duration,
    ) -> Result<bool, ControlError> {
        self.forget(name, Some(unused_for)).await
    }

    async fn forget(&self, name: &str, unused_for: Option<Duration>) -> Result<bool, ControlError> {
        let job: Arc<str> = name.into();
        let nodes = |error| ControlError::Nodes { job: Arc::clone(&job), error: Box::new(error) };
        let resource = Resource::of_job(&job).map_err(|error| ControlError::Invalid {
            job: Arc::clone(&job),
            reason: format!("not a name of a job: {error}").into(),
        })?;
        let commands = control_lock(self, &job).await?;
        let request = self.lock_own(Ok::<_, LockError>(resource.clone())).wait(Duration::ZERO);
        let lock = request.acquire_for_work().await.map_err(nodes)?;
        let running = self.job_holders(&job).await.map_err(nodes)?;
        if let Some(holder) =
            running.into_iter().find(|holder| resource.names().ne([&*holder.name]))
        {
            return Err(nodes(held(holder)));
        }
        if let Some(unused_for) = unused_for {
            let found = unused(self, std::slice::from_ref(&job), unused_for).await;
            if found.map_err(nodes)?.is_empty() {
                return Ok(false);
            }
        }
        let existed = documents::forget(self, &job, lock.fencing_token().get()).await;
        drop((lock, commands));
        crate::log::info!(%job, complete = existed.is_ok(), "a job is forgotten");
        existed.map_err(|votes| ControlError::Incomplete { job, votes })
    }
}

/// Returns the error for a run that has a slot.
fn held(holder: Holder) -> LockError {
    let Holder { name, owner, remaining: expires_in, votes, .. } = holder;
    let slot = Resource::slot_of(&name).map(|(slot, _)| slot);
    let slots = slot.map(|slot| SlotHolder { slot, owner: owner.clone(), expires_in });
    let slots = slots.into_iter().collect();
    LockError::Held {
        owner,
        expires_in,
        retry_after: None,
        lingers: false,
        slots,
        readers: 0,
        waiter: None,
        votes,
    }
}
