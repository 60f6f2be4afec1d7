//! The tasks of a scheduler: one for each job, and one for what they share.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;

use super::{
    Job, JobEventKind, JobState, SkipReason,
    attempts::message,
    driver::{CLOSED, Driver, REMOVED},
    expiry::forget_unused,
    leader_jobs::watch_leader,
    paused::{read_controls, watch_controls},
    shared::{Phase, SchedulerShared, refresh},
    shared_job::SharedJob,
};
use crate::{
    lock::claims::{self, JobHistory},
    random,
};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_DOUBLINGS: u32 = 6;

/// Reads the claims of all jobs at once, then spawns a task for each.
pub(super) async fn begin(shared: Arc<SchedulerShared>, jobs: Vec<Job>, alive: Vec<TaskGuard>) {
    let states: Vec<_> = alive.iter().map(|alive| Arc::clone(&alive.job)).collect();
    let Some(kept) = read_claims(&shared, &states).await else { return };
    read_controls(&shared).await;
    for ((alive, job), kept) in alive.into_iter().zip(jobs).zip(kept) {
        shared.spawner.spawn(Box::pin(run_job(Arc::clone(&shared), alive, job, Some(kept))));
    }
    let wall_timer = Arc::clone(&shared.wall_timer);
    tokio::select! {
        biased;
        () = wall_timer.run() => {}
        () = refresh(&shared) => {}
        () = watch_controls(&shared) => {}
        () = watch_leader(&shared) => {}
        () = forget_unused(&shared) => {}
        () = shared.ended() => {}
    }
}

/// Reads the claims of jobs until a quorum answers; `None` once the scheduler has ended, or all of them were
/// removed.
async fn read_claims(shared: &SchedulerShared, jobs: &[Arc<SharedJob>]) -> Option<Vec<JobHistory>> {
    let names: Vec<Arc<str>> = jobs.iter().map(|job| Arc::clone(&job.name)).collect();
    let mut control = shared.control.subscribe();
    let mut tries = 0;
    loop {
        match claims::read(&shared.redlock, &names, &[]).await {
            Ok(kept) => {
                if tries > 0 {
                    let jobs = names.len();
                    crate::log::info!(jobs, "a quorum of nodes answers: the scheduler begins");
                }
                return Some(kept);
            }
            Err(error) => {
                if tries == 0 {
                    crate::log::warn!(%error, "the scheduler waits for a quorum of nodes");
                }
                let error: Arc<str> = error.to_string().into();
                for job in jobs {
                    job.set_state(JobState::WaitingForNodes { error: Arc::clone(&error) });
                }
                let pause = random::within(&(FIRST_PAUSE..=2 * FIRST_PAUSE)) * (1 << tries);
                tries = (tries + 1).min(MAX_DOUBLINGS);
                tokio::select! {
                    biased;
                    () = shared.sleep(pause) => {}
                    _ = control.wait_for(|control| control.phase > Phase::Running) => {}
                }
            }
        }
        let is_removed = !jobs.is_empty() && jobs.iter().all(|job| job.is_removed());
        if is_removed || shared.control().phase > Phase::Running || shared.redlock.is_closed() {
            return None;
        }
    }
}

/// Runs a job, and then what replaces it. `kept`: what the nodes keep of it, if that was read.
pub(super) async fn run_job(
    shared: Arc<SchedulerShared>,
    alive: TaskGuard,
    mut job: Job,
    mut kept: Option<JobHistory>,
) {
    let state = Arc::clone(&alive.job);
    loop {
        let kept = if let Some(kept) = kept.take() {
            kept
        } else {
            let read = read_claims(&shared, std::slice::from_ref(&state)).await;
            let Some(kept) = read.and_then(|mut kept| kept.pop()) else { return };
            kept
        };
        let Job { schedule, options, work, .. } = job;
        let driver = Driver::new(&shared, &state, (schedule, options), work, kept);
        // `drive` catches panics, but the drop of the work is foreign code too.
        if let Err(panic) = AssertUnwindSafe(driver.drive()).catch_unwind().await {
            let panic = message(&*panic);
            state.set_ended(&format!("a panic outside of the work: {panic}"));
            crate::log::error!(job = %state.name, %panic, "the job has ended: a panic outside of its work");
            return;
        }
        if shared.control().phase > Phase::Running {
            return;
        }
        let Some(replacement) = state.take_replacement() else { return };
        crate::log::info!(job = %state.name, schedule = %replacement.schedule, "the job was replaced");
        job = replacement;
    }
}

/// Counts a job's task as alive until it is dropped.
pub(super) struct TaskGuard {
    pub(super) shared: Arc<SchedulerShared>,
    pub(super) job: Arc<SharedJob>,
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        let is_removed = self.job.is_removed();
        let reason = match self.shared.control().phase {
            Phase::Running if self.shared.redlock.is_closed() => CLOSED,
            Phase::Running if is_removed => REMOVED,
            Phase::Running => "its task was dropped: its runtime is gone",
            _ => "the scheduler was shut down",
        };
        for asked in self.job.set_gone(reason) {
            let kind = JobEventKind::Skipped(SkipReason::Ended);
            self.shared.emit_for(&self.job, self.shared.now(), Some(asked.id), kind);
            asked.answer(Err(SkipReason::Ended));
        }
        if is_removed {
            crate::sync::lock(&self.shared.jobs).retain(|job| !Arc::ptr_eq(job, &self.job));
        }
        self.shared.alive.send_modify(|jobs| *jobs -= 1);
    }
}
