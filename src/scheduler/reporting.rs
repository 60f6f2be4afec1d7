//! Reports of ticks that do not run: events, counters, log lines and answers to triggers.

use std::sync::Arc;

use super::{
    JobEventKind, JobState, MissReason, Outcome, SkipReason,
    driver::{Driver, Purpose},
    event,
    policy::{Due, MissedTicks, due, given_up},
    shared::Phase,
};
use crate::{
    error::{LockError, Reason, VoteOutcome},
    metrics,
    quorum::claims::LatestClaim,
    schedule::{ScheduleError, WallTime},
};

/// Maximum count of missed ticks.
const MAX_COUNTED: usize = 1_000;

/// A tick that was reported as skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReportedSkip {
    tick: WallTime,
    /// No further report follows.
    is_final: bool,
}

impl Driver {
    /// Reports a schedule that was over before the job was known: its last tick is neither run nor
    /// counted as missed.
    pub(super) fn report_exhausted(&self) {
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

    /// Whether the tick is started, by what was read after `known`.
    pub(super) fn is_started(&self, purpose: Purpose, known: Option<WallTime>) -> bool {
        let Purpose::Tick(asked) = purpose else { return false };
        self.record.tick.max(self.record.burnt) >= Some(asked)
            || (self.schedule.is_after_end() && self.record.tick > known)
    }

    /// The tick that a report names. With a schedule that counts from the last end, the tick moves
    /// while it waits.
    fn reported_tick(&self, tick: WallTime) -> WallTime {
        if self.schedule.is_after_end() {
            self.record.tick.unwrap_or(self.record.base)
        } else {
            tick
        }
    }

    /// Reports a tick once, and once more when it is known to have run elsewhere.
    pub(super) fn report_skipped(&mut self, purpose: Purpose, reason: SkipReason) {
        let tick = match purpose {
            Purpose::Tick(tick) => tick,
            // A request is tried again, here or on another replica.
            Purpose::Register | Purpose::Request => return,
            // A trigger is no tick.
            Purpose::Trigger => {
                let kind = JobEventKind::Skipped(reason.clone());
                self.shared.emit(&self.job, self.shared.now(), kind);
                return self.answer(Err(reason));
            }
        };
        let is_final = matches!(reason, SkipReason::AlreadyStarted { .. });
        let now = ReportedSkip { tick: self.reported_tick(tick), is_final };
        match self.reported_skip {
            Some(told) if told.tick == now.tick => {
                if told.is_final || !is_final {
                    return;
                }
                // It ran elsewhere.
                self.job.count(|counts| counts.skipped -= 1);
            }
            _ => {
                if !is_final {
                    self.job.count(|counts| counts.skipped += 1);
                }
                metrics::job_skipped(&self.job.name, event::label(&reason));
            }
        }
        self.reported_skip = Some(now);
        self.shared.emit(&self.job, tick, JobEventKind::Skipped(reason));
    }

    /// Corrects the count of a skipped tick that runs here after all.
    pub(super) fn forget_skipped(&mut self, tick: WallTime) {
        let reported_tick = self.reported_tick(tick);
        if self
            .reported_skip
            .take_if(|told| told.tick == reported_tick)
            .is_some_and(|told| !told.is_final)
        {
            self.job.count(|counts| counts.skipped -= 1);
        }
    }

    /// Whether some of them are not reported yet.
    pub(super) fn is_news(&self, missed: MissedTicks) -> bool {
        self.reported_missed.is_none_or(|told| told < missed.last)
    }

    pub(super) fn report_missed(&mut self, missed: Option<MissedTicks>) {
        let Some(MissedTicks { mut count, mut first, last, .. }) = missed else { return };
        if let Some(told) = self.reported_missed.filter(|told| *told >= first) {
            let mut new = self.schedule.ticks(told, last).take(MAX_COUNTED);
            let Some(next) = new.next() else { return };
            (first, count) = (next, 1 + new.count() as u64);
        }
        self.reported_missed = Some(last);
        self.job.count(|counts| counts.missed += count);
        metrics::job_missed(&self.job.name, count);
        let why = self.log_missed(count, (first, last));
        self.shared.emit(&self.job, last, JobEventKind::Missed { count, first, why });
    }

    /// Reports a latest run that never ended. The replica that claims the next tick reports it,
    /// once for the fleet; runs of this replica were reported when they broke off.
    pub(super) fn report_broken_off(&mut self, latest: Option<&LatestClaim>) {
        let Some(LatestClaim { run, owner, .. }) = latest else { return };
        let tick = WallTime::since_epoch(run.tick);
        let is_told = self.own_tick == Some(tick) || self.reported_given_up == Some(tick);
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

    /// Gives up a tick whose runs were broken off, once it is too late or has had `max_attempts`.
    /// Each replica reports that once.
    pub(super) fn give_up(&mut self, now: WallTime) {
        let policy = &self.options.policy;
        let Some(tick) = given_up(&self.schedule, &self.job.name, policy, &self.record, now) else {
            return;
        };
        self.record.unfinished = false;
        if self.reported_given_up >= Some(tick) {
            return;
        }
        self.reported_given_up = Some(tick);
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

    /// Records that too few nodes let the job run; logs the first of consecutive failures. Returns
    /// the error's text.
    pub(super) fn note_unavailable(&mut self, error: &LockError) -> Arc<str> {
        let text: Arc<str> = error.to_string().into();
        let why = if is_full(error) { Outage::Full } else { Outage::Nodes };
        if why == Outage::Full {
            self.shared.is_full.notify_one();
        }
        if self.outage != Some(why) {
            self.outage = Some(why);
            let job = &self.job.name;
            match why {
                Outage::Nodes => crate::log::warn!(
                    %job,
                    %error,
                    "too few nodes answer for the job: it is tried again, and its ticks are missed if they start too late"
                ),
                Outage::Full => crate::log::warn!(
                    %job,
                    %error,
                    "the job can't be scheduled: the nodes keep claims of as many jobs as they may"
                ),
            }
        }
        self.job.set_state(JobState::WaitingForNodes { error: Arc::clone(&text) });
        self.obstacle = Some(MissReason::Unavailable { error: Arc::clone(&text) });
        text
    }

    /// Ends an outage: a quorum answered for the job.
    pub(super) fn note_available(&mut self) {
        if self.outage.take().is_some() {
            crate::log::info!(job = %self.job.name, "enough nodes answer for the job again");
        }
    }

    /// A quorum answered, which full nodes do as well.
    pub(super) fn note_answered(&mut self) {
        if self.outage == Some(Outage::Nodes) {
            self.note_available();
        }
    }

    /// Records that another owner holds the job's lock.
    pub(super) fn note_held(&mut self, owner: Option<Arc<str>>) {
        self.note_answered();
        self.job.set_state(JobState::HeldBy { owner: owner.clone() });
        self.obstacle = Some(MissReason::Held { by: owner });
    }

    /// Logs missed ticks and returns the reason.
    pub(super) fn log_missed(
        &mut self,
        count: u64,
        (first, last): (WallTime, WallTime),
    ) -> MissReason {
        let why = self.obstacle.clone().unwrap_or(MissReason::Late);
        let job = &self.job.name;
        if matches!(why, MissReason::Paused { .. }) {
            crate::log::info!(%job, count, %first, %last, %why, "missed ticks of the job");
        } else {
            crate::log::warn!(%job, count, %first, %last, %why, "missed ticks of the job");
        }
        why
    }

    /// Answers the trigger of the current run.
    pub(super) fn answer(&mut self, end: Result<Outcome, SkipReason>) {
        if let Some(asked) = self.asked.take() {
            self.job.trigger_is_over(matches!(end, Err(SkipReason::Ended)));
            asked.answer(end);
        }
    }

    pub(super) fn answer_unless_done(&mut self, panic: Option<&Arc<str>>) {
        if self.asked.is_none() {
            return;
        }
        let control = self.shared.control();
        let reason = match panic {
            _ if self.is_closed || control.phase > Phase::Running => SkipReason::Ended,
            Some(panic) => SkipReason::Unavailable { error: Arc::clone(panic) },
            None if !control.leads => SkipReason::NotLeading,
            None => {
                SkipReason::Unavailable { error: "the lock ended before the work began".into() }
            }
        };
        self.report_skipped(Purpose::Trigger, reason);
    }
}

/// Why a job gets no quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outage {
    /// They don't answer, or have no vote.
    Nodes,
    /// They keep the maximum number of claims.
    Full,
}

fn is_full(error: &LockError) -> bool {
    let LockError::NoQuorum { votes } = error.root() else { return false };
    votes.iter().any(|vote| vote.outcome == VoteOutcome::NotCounted(Reason::TooManyJobs))
}
