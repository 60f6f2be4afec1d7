//! What a job tells of ticks that it does not run.

use super::{
    JobEventKind, SkipReason,
    driver::{Driver, Purpose},
    event,
    policy::MissedTicks,
};
use crate::{metrics, schedule::WallTime};

/// Missed ticks are counted up to this.
const MAX_COUNTED: usize = 1_000;

/// A tick that was told of as skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    tick: WallTime,
    /// Nothing more is to come of it here.
    is_final: bool,
}

impl Driver {
    /// Whether the tick that was asked for is known to be started, having been `known` before.
    pub(super) fn is_started(&self, purpose: Purpose, known: Option<WallTime>) -> bool {
        let Purpose::Tick(asked) = purpose else { return false };
        self.record.tick >= Some(asked)
            || (self.schedule.is_after_end() && self.record.tick > known)
    }

    /// What a tick is told under. Of a schedule that counts from the last end, the tick moves while
    /// it waits.
    fn told_as(&self, tick: WallTime) -> WallTime {
        if self.schedule.is_after_end() {
            self.record.tick.unwrap_or(self.record.base)
        } else {
            tick
        }
    }

    /// Each tick is told of once, and once more where its fate is known after that.
    pub(super) fn tell_skipped(&mut self, purpose: Purpose, reason: SkipReason) {
        let tick = match purpose {
            Purpose::Tick(tick) => tick,
            Purpose::Register => return,
            // It is no tick.
            Purpose::Trigger => {
                let kind = JobEventKind::Skipped(reason);
                return self.shared.emit(&self.job, self.shared.now(), kind);
            }
        };
        let is_final = matches!(reason, SkipReason::AlreadyStarted { .. });
        let now = Told { tick: self.told_as(tick), is_final };
        match self.told_skipped {
            Some(told) if told.tick == now.tick => {
                if told.is_final || !is_final {
                    return;
                }
            }
            _ => {
                self.job.count(|counts| counts.skipped += 1);
                metrics::job_skipped(&self.job.name, event::label(&reason));
            }
        }
        self.told_skipped = Some(now);
        self.shared.emit(&self.job, tick, JobEventKind::Skipped(reason));
    }

    /// A tick that was told of as skipped is run here after all.
    pub(super) fn forget_skipped(&mut self, tick: WallTime) {
        let told_as = self.told_as(tick);
        if self.told_skipped.take_if(|told| told.tick == told_as).is_some() {
            self.job.count(|counts| counts.skipped -= 1);
        }
    }

    /// Whether some of them were not told of yet.
    pub(super) fn is_news(&self, missed: MissedTicks) -> bool {
        self.told_missed.is_none_or(|told| told < missed.last)
    }

    pub(super) fn tell_missed(&mut self, missed: Option<MissedTicks>) {
        let Some(MissedTicks { mut count, mut first, last, .. }) = missed else { return };
        if let Some(told) = self.told_missed.filter(|told| *told >= first) {
            let mut new = self.schedule.ticks(told, last).take(MAX_COUNTED);
            let Some(next) = new.next() else { return };
            (first, count) = (next, 1 + new.count() as u64);
        }
        self.told_missed = Some(last);
        self.job.count(|counts| counts.missed += count);
        metrics::job_missed(&self.job.name, count);
        self.shared.emit(&self.job, last, JobEventKind::Missed { count, first });
    }
}
