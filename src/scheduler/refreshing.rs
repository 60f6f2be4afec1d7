//! How runs of other replicas ended.

use std::{sync::Arc, time::Duration};

use super::{jobs::Shared, shared_job::SharedJob};
use crate::random;

/// Pause between two looks at runs that were last seen going elsewhere. It doubles while none of
/// them ends.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// Looks how the runs ended that other replicas were seen to begin, until it is dropped. With one
/// question for each 500 of them.
pub(super) async fn refresh(shared: &Shared) {
    let mut pause = FIRST_PAUSE;
    loop {
        shared.sleep(random::within(&(pause..=pause + pause / 4))).await;
        let is_open = |job: &&Arc<SharedJob>| job.goes_elsewhere();
        let open: Vec<Arc<SharedJob>> = shared.jobs.iter().filter(is_open).cloned().collect();
        let names: Vec<Arc<str>> = open.iter().map(|job| Arc::clone(&job.name)).collect();
        let mut has_news = open.is_empty();
        if !open.is_empty()
            && let Ok(kept) = shared.redlock.read_claims(&names, &[]).await
        {
            let limit = shared.alarms.limit();
            for (job, kept) in open.iter().zip(&kept) {
                has_news |= job.refresh(kept, limit);
            }
        }
        pause = if has_news { FIRST_PAUSE } else { (2 * pause).min(LONGEST_PAUSE) };
    }
}
