//! What a job's task knows of the fleet.

use super::{Claim, driver::Driver};
use crate::{
    lock::claims::{self, Kept},
    schedule::WallTime,
};

impl Driver {
    /// Asks the nodes how the job stands. Where they can't be asked, it stays with what was known.
    pub(super) async fn look(&mut self) {
        let job = std::slice::from_ref(&self.job.name);
        if let Ok(kept) = claims::read(self.shared.core(), job).await
            && let Some(kept) = kept.first()
        {
            self.learn(kept);
        }
    }

    pub(super) fn learn(&mut self, kept: &Kept) {
        self.job.seen(kept);
        let burnt = WallTime::since_epoch(kept.burnt);
        let burnt = (burnt > WallTime::ZERO).then_some(burnt);
        let latest = kept.latest.as_ref().map(|latest| latest.run);
        let tick = latest.map(|run| WallTime::since_epoch(run.tick));
        let tick = tick.filter(|tick| *tick > WallTime::ZERO);
        if let (Some(run), None) = (latest, tick) {
            self.record.base = WallTime::since_epoch(run.since);
        }
        self.record.tick = tick.max(burnt).max(self.own_tick);
        self.record.last_end = latest.and_then(|run| run.ended).map(WallTime::since_epoch);
        self.record.unfinished = self.options.claim == Claim::AtEnd
            && tick.is_some()
            && tick == self.record.tick
            && self.record.last_end.is_none();
        if latest.is_some() {
            self.register_at = None;
        }
        self.kept = kept.clone();
    }
}
