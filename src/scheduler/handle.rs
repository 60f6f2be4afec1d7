//! The handle of a started scheduler: it controls, changes and stops the jobs.

use std::{convert::identity, fmt, sync::Arc, time::Duration};

use tokio::sync::broadcast;

use super::{
    ControlError, Job, JobCommand, JobEvent, JobPause, JobRun, JobState, JobStatus, StartError,
    Trigger, TriggerError, UnknownJob,
    fleet::CommandKind,
    job::check_all,
    job_task::CLOSED,
    shared::{Phase, SchedulerShared},
    shared_job::{Retirement, SharedJob},
    tasks::spawn,
};
use crate::{
    leader::{Leader, Leadership},
    lock::is_inside,
};

/// A scheduler that was started. Cheap to clone; dropping it stops nothing.
#[derive(Clone)]
pub struct SchedulerHandle {
    pub(super) shared: Arc<SchedulerShared>,
}

/// The runs that a shutdown dropped, left or cancelled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Jobs whose run was dropped at the end of the grace.
    pub stopped: Vec<Arc<str>>,
    /// Blocking jobs that still run, as they can't be stopped. Each keeps its lock until its work has
    /// ended, or until [`max_run`](super::Job::max_run).
    pub still_running: Vec<Arc<str>>,
    /// Requests for runs that were not started, by their [numbers](Trigger::id).
    pub cancelled: Vec<u64>,
}

impl SchedulerHandle {
    /// Stops the scheduler. Starts no more runs, requests the current ones to stop, waits for them for
    /// `grace`, then drops their work. Each lock is released after its work has ended. Returns when
    /// the reachable nodes have the releases. Work that blocks inside a poll, without being a
    /// [blocking job](super::Job::blocking), delays this until it returns.
    ///
    /// Called by a run of this scheduler, or by the callback of
    /// [`on_outcome`](super::Scheduler::on_outcome), it returns at once, with the run's job as still running, and
    /// the shutdown continues in a task of its own: it cannot wait for the run that waits for it. What it dropped
    /// or cancelled is logged then. A task that the run started, and awaits, is not seen as a part of it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not cancel the shutdown: runs continue until they end by
    /// themselves. A second call resumes it.
    pub async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        let inside = self.shared.roster.jobs().into_iter().filter(is_inside);
        let still_running: Vec<_> = inside.map(|job| Arc::clone(&job.name)).collect();
        let is_hook = self.shared.events.outcome_hook.as_ref().is_some_and(is_inside);
        if still_running.is_empty() && !is_hook {
            return self.shut_down(grace).await;
        }
        self.shared.enter(Phase::Stopping);
        let handle = self.clone();
        self.shared.executor.spawner.spawn(Box::pin(async move {
            let ShutdownReport { stopped, still_running, cancelled } =
                handle.shut_down(grace).await;
            crate::log::info!(
                ?stopped,
                ?still_running,
                ?cancelled,
                "the scheduler was shut down by one of its runs"
            );
        }));
        ShutdownReport { still_running, ..ShutdownReport::default() }
    }

    async fn shut_down(&self, grace: Duration) -> ShutdownReport {
        let SchedulerShared { redlock, roster, leader, events, .. } = &*self.shared;
        self.shared.enter(Phase::Stopping);
        let mut tasks = roster.changes();
        tokio::select! {
            biased;
            _ = tasks.wait_for(|tasks| *tasks == 0) => {}
            () = redlock.sleep(grace) => {}
        }
        let is_running = |job: &Arc<SharedJob>| job.running().is_some();
        let mut late = roster.jobs();
        late.retain(is_running);
        self.shared.enter(Phase::Stopped);
        let gone = || roster.jobs().iter().all(|job| job.is_gone_or_blocks());
        // A job reports its end before it leaves the count.
        while !gone() && tasks.changed().await.is_ok() {}
        if let Some(hook) = &events.outcome_hook {
            hook.drain(redlock, grace).await;
        }
        self.shared.enter(Phase::Left);
        if let Some(leader) = leader {
            leader.stop().await;
        }
        redlock.released().await;
        // A job may have begun to block meanwhile.
        let still_running = names(roster.jobs(), is_running);
        let stopped = names(late, |job| job.was_stopped());
        let mut cancelled: Vec<_> = roster.jobs().iter().flat_map(|job| job.cancelled()).collect();
        cancelled.sort_unstable();
        ShutdownReport { stopped, still_running, cancelled }
    }

    /// Pauses a job on the whole fleet: see [`Redlock::pause_job`](crate::Redlock::pause_job). The command
    /// fails with [`ControlError::UnknownJob`](super::ControlError::UnknownJob) if this scheduler has no
    /// such job. For this replica alone, see [`pause_here`](Self::pause_here).
    pub fn pause(&self, name: &str) -> JobCommand {
        JobCommand::here(&self.shared.redlock, self.find(name), CommandKind::Pause, drop)
    }

    /// Ends the [pause](Self::pause) of a job on the whole fleet: see
    /// [`Redlock::resume_job`](crate::Redlock::resume_job). A job that is paused
    /// [here](Self::pause_here) stays so.
    pub fn resume(&self, name: &str) -> JobCommand {
        JobCommand::here(&self.shared.redlock, self.find(name), CommandKind::Resume, drop)
    }

    /// Requests one run of a job by any replica of the fleet: see
    /// [`Redlock::trigger_job`](crate::Redlock::trigger_job). For a run by this replica, whose outcome can
    /// be awaited, see [`trigger_here`](Self::trigger_here).
    pub fn trigger(&self, name: &str) -> JobCommand<u64> {
        JobCommand::here(&self.shared.redlock, self.find(name), CommandKind::Trigger, identity)
    }

    /// Requests that the run of a job is stopped, wherever it is: see
    /// [`Redlock::stop_job`](crate::Redlock::stop_job).
    pub fn stop(&self, name: &str) -> JobCommand<u64> {
        JobCommand::here(&self.shared.redlock, self.find(name), CommandKind::Stop, identity)
    }

    /// Returns the latest runs of a job on the whole fleet: see
    /// [`Redlock::job_history`](crate::Redlock::job_history).
    ///
    /// # Errors
    ///
    /// [`ControlError::UnknownJob`], and [`ControlError::Nodes`] if too few nodes answered.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only reads.
    pub async fn history(&self, name: &str) -> Result<Vec<JobRun>, ControlError> {
        let job = Arc::clone(&self.find(name)?.name);
        let runs = self.shared.redlock.job_history(&job).await;
        runs.map_err(|error| ControlError::Nodes { job, error: Box::new(error) })
    }

    /// Runs a job once, here and now, if its lock is free, even while it is paused. Returns at once; the
    /// [`Trigger`], which need not be awaited, and [`events`](Self::events) report the result. Such a
    /// run does not count as a tick: the schedule ignores it, but a tick that comes during it overlaps. A replica
    /// that does not [lead](Self::is_active) skips it.
    ///
    /// # Errors
    ///
    /// [`TriggerError`]: there is no such job, it has ended, the scheduler is being shut down, or
    /// 1,000 of its triggered runs are pending.
    pub fn trigger_here(&self, name: &str) -> Result<Trigger, TriggerError> {
        let job = self.find(name)?;
        let redlock = &self.shared.redlock;
        if !self.shared.is_running() {
            return Err(TriggerError::ShuttingDown);
        }
        if redlock.is_closed() {
            let job = Arc::clone(&job.name);
            return Err(TriggerError::Ended { job, reason: CLOSED.into() });
        }
        let (trigger, pending) = Trigger::new(self.shared.next_trigger(), Arc::clone(&job));
        job.queue_trigger(pending)?;
        Ok(trigger)
    }

    /// Starts no more ticks of a job on this replica, until [`resume_here`](Self::resume_here) or the end
    /// of the process. A current run continues, and so do the other replicas: [`pause`](Self::pause) is for
    /// all.
    ///
    /// # Errors
    ///
    /// [`UnknownJob`].
    pub fn pause_here(&self, name: &str) -> Result<(), UnknownJob> {
        let job = self.find(name)?;
        let (by, at) =
            (Arc::clone(self.shared.redlock.owner()), self.shared.wall_timer.now().into());
        job.set_paused_here(Some(JobPause { by, why: None, at, until: None }));
        Ok(())
    }

    /// Ends a [`pause_here`](Self::pause_here). Ticks that no replica has run meanwhile are missed. A pause
    /// of the whole fleet stays.
    ///
    /// # Errors
    ///
    /// [`UnknownJob`].
    pub fn resume_here(&self, name: &str) -> Result<(), UnknownJob> {
        self.find(name).map(|job| job.set_paused_here(None))
    }

    /// Returns whether this replica may run jobs now: false only if the scheduler has a
    /// [leader](super::Scheduler::leader_only), and that is another replica.
    pub fn is_active(&self) -> bool {
        // The scheduler's tasks may not be polled, and not know of a loss.
        let is_leader = self.shared.leader.as_ref().is_none_or(Leader::is_leader);
        self.shared.control().leads && is_leader
    }

    /// The status of each job, as last seen from here. Sends nothing.
    pub fn jobs(&self) -> Vec<JobStatus> {
        self.shared.roster.jobs().iter().map(|job| self.status(job)).collect()
    }

    fn status(&self, job: &SharedJob) -> JobStatus {
        let mut status = job.status(self.shared.wall_timer.now(), self.shared.redlock.now());
        match &mut status.state {
            JobState::Running | JobState::Ended { .. } => {}
            state if self.shared.redlock.is_closed() => {
                *state = JobState::Ended { reason: CLOSED.into() };
            }
            JobState::StandingBy { leader } => {
                let candidate = self.shared.leader.as_ref();
                let transitions = candidate.map(Leader::transitions);
                if let Some(Leadership::Standby { leader: known }) =
                    transitions.map(|transitions| transitions.borrow().clone())
                {
                    *leader = known;
                }
            }
            _ => {}
        }
        status
    }

    /// Returns a receiver of this replica's events from now on. A receiver that is further behind than the
    /// [capacity](super::Scheduler::event_capacity) gets the number of lost events.
    pub fn events(&self) -> broadcast::Receiver<JobEvent> {
        self.shared.events.receivers.subscribe()
    }

    fn find(&self, name: &str) -> Result<Arc<SharedJob>, UnknownJob> {
        self.shared.roster.find(name)
    }
}

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
        if !self.shared.is_running() {
            return Err(StartError::ShuttingDown);
        }
        if redlock.is_closed() {
            return Err(StartError::Closed);
        }
        check_all(redlock, std::slice::from_ref(job), self.shared.leader.is_some())
    }
}

/// Returns the names of the jobs for which `is_listed` holds.
fn names(jobs: Vec<Arc<SharedJob>>, is_listed: impl Fn(&Arc<SharedJob>) -> bool) -> Vec<Arc<str>> {
    jobs.into_iter().filter(is_listed).map(|job| Arc::clone(&job.name)).collect()
}

impl fmt::Debug for SchedulerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchedulerHandle").field("jobs", &self.jobs()).finish_non_exhaustive()
    }
}
