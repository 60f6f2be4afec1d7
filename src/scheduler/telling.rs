//! What a job tells of ticks that it does not run.

use super::{
    JobEventKind, MissReason, SkipReason,
    driver::{Driver, Purpose},
    event,
    policy::{Due, MissedTicks, due, given_up},
};
use crate::{
    metrics,
    quorum::claims::Latest,
    schedule::{ScheduleError, WallTime},
};

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
    /// Reports a schedule that was over before the job was known: its last tick is neither run nor
    /// counted as missed.
    pub(super) fn tell_over(&self) {
        let now = self.shared.now();
        let Err(error) = self.schedule.check_at(now) else { return };
        let next = due(&self.schedule, &self.job.name, &self.options.policy, &self.record, now);
        let was_run = match error {
            ScheduleError::NoTickLeft { last } => last.is_some() && self.record.tick >= last,
            _ => false,
        };
        if was_run || next != (Due::Never { missed: None }) {
            return;
        }
        crate::log::warn!(job = %self.job.name, %error, "the job will not run");
        self.job.set_finding(&error.to_string());
    }

    /// Whether the tick that was asked for is known to be started, having been `known` before.
    pub(super) fn is_started(&self, purpose: Purpose, known: Option<WallTime>) -> bool {
        let Purpose::Tick(asked) = purpose else { return false };
        self.record.tick.max(self.record.burnt) >= Some(asked)
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
                let kind = JobEventKind::Skipped(reason.clone());
                self.shared.emit(&self.job, self.shared.now(), kind);
                return self.answer(Err(reason));
            }
        };
        let is_final = matches!(reason, SkipReason::AlreadyStarted { .. });
        let now = Told { tick: self.told_as(tick), is_final };
        match self.told_skipped {
            Some(told) if told.tick == now.tick => {
                if told.is_final || !is_final {
                    return;
                }
                // It was run, only not here.
                self.job.count(|counts| counts.skipped -= 1);
            }
            _ => {
                if !is_final {
                    self.job.count(|counts| counts.skipped += 1);
                }
                metrics::job_skipped(&self.job.name, event::label(&reason));
            }
        }
        self.told_skipped = Some(now);
        self.shared.emit(&self.job, tick, JobEventKind::Skipped(reason));
    }

    /// A tick that was told of as skipped is run here after all.
    pub(super) fn forget_skipped(&mut self, tick: WallTime) {
        let told_as = self.told_as(tick);
        if self.told_skipped.take_if(|told| told.tick == told_as).is_some_and(|told| !told.is_final)
        {
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
        let why = self.report_missed(count, (first, last));
        self.shared.emit(&self.job, last, JobEventKind::Missed { count, first, why });
    }

    /// Tells that the latest run never ended, as the job goes on without it. Whoever claims the next
    /// tick does so, once for the fleet; a run of this replica was told of when it was broken off.
    pub(super) fn tell_broken_off(&mut self, latest: Option<&Latest>) {
        let Some(Latest { run, owner, .. }) = latest else { return };
        let tick = WallTime::since_epoch(run.tick);
        let is_told = self.own_tick == Some(tick) || self.told_given_up == Some(tick);
        if !run.is_open() || is_told {
            return;
        }
        crate::log::warn!(
            job = %self.job.name,
            %tick,
            owner = owner.as_deref().unwrap_or("unknown"),
            "the run of a tick did not end: its replica crashed, or could not store the end; the \
             tick counts as missed"
        );
        let why = MissReason::BrokenOff { by: owner.clone() };
        self.count_broken_off(tick, JobEventKind::Missed { count: 1, first: tick, why });
    }

    /// Gives a tick up whose runs were broken off, if it is too late to repeat it, or it was started
    /// as often as it may. Each replica finds that out, and tells it once.
    pub(super) fn give_up(&mut self, now: WallTime) {
        let policy = &self.options.policy;
        let Some(tick) = given_up(&self.schedule, &self.job.name, policy, &self.record, now) else {
            return;
        };
        self.record.unfinished = false;
        if self.told_given_up >= Some(tick) {
            return;
        }
        self.told_given_up = Some(tick);
        let attempts = self.record.attempt;
        crate::log::warn!(
            job = %self.job.name,
            %tick,
            attempts,
            max_attempts = policy.max_attempts,
            catch_up = ?policy.catch_up,
            "a tick is given up: each of its runs was broken off, and there were as many as may be, \
             or it is too long ago"
        );
        self.count_broken_off(tick, JobEventKind::GivenUp { attempts });
    }

    fn count_broken_off(&self, tick: WallTime, kind: JobEventKind) {
        self.job.count(|counts| counts.missed += 1);
        metrics::job_missed(&self.job.name, 1);
        self.shared.emit(&self.job, tick, kind);
    }
}
