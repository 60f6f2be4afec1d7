//! Forgets jobs that nothing uses any more, so that new names find room on the servers.

use std::{future::pending, pin::pin, time::Duration};

use futures_util::TryStreamExt as _;

use super::super::{fleet::ControlError, shared::SchedulerShared};
use crate::{error::LockError, random, schedule::WallTime};

/// Default of [`Scheduler::forget_unused_after`](crate::Scheduler::forget_unused_after): 90 days.
pub(in super::super) const UNUSED_FOR: Duration = Duration::from_secs(90 * 86_400);

/// Maximum pause before the first search; random, as all replicas of a fleet may start at once.
const FIRST_SEARCH: Duration = Duration::from_secs(3_600);
/// Interval between searches, without its jitter of a quarter.
const INTERVAL: Duration = Duration::from_secs(86_400);
/// Minimum interval between searches while the servers keep their maximum number of jobs.
const INTERVAL_WHEN_FULL: Duration = Duration::from_secs(3_600);

/// Forgets unused jobs once a day, and when the servers are full. Does not end.
pub(in super::super) async fn forget_unused(shared: &SchedulerShared) {
    if shared.forget_unused_after == Duration::MAX {
        pending::<()>().await;
    }
    let mut pause = random::within(&(Duration::ZERO..=FIRST_SEARCH));
    loop {
        let searched = shared.redlock.now();
        tokio::select! {
            biased;
            () = shared.redlock.sleep(pause) => {}
            () = shared.roster.is_full.notified() => {
                let since = shared.redlock.now().saturating_duration_since(searched);
                shared.redlock.sleep(INTERVAL_WHEN_FULL.min(pause).saturating_sub(since)).await;
            }
        }
        pause = random::within(&(INTERVAL..=INTERVAL * 5 / 4));
        // Otherwise another replica leads, and searches.
        if shared.control().leads {
            forget_found(shared).await;
        }
    }
}

/// Forgets the unused jobs of the namespace, except those of this scheduler.
async fn forget_found(shared: &SchedulerShared) {
    let unused_for = shared.forget_unused_after;
    let mut jobs = pin!(shared.redlock.unused_jobs(unused_for));
    loop {
        let job = match jobs.try_next().await {
            Ok(Some(job)) => job,
            Ok(None) => return,
            Err(error) => {
                crate::log::debug!(%error, "unused jobs were not looked for: this is tried again");
                return;
            }
        };
        let is_own = shared.roster.jobs().iter().any(|own| own.name == job.name);
        if is_own || !job.is_certain {
            continue;
        }
        let since = WallTime::from(job.since);
        match shared.redlock.forget_unused_job(&job.name, unused_for).await {
            Ok(true) => crate::log::info!(
                job = %job.name, unused_since = %since, ?unused_for,
                "an unused job was forgotten: if it comes back, it begins anew"
            ),
            // Another replica has forgotten it, or the job is in use again.
            Ok(false) => {}
            Err(ControlError::Nodes { error, .. })
                if matches!(error.root(), LockError::Held { .. }) => {}
            Err(error) => crate::log::warn!(
                job = %job.name, unused_since = %since, %error,
                "an unused job was not forgotten: this is tried again"
            ),
        }
    }
}
