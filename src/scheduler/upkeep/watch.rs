//! Reads again and again what people decided about the jobs, and how runs on other replicas ended.

use std::sync::Arc;

use futures_util::future::join_all;

use super::super::{
    fleet::{CONTROL_INTERVAL, controls},
    roster::Roster,
    shared_job::SharedJob,
    wall_timer::WallTimer,
};
use crate::{
    lock::{Redlock, claims},
    random,
    schedule::WallTime,
};

/// Reads the control of all jobs again and again, until it is dropped: one query for each 500 jobs.
pub(in super::super) async fn watch_controls(redlock: &Redlock, roster: &Roster) {
    loop {
        redlock.sleep(random::within(&(CONTROL_INTERVAL..=CONTROL_INTERVAL * 5 / 4))).await;
        read_controls(redlock, &roster.jobs()).await;
    }
}

pub(in super::super) async fn read_controls(redlock: &Redlock, jobs: &[Arc<SharedJob>]) {
    let of_set = async |jobs: Vec<Arc<SharedJob>>| match controls(redlock, &names(&jobs)).await {
        Ok(controls) => {
            debug_assert_eq!(controls.len(), jobs.len());
            for (job, control) in jobs.iter().zip(controls) {
                job.note_control(control);
            }
        }
        // Before a tick, it is read under the job's lock.
        Err(error) => crate::log::debug!(%error, "the control of jobs was not read"),
    };
    join_all(by_set(redlock, jobs).map(of_set)).await;
}

/// Returns the jobs of each set of nodes: a set that is down does not keep those of others from being read.
fn by_set(redlock: &Redlock, jobs: &[Arc<SharedJob>]) -> impl Iterator<Item = Vec<Arc<SharedJob>>> {
    let mut sets: Vec<Vec<_>> = redlock.sets().iter().map(|_| Vec::new()).collect();
    for job in jobs {
        sets[redlock.set_index(&job.name)].push(Arc::clone(job));
    }
    sets.into_iter().filter(|jobs| !jobs.is_empty())
}

fn names(jobs: &[Arc<SharedJob>]) -> Vec<Arc<str>> {
    jobs.iter().map(|job| Arc::clone(&job.name)).collect()
}

/// Divisor of the shortest TTL for the interval between queries about runs last seen on other replicas. A run
/// that is cut off is so found within a TTL after its lock is over.
const QUERIES_A_TTL: u32 = 3;

/// Queries the nodes for the locks of runs on other replicas until it is dropped, while there are such runs: one
/// query for each 500 locks, and another one for the claims of those jobs whose run has lost its lock. Notifies
/// the task of a job whose run has not ended and has no lock any more.
pub(in super::super) async fn watch_runs_elsewhere(
    redlock: &Redlock,
    roster: &Roster,
    wall_timer: &WallTimer,
) {
    loop {
        let open = roster.jobs().into_iter().filter_map(|job| job.run_elsewhere());
        let Some(ttl) = open.map(|run| run.ttl).min() else {
            roster.runs_elsewhere.notified().await;
            continue;
        };
        let pause = ttl / QUERIES_A_TTL;
        redlock.sleep(random::within(&(pause..=pause + pause / 4))).await;
        let (now, limit) = (wall_timer.now(), wall_timer.limit());
        let mut open = roster.jobs();
        open.retain(|job| job.run_elsewhere().is_some_and(|run| run.may_be_over(now)));
        let of_set = async |jobs| find_ended(redlock, jobs, limit).await;
        join_all(by_set(redlock, &open).map(of_set)).await;
    }
}

/// Finds the runs of the jobs that have ended, and those that have not and have no lock any more.
async fn find_ended(redlock: &Redlock, jobs: Vec<Arc<SharedJob>>, limit: WallTime) {
    let run = |job: Arc<SharedJob>| Some((job.run_elsewhere()?, job));
    let (runs, jobs): (Vec<_>, Vec<_>) = jobs.into_iter().filter_map(run).unzip();
    let locks: Vec<_> = runs.iter().flat_map(|run| run.locks.iter().cloned()).collect();
    let mut owners = Vec::with_capacity(locks.len());
    for locks in locks.chunks(LOCKS_A_QUERY) {
        let Ok(of) = redlock.possible_owners(&locks.into()).await else { return };
        owners.extend(of);
    }
    let mut owners = owners.into_iter();
    let mut ended: Vec<(Arc<SharedJob>, bool)> = Vec::new();
    for (job, run) in jobs.into_iter().zip(&runs) {
        let owners: Vec<_> = owners.by_ref().take(run.locks.len()).flatten().collect();
        let is_held = match &run.owner {
            Some(owner) => owners.contains(owner),
            None => !owners.is_empty(),
        };
        if !is_held {
            ended.push((job, owners.is_empty()));
        }
    }
    if ended.is_empty() {
        return;
    }
    let names: Vec<_> = ended.iter().map(|(job, _)| Arc::clone(&job.name)).collect();
    let Ok(kept) = claims::read(redlock, &names, &[]).await else { return };
    for ((job, is_free), kept) in ended.into_iter().zip(&kept) {
        job.refresh(kept, limit);
        if is_free && job.run_elsewhere().is_some() {
            job.set_lock_over();
        }
    }
}

/// Maximum number of locks in one query.
const LOCKS_A_QUERY: usize = 500;
