//! Reads again and again what people decided about the jobs, and how runs on other replicas ended.

use std::{sync::Arc, time::Duration};

use super::super::{
    fleet::{CONTROL_INTERVAL, controls},
    roster::Roster,
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
        read_controls(redlock, roster).await;
    }
}

pub(in super::super) async fn read_controls(redlock: &Redlock, roster: &Roster) {
    let jobs = roster.jobs();
    let names: Vec<_> = jobs.iter().map(|job| Arc::clone(&job.name)).collect();
    match controls(redlock, &names).await {
        Ok(controls) => {
            debug_assert_eq!(controls.len(), jobs.len());
            for (job, control) in jobs.iter().zip(controls) {
                job.note_control(control);
            }
        }
        // Before a tick, it is read under the job's lock.
        Err(error) => crate::log::debug!(%error, "the control of jobs was not read"),
    }
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
        let names: Vec<Arc<str>> = open.iter().map(|job| Arc::clone(&job.name)).collect();
        let mut has_news = open.is_empty();
        if !open.is_empty()
            && let Ok(kept) = claims::read(redlock, &names, &[]).await
        {
            let limit = wall_timer.limit();
            for (job, kept) in open.iter().zip(&kept) {
                has_news |= job.refresh(kept, limit);
            }
        }
        pause = if has_news { FIRST_PAUSE } else { (2 * pause).min(LONGEST_PAUSE) };
    }
}
