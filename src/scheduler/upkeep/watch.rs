//! Reads again and again what people decided about the jobs, and how runs on other replicas ended.

use std::{sync::Arc, time::Duration};

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

/// Interval between queries about runs last seen on other replicas. Doubles while none of them
/// ends.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// Queries the nodes for the ends of runs on other replicas until it is dropped: one query for each
/// 500 jobs.
pub(in super::super) async fn watch_runs_elsewhere(
    redlock: &Redlock,
    roster: &Roster,
    wall_timer: &WallTimer,
) {
    let mut pause = FIRST_PAUSE;
    loop {
        redlock.sleep(random::within(&(pause..=pause + pause / 4))).await;
        let mut open = roster.jobs();
        open.retain(|job| job.runs_elsewhere());
        let of_set = async |jobs: Vec<Arc<SharedJob>>| {
            let Ok(kept) = claims::read(redlock, &names(&jobs), &[]).await else { return false };
            let limit = wall_timer.limit();
            let news = jobs.iter().zip(&kept).map(|(job, kept)| job.refresh(kept, limit));
            news.fold(false, |has_news, is_news| has_news | is_news)
        };
        let news = join_all(by_set(redlock, &open).map(of_set)).await;
        let has_news = open.is_empty() || news.contains(&true);
        pause = if has_news { FIRST_PAUSE } else { (2 * pause).min(LONGEST_PAUSE) };
    }
}
