//! What a job's task knows of the fleet.

use super::{
    Claim,
    driver::Driver,
    healing::Sane,
    policy::{Due, due},
};
use crate::{
    error::LockError,
    lock::claims::{self, JobHistory},
    protocol::TickRun,
    quorum::claims::Latest,
    schedule::WallTime,
};

/// What a job does next, as far as it is known.
pub(super) struct Next {
    pub(super) due: Due,
    /// Why the nodes could not be asked for the rest: which ticks are missed, or whether a run was
    /// broken off.
    pub(super) unknown: Option<LockError>,
}

impl Driver {
    /// What the job does next. Others may have run what seems to be missed, while this replica did
    /// not look: it was paused, stood by, or did not reach the nodes. So ticks are told of as missed
    /// only where the nodes were asked.
    pub(super) async fn next(&mut self, now: WallTime) -> Next {
        let mut unknown = self.store_end_late().await.err();
        let limit = self.shared.alarms.limit();
        if self.record.tick.max(self.record.last_end) > Some(limit) {
            // The clock was set back: what it showed then is not to be waited for.
            let _ = self.look().await;
        }
        let mut due = self.due(now);
        let (Due::Wait { missed, .. } | Due::Never { missed }) = due else {
            return Next { due, unknown };
        };
        if let Some(queued) = self.still_queued(missed) {
            return Next { due: queued, unknown };
        }
        if missed.is_some_and(|missed| self.is_news(missed)) {
            match self.look().await {
                Ok(()) => due = self.due(now),
                Err(error) => {
                    let (Due::Wait { missed, .. } | Due::Never { missed }) = &mut due else {
                        return Next { due, unknown };
                    };
                    *missed = None;
                    unknown = Some(error);
                }
            }
        }
        Next { due, unknown }
    }

    fn due(&mut self, now: WallTime) -> Due {
        self.give_up(now);
        due(&self.schedule, &self.job.name, &self.options.policy, &self.record, now)
    }

    /// Asks the nodes how the job stands. Where they can't be asked, it stays with what was known.
    pub(super) async fn look(&mut self) -> Result<(), LockError> {
        let job = std::slice::from_ref(&self.job.name);
        let kept = claims::read(self.shared.core(), job, &self.never_started).await?;
        self.note_answered();
        if let Some(kept) = kept.into_iter().next() {
            self.learn(kept);
        }
        Ok(())
    }

    /// A run that has ended stays so, also where the nodes that told of it are gone.
    fn remember_end(&mut self, latest: &mut Latest) {
        if !latest.run.is_open() {
            self.known_end = Some(latest.run);
        } else if let Some(end) = self.known_end
            && (TickRun { ended: None, ..end }) == latest.run
            && let Some(end) = self.sane_run(end)
        {
            latest.run = end;
            latest.is_replicated = false;
        }
    }

    pub(super) fn learn(&mut self, kept: JobHistory) {
        let JobHistory { latest, burnt } = kept;
        let Sane { mut latest, unknown_until } = self.sane(latest);
        if let Some(latest) = &mut latest {
            self.remember_end(latest);
        }
        let burnt = WallTime::since_epoch(burnt);
        let burnt = (burnt > WallTime::ZERO).then_some(burnt);
        let register_at = self.register_at;
        if let Some(latest) = &latest {
            self.compare_schedules(latest);
        }
        let run = latest.as_ref().map(|latest| latest.run);
        let tick = run.map(|run| WallTime::since_epoch(run.tick));
        let tick = tick.filter(|tick| *tick > WallTime::ZERO);
        let limit = self.shared.alarms.limit();
        self.own_tick = self.own_tick.filter(|own| *own <= limit);
        self.record.base = WallTime::since_epoch(self.own_schedule.mark.since);
        self.record.burnt = burnt.max(unknown_until);
        self.record.tick = tick.max(self.own_tick);
        self.record.attempt = run.map_or(0, |run| run.attempt);
        self.record.last_end = run.and_then(|run| run.ended).map(WallTime::since_epoch);
        self.record.unfinished = self.options.claim == Claim::AtEnd
            && tick.is_some()
            && tick >= self.record.tick.max(self.record.burnt)
            && self.record.last_end.is_none();
        self.latest = latest;
        self.job.seen(self.latest.as_ref());
        if self.may_lose_end() && self.unstored_end.is_none() && self.register_at.is_none() {
            self.register_at = register_at.or_else(|| Some(self.soon()));
        }
    }
}
