//! Reports of ticks that do not run: events, counters, log lines and answers to triggers.

use std::sync::Arc;

use super::{
    super::{JobEventKind, JobRun, JobState, LastMissed, MissReason, SkipReason, event},
    env::{Due, JobEnv, JobRecord, MissedTicks, Purpose},
    findings::{Findings, InterruptedRun, LostTicks, count_ticks},
    history::report_broken_off,
};
use crate::{
    error::{LockError, Reason, ServerText, VoteOutcome},
    metrics,
    schedule::{ScheduleError, WallTime},
};

/// What was reported of a job, so that each thing is reported once.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// The latest tick reported as skipped.
    skip: Option<ReportedSkip>,
    /// Until when the nodes had lost their claims, as last seen.
    forgot_until: Option<WallTime>,
    /// The ticks that no replica could claim as the nodes had lost their claims.
    pub(super) lost: Option<LostTicks>,
    /// Why the latest tick did not run.
    pub(super) obstacle: Option<MissReason>,
    /// The outage that was logged at WARN, while it lasts.
    outage: Option<Outage>,
    /// The latest started tick when it was logged that too few nodes store claims: each tick logs that once.
    unclaimed_after: Option<WallTime>,
}

/// A tick that was reported as skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReportedSkip {
    tick: WallTime,
    /// No further report follows.
    is_final: bool,
}

/// Why a job gets no quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outage {
    /// They don't answer, or have no vote.
    Nodes,
    /// They keep the maximum number of claims.
    Full,
}

/// Reports a schedule that was over before the job was known: its last tick is neither run nor
/// counted as missed.
pub(super) fn report_exhausted(env: &JobEnv, record: &JobRecord) {
    let now = env.now();
    let Err(error) = env.schedule.check_at(now) else { return };
    let was_run = match error {
        ScheduleError::NoTickLeft { last } => last.is_some() && record.tick >= last,
        _ => false,
    };
    if was_run || env.due(record, now) != (Due::Never { missed: None }) {
        return;
    }
    crate::log::warn!(job = %env.job.name, %error, "the job will not run");
    let finding = error.to_string().into();
    env.job.update(|status| status.finding = Some(finding));
}

/// The tick that a report names. With a schedule that counts from the last end, the tick moves
/// while it waits.
fn reported_tick(env: &JobEnv, record: &JobRecord, tick: WallTime) -> WallTime {
    if env.schedule.is_after_end() { record.tick.unwrap_or(record.base) } else { tick }
}

impl Reports {
    /// Reports a tick once, and once more when it is known to have run elsewhere. Answers a trigger.
    pub(super) fn skipped(
        &mut self,
        env: &JobEnv,
        record: &JobRecord,
        purpose: Purpose,
        reason: SkipReason,
    ) {
        let tick = match purpose {
            Purpose::Tick(tick) => tick,
            // A request is repeated, here or on another replica.
            Purpose::Settle | Purpose::Request => return,
            // A trigger does not count as a tick.
            Purpose::Trigger => {
                env.emit(env.now(), JobEventKind::Skipped(reason.clone()));
                return env.job.answer(Err(reason));
            }
        };
        let is_final = matches!(reason, SkipReason::AlreadyStarted { .. });
        let now = ReportedSkip { tick: reported_tick(env, record, tick), is_final };
        match self.skip {
            Some(reported) if reported.tick == now.tick => {
                if reported.is_final || !is_final {
                    return;
                }
                // It ran elsewhere.
                env.job.count(|counts| counts.skipped -= 1);
            }
            _ => {
                if !is_final {
                    env.job.count(|counts| counts.skipped += 1);
                }
                metrics::job_skipped(&env.job.name, event::label(&reason));
            }
        }
        self.skip = Some(now);
        env.emit(tick, JobEventKind::Skipped(reason));
    }

    /// Corrects the count of a skipped tick that runs here after all.
    pub(super) fn forget_skipped(&mut self, env: &JobEnv, record: &JobRecord, tick: WallTime) {
        let tick = reported_tick(env, record, tick);
        let skip = self.skip.take_if(|reported| reported.tick == tick);
        if skip.is_some_and(|reported| !reported.is_final) {
            env.job.count(|counts| counts.skipped -= 1);
        }
    }

    /// Finds ticks that no replica could claim: a majority of the nodes was in probation, as it had lost its
    /// claims or was new, until `forgot_until`. `known`: the latest tick that this replica knew of before.
    pub(super) fn note_forgotten(
        &mut self,
        env: &JobEnv,
        base: WallTime,
        known: Option<WallTime>,
        forgot_until: WallTime,
    ) {
        if self.forgot_until >= Some(forgot_until) || env.schedule.is_after_end() {
            return;
        }
        self.forgot_until = Some(forgot_until);
        // The probation lasts for a TTL at least; ticks before may have run.
        let until = forgot_until.as_millis();
        let probation = env.redlock.default_ttl().as_millis();
        let since = until.saturating_sub(u64::try_from(probation).unwrap_or(u64::MAX));
        let from = WallTime::from_millis(since).max(base).max(known.unwrap_or(WallTime::ZERO));
        let why = match &self.obstacle {
            Some(paused @ MissReason::Paused { .. }) => paused.clone(),
            _ => MissReason::Forgotten,
        };
        let lost = |ticks| LostTicks { ticks, why, until: forgot_until };
        self.lost = count_ticks(&env.schedule, from, forgot_until).map(lost);
    }

    /// Records that too few nodes answer for the job; logs the first of consecutive failures. Returns the
    /// error's text.
    pub(super) fn note_unavailable(&mut self, env: &JobEnv, error: &LockError) -> Arc<str> {
        let text: Arc<str> = error.to_string().into();
        let why = if is_full(error) { Outage::Full } else { Outage::Nodes };
        if why == Outage::Full {
            env.roster.is_full.notify_one();
        }
        if self.outage.replace(why) != Some(why) {
            let job = &env.job.name;
            match why {
                Outage::Nodes => crate::log::warn!(
                    %job,
                    %error,
                    "too few nodes answer for the job: it is tried again, and its ticks are missed if they start too late"
                ),
                Outage::Full => crate::log::warn!(
                    %job,
                    %error,
                    "the job can't be scheduled: the nodes keep claims of their maximum number of jobs"
                ),
            }
        }
        env.job.set_state(JobState::WaitingForNodes { error: Arc::clone(&text) });
        text
    }

    /// Records that too few nodes store a claim of the job; logs the first of those after the tick that was `started`
    /// last. Returns the error's text.
    pub(super) fn note_unclaimed(
        &mut self,
        env: &JobEnv,
        error: &LockError,
        started: WallTime,
    ) -> Arc<str> {
        if is_full(error) {
            return self.note_unavailable(env, error);
        }
        let text: Arc<str> = error.to_string().into();
        if self.unclaimed_after.replace(started) != Some(started) {
            crate::log::warn!(
                job = %env.job.name,
                %error,
                "too few nodes store a claim of the job: it is tried again, and its ticks are missed if they start too late"
            );
        }
        env.job.set_state(JobState::WaitingForNodes { error: Arc::clone(&text) });
        text
    }

    /// Whether the nodes did not answer for the job when it was asked last.
    pub(super) fn is_out(&self) -> bool {
        self.outage.is_some()
    }

    /// Ends an outage: a quorum answered for the job.
    pub(super) fn note_available(&mut self, env: &JobEnv) {
        if self.outage.take().is_some() {
            crate::log::info!(job = %env.job.name, "enough nodes answer for the job again");
        }
    }

    /// A quorum answered, which full nodes do as well.
    pub(super) fn note_answered(&mut self, env: &JobEnv) {
        if self.outage == Some(Outage::Nodes) {
            self.note_available(env);
        }
    }

    /// Records that another owner holds the job's lock, and a tick waits for it.
    pub(super) fn note_held(&mut self, env: &JobEnv, owner: Option<Arc<str>>) {
        self.note_answered(env);
        env.job.set_state(JobState::HeldBy { owner: owner.clone() });
        self.obstacle = Some(MissReason::Held { by: owner });
    }
}

/// Reports a run of a parallel job that never ended, once for the fleet.
pub(super) fn report_interrupted_beside(env: &JobEnv, run: JobRun) {
    match run.trigger {
        Some(_) => report_broken_off(env, run),
        None => report_interrupted(env, run.tick.into(), Some(run.owner)),
    }
}

/// Logs an attempt at a tick that did not end, where other attempts follow.
pub(super) fn log_cut_off(env: &JobEnv, run: &JobRun) {
    crate::log::info!(
        job = %env.job.name,
        tick = %WallTime::from(run.tick),
        attempt = run.attempt,
        owner = %ServerText(&run.owner),
        "an attempt at a tick was cut off"
    );
}

/// Reports ticks that do not run.
pub(super) fn report_findings(env: &JobEnv, findings: Findings) {
    let Findings { given_up, interrupted, missed, lost } = findings;
    if let Some(LostTicks { ticks, why, .. }) = lost {
        report_missed(env, ticks, why);
    }
    if let Some((tick, attempts)) = given_up {
        report_given_up(env, tick, attempts);
    }
    if let Some(InterruptedRun { tick, owner, is_reported: false }) = interrupted {
        report_interrupted(env, tick, owner);
    }
    for (missed, why) in missed {
        report_missed(env, missed, why);
    }
}

fn report_missed(env: &JobEnv, missed: MissedTicks, why: MissReason) {
    let MissedTicks { count, first, last, .. } = missed;
    debug_assert!(first <= last && count > 0, "{count} ticks from {first} to {last}");
    let job = &env.job.name;
    if matches!(why, MissReason::Paused { .. }) {
        crate::log::info!(%job, count, %first, %last, %why, "missed ticks of the job");
    } else {
        crate::log::warn!(%job, count, %first, %last, %why, "missed ticks of the job");
    }
    count_missed(env, (count, last), JobEventKind::Missed { count, first, why });
}

fn report_given_up(env: &JobEnv, tick: WallTime, attempts: u32) {
    let policy = &env.options.policy;
    crate::log::warn!(
        job = %env.job.name,
        %tick,
        attempts,
        max_attempts = policy.max_attempts,
        catch_up = ?policy.catch_up,
        "a tick is given up: each of its runs was interrupted, and their number has reached \
         max_attempts, or the tick is older than catch_up"
    );
    count_missed(env, (1, tick), JobEventKind::GivenUp { attempts });
}

fn report_interrupted(env: &JobEnv, tick: WallTime, owner: Option<Arc<str>>) {
    crate::log::warn!(
        job = %env.job.name,
        %tick,
        owner = %ServerText(owner.as_deref().unwrap_or("unknown")),
        "the run of a tick did not end: its replica crashed, or could not store the end; the \
         tick counts as missed"
    );
    let why = MissReason::Interrupted { by: owner };
    count_missed(env, (1, tick), JobEventKind::Missed { count: 1, first: tick, why });
}

/// Counts ticks up to this one as missed, and sends the event that says so.
fn count_missed(env: &JobEnv, (count, tick): (u64, WallTime), kind: JobEventKind) {
    let (why, reason) = match &kind {
        JobEventKind::Missed { why: why @ MissReason::Paused { .. }, .. } => (None, why.label()),
        JobEventKind::Missed { why, .. } => (Some(why.to_string()), why.label()),
        other => (Some(other.to_string()), other.name()),
    };
    let found = env.now().into();
    let of = |why: String| LastMissed { count, tick: tick.into(), found, why: why.into() };
    env.job.update(|status| {
        status.counts.missed += count;
        status.last_missed = why.map(of).or(status.last_missed.take());
    });
    metrics::job_missed(&env.job.name, reason, count);
    env.emit(tick, kind);
}

fn is_full(error: &LockError) -> bool {
    let LockError::NoQuorum { votes } = error.root() else { return false };
    votes.iter().any(|vote| vote.outcome == VoteOutcome::NotCounted(Reason::TooManyJobs))
}
