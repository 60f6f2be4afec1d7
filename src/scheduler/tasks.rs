//! The tasks of a scheduler: one for each job, and one for what they share.

use std::{future::pending, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::join_all};

use super::{
    Job, JobEventKind, JobState, SkipReason,
    job_task::{CLOSED, JobTask, REMOVED, SHUT_DOWN},
    shared::{Phase, SchedulerShared},
    shared_job::SharedJob,
    upkeep::{forget_unused, read_controls, watch_controls, watch_leader, watch_runs_elsewhere},
    work::panic_message,
};
use crate::{
    lock::claims::{self, JobHistory},
    random,
};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_DOUBLINGS: u32 = 6;

/// Starts the jobs of each set of nodes, and runs what all of them share.
pub(super) async fn begin(shared: Arc<SchedulerShared>, jobs: Vec<Job>, guards: Vec<TaskGuard>) {
    debug_assert_eq!(jobs.len(), guards.len());
    let SchedulerShared { redlock, roster, wall_timer, leader, .. } = &*shared;
    let mut sets: Vec<Vec<_>> = redlock.sets().iter().map(|_| Vec::new()).collect();
    for (guard, job) in guards.into_iter().zip(jobs) {
        sets[redlock.set_index(&guard.job.name)].push((guard, job));
    }
    // A set that is down keeps only its own jobs from starting.
    let starts = sets.into_iter().map(|jobs| start_set(&shared, jobs));
    let started = async {
        join_all(starts).await;
        pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = started => {}
        () = wall_timer.run() => {}
        () = watch_runs_elsewhere(redlock, roster, wall_timer) => {}
        () = watch_controls(redlock, roster) => {}
        () = watch_leader(redlock, roster, &shared.events, leader.as_ref()) => {}
        () = forget_unused(&shared) => {}
        () = shared.ended() => {}
    }
}

/// Reads the claims of the jobs of one set at once, then spawns a task for each.
async fn start_set(shared: &Arc<SchedulerShared>, jobs: Vec<(TaskGuard, Job)>) {
    if jobs.is_empty() {
        return;
    }
    let states: Vec<_> = jobs.iter().map(|(guard, _)| Arc::clone(&guard.job)).collect();
    let Some(kept) = read_claims(shared, &states).await else { return };
    read_controls(&shared.redlock, &states).await;
    for ((guard, job), kept) in jobs.into_iter().zip(kept) {
        let task = run_job(Arc::clone(shared), guard, job, Some(kept));
        shared.executor.spawner.spawn(Box::pin(task));
    }
}

/// Adds a task for a job that was added or replaced.
pub(super) fn spawn(shared: &Arc<SchedulerShared>, state: Arc<SharedJob>, job: Job) {
    // Created before the task: it may be dropped unpolled.
    let guard = TaskGuard { shared: Arc::clone(shared), job: state };
    let task = run_job(Arc::clone(shared), guard, job, None);
    shared.executor.spawner.spawn(Box::pin(task));
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
                    () = shared.redlock.sleep(pause) => {}
                    _ = control.wait_for(|control| control.phase > Phase::Running) => {}
                }
            }
        }
        let is_removed = !jobs.is_empty() && jobs.iter().all(|job| job.is_removed());
        if is_removed || !shared.is_running() || shared.redlock.is_closed() {
            return None;
        }
    }
}

/// Runs a job, and then what replaces it. `kept`: what the nodes keep of it, if that was read.
async fn run_job(
    shared: Arc<SchedulerShared>,
    guard: TaskGuard,
    mut job: Job,
    mut kept: Option<JobHistory>,
) {
    let state = Arc::clone(&guard.job);
    loop {
        let kept = if let Some(kept) = kept.take() {
            kept
        } else {
            let read = read_claims(&shared, std::slice::from_ref(&state)).await;
            let Some(kept) = read.and_then(|mut kept| kept.pop()) else { return };
            kept
        };
        let task = JobTask::new(&shared, &state, job, kept);
        // `drive` catches panics, but the drop of the work is foreign code too.
        let drive = Box::pin(AssertUnwindSafe(task.drive()).catch_unwind());
        if let Err(panic) = drive.await {
            let panic = panic_message(&*panic);
            state.set_ended(&format!("a panic outside of the work: {panic}"));
            crate::log::error!(job = %state.name, %panic, "the job has ended: a panic outside of its work");
            return;
        }
        if !shared.is_running() {
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
        let Self { shared, job } = self;
        let is_removed = job.is_removed();
        let reason = match shared.control().phase {
            Phase::Running if shared.redlock.is_closed() => CLOSED,
            Phase::Running if is_removed => REMOVED,
            Phase::Running => "its task was dropped: its runtime is gone",
            _ => SHUT_DOWN,
        };
        for pending in job.set_gone(reason) {
            let (now, kind) = (shared.wall_timer.now(), JobEventKind::Skipped(SkipReason::Ended));
            shared.events.emit_for(job, now, Some(pending.id), kind);
            pending.answer(Err(SkipReason::Ended));
        }
        if is_removed {
            shared.roster.remove(job);
        }
        shared.roster.task_ended();
    }
}
