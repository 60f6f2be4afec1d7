//! Events of jobs, with the reasons of misses and skips.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::{JobConflict, Outcome};
use crate::{
    FencingToken,
    error::{LossCause, ServerText},
    schedule::WallTime,
};

/// Something that happened to a job on this replica.
///
/// Each replica reports its own runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobEvent {
    /// The job.
    pub job: Arc<str>,
    /// The tick that it concerns; of several, the latest.
    pub tick: WallTime,
    /// The number of the request, for a triggered run: the [trigger's](super::Trigger::id), or the number of
    /// the [request](super::RequestedRun::id) to the fleet.
    pub trigger: Option<u64>,
    /// Its time, by this replica's wall clock.
    pub at: SystemTime,
    /// The kind of event, with its details.
    pub kind: JobEventKind,
}

/// The kind of a job's event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobEventKind {
    /// This replica claimed the tick: a majority of nodes stores the claim.
    Claimed {
        /// The number of the attempt at the tick, from 1.
        attempt: u32,
    },
    /// The tick was not run here.
    Skipped(SkipReason),
    /// Ticks were not started in time, or the run of one did not end. Sent by one replica of the fleet, once a
    /// majority of the nodes has stored that it sends this: so not while too few nodes answer. Such a tick does
    /// not run any more.
    Missed {
        /// Their number; 1,000 stands for 1,000 or more.
        count: u64,
        /// The oldest of them.
        first: WallTime,
        /// Why they did not run.
        why: MissReason,
    },
    /// The tick's runs were interrupted, and it is not repeated any more: there were
    /// [`max_attempts`](super::Job::max_attempts) of them, or the tick is older than
    /// [`catch_up`](super::Job::catch_up). Sent by one replica of the fleet, while no run is in progress.
    GivenUp {
        /// Number of runs.
        attempts: u32,
    },
    /// A triggered run did not end: its replica crashed, or could not store the end. Sent by one replica of the
    /// fleet. For a tick, see [`Missed`](Self::Missed).
    Interrupted {
        /// The owner that ran it.
        by: Arc<str>,
    },
    /// The work starts.
    Started {
        /// The run's fencing token.
        token: FencingToken,
        /// Delay after its scheduled time.
        lateness: Duration,
    },
    /// The lock was renewed.
    Extended {
        /// Remaining validity.
        remaining: Duration,
    },
    /// The work got a stop request: the lock is about to end, or the run is being stopped.
    Stopping,
    /// An attempt failed, and is repeated under the same lock.
    Retrying {
        /// The number of the failed attempt.
        attempt: u32,
        /// Its error.
        error: Arc<str>,
        /// The pause before the next attempt.
        pause: Duration,
    },
    /// The work succeeded.
    Finished {
        /// Its duration.
        took: Duration,
    },
    /// The work failed, and is not retried.
    Failed {
        /// The error of the last attempt.
        error: Arc<str>,
        /// Its duration.
        took: Duration,
    },
    /// The work panicked.
    Panicked {
        /// The panic's message, if it is a text.
        message: Arc<str>,
        /// Its duration.
        took: Duration,
    },
    /// The lock was lost, and the work was stopped; its outcome is unknown.
    Lost {
        /// The cause.
        cause: LossCause,
        /// Its duration.
        took: Duration,
    },
    /// The work was stopped at [`max_run`](super::Job::max_run).
    TimedOut {
        /// The error of the last failed attempt, if any.
        error: Option<Arc<str>>,
        /// Its duration.
        took: Duration,
    },
    /// The work was stopped, or stopped on request: the scheduler shut down, leadership was lost,
    /// the next tick came, or the lock was about to end.
    Stopped {
        /// Its duration.
        took: Duration,
    },
    /// The work is [not done](super::NotDone), and is run again.
    NotDone {
        /// Its reason.
        reason: Arc<str>,
        /// Its duration.
        took: Duration,
    },
    /// Another replica has stored something else about the job than what this one knows.
    Conflict(JobConflict),
    /// The job does not run on this replica any more. Not sent after a shutdown of the scheduler.
    Ended {
        /// The reason.
        reason: Arc<str>,
    },
}

/// Why ticks were missed, as the servers and this replica know it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissReason {
    /// Too few nodes answered.
    Unavailable {
        /// The error.
        error: Arc<str>,
    },
    /// No slot became free in time: see
    /// [`max_concurrent_runs`](super::Scheduler::max_concurrent_runs) and [`parallel`](crate::Job::parallel).
    NoSlot,
    /// The previous run, of a tick or on demand, had not ended.
    Overlap,
    /// The job's lock was kept after the previous run: see [`min_hold`](crate::Job::min_hold).
    MinHold,
    /// The previous tick was not done, and was repeated, or about to be repeated: see [`Claim`](super::Claim).
    Repeated,
    /// Another owner held the job's lock, or a slot of a [parallel](crate::Job::parallel) job.
    Held {
        /// The owner, if known.
        by: Option<Arc<str>>,
    },
    /// The job was paused, [on the whole fleet](super::SchedulerHandle::pause) or
    /// [here](super::SchedulerHandle::pause_here), and no other replica ran the tick.
    Paused {
        /// Name of the person or program that paused it; this replica's owner name for a pause here.
        by: Arc<str>,
    },
    /// Another replica led.
    NotLeading,
    /// The job paused after a failure.
    BackingOff,
    /// The run was started and did not end: its replica crashed, or could not store the end.
    Interrupted {
        /// The owner that ran it, if known.
        by: Option<Arc<str>>,
    },
    /// A majority of the servers was in probation, as it had lost what it knew of the job, or was new to it, as
    /// in a move to other servers. Ticks up to then count as run, whatever [`Missed`](super::Missed) says.
    /// A replica that ran before and after reports those of the last TTL of the probation, in which no replica
    /// could run one.
    Forgotten,
    /// No replica was running, or this one got no processor.
    Late,
}

impl MissReason {
    /// Returns the label in metrics.
    pub(super) const fn label(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } => "unavailable",
            Self::NoSlot => "no_slot",
            Self::Overlap => "overlap",
            Self::MinHold => "min_hold",
            Self::Repeated => "repeated",
            Self::Held { .. } => "held",
            Self::Paused { .. } => "paused",
            Self::NotLeading => "not_leading",
            Self::BackingOff => "backing_off",
            Self::Interrupted { .. } => "interrupted",
            Self::Forgotten => "forgotten",
            Self::Late => "late",
        }
    }
}

impl fmt::Display for MissReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable { error } => f.write_str(error),
            Self::NoSlot => f.write_str(
                "other runs lasted for too long: raise max_concurrent_runs, parallel of the job, or its start_within",
            ),
            Self::Overlap => f.write_str("the run before was still going"),
            Self::MinHold => f.write_str("the job's lock was kept after the run before, for min_hold"),
            Self::Repeated => f.write_str("the tick before was not done, and was repeated"),
            Self::Held { by: Some(by) } => write!(f, "{} held the job's lock", ServerText(by)),
            Self::Held { by: None } => f.write_str("somebody else held the job's lock"),
            Self::Paused { by } => write!(f, "the job was paused by {}", ServerText(by)),
            Self::NotLeading => f.write_str("another replica was to lead"),
            Self::BackingOff => f.write_str("the job paused after a failure"),
            Self::Interrupted { by: Some(by) } => {
                write!(f, "its run by {} did not end", ServerText(by))
            }
            Self::Interrupted { by: None } => f.write_str("its run did not end"),
            Self::Forgotten => f.write_str(
                "the servers were in probation, as they are new or lost their data; such ticks do not run later",
            ),
            Self::Late => f.write_str("no replica was running, or this one got no processor"),
        }
    }
}

/// Why this replica did not run a tick.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// It was started already.
    AlreadyStarted {
        /// The owner that started it, if known.
        by: Option<Arc<str>>,
    },
    /// The previous run has not ended.
    Overlap,
    /// Another owner has the job's lock; the tick is retried.
    Held {
        /// The owner, if known.
        by: Option<Arc<str>>,
    },
    /// It was triggered on a replica that [stands by](super::Scheduler::leader_only).
    NotLeading,
    /// Too few nodes answered; the tick is retried while it may still start.
    Unavailable {
        /// The error.
        error: Arc<str>,
    },
    /// It was triggered, and the scheduler was shut down, or the job ended, first. It may have
    /// begun if the runtime of the job was dropped.
    Ended,
    /// It was triggered, and awaited, by a run of the same job: it follows that run.
    OwnRun,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyStarted { by: Some(by) } => {
                write!(f, "it was started by {}", ServerText(by))
            }
            Self::AlreadyStarted { by: None } => f.write_str("it was started elsewhere"),
            Self::Overlap => f.write_str("the run before is still going"),
            Self::Held { by: Some(by) } => write!(f, "{} holds the job's lock", ServerText(by)),
            Self::Held { by: None } => f.write_str("somebody else holds the job's lock"),
            Self::NotLeading => f.write_str("another replica leads"),
            Self::Unavailable { error } => f.write_str(error),
            Self::Ended => f.write_str("the scheduler or the job has ended"),
            Self::OwnRun => f.write_str("it follows the run that awaits it"),
        }
    }
}

impl std::error::Error for SkipReason {}

impl JobEventKind {
    /// Returns the name of the kind: `finished`, `interrupted`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Claimed { .. } => "claimed",
            Self::Skipped(_) => "skipped",
            Self::Missed { .. } => "missed",
            Self::GivenUp { .. } => "given_up",
            Self::Interrupted { .. } => "interrupted",
            Self::Started { .. } => "started",
            Self::Extended { .. } => "extended",
            Self::Stopping => "stopping",
            Self::Retrying { .. } => "retrying",
            Self::Finished { .. } => "finished",
            Self::Failed { .. } => "failed",
            Self::Panicked { .. } => "panicked",
            Self::Lost { .. } => "lost",
            Self::TimedOut { .. } => "timed_out",
            Self::Stopped { .. } => "stopped",
            Self::NotDone { .. } => "not_done",
            Self::Conflict(_) => "conflict",
            Self::Ended { .. } => "ended",
        }
    }

    /// Whether it is about ticks, even during a triggered run.
    pub(super) const fn concerns_ticks(&self) -> bool {
        matches!(
            self,
            Self::Missed { .. }
                | Self::GivenUp { .. }
                | Self::Claimed { .. }
                | Self::Skipped(SkipReason::Overlap)
        )
    }

    /// The event for the end of a run.
    pub(super) fn of(outcome: &Outcome, took: Duration) -> Self {
        match outcome.clone() {
            Outcome::Finished => Self::Finished { took },
            Outcome::Failed { error } => Self::Failed { error, took },
            Outcome::Panicked { message } => Self::Panicked { message, took },
            Outcome::Lost { cause } => Self::Lost { cause, took },
            Outcome::TimedOut { error } => Self::TimedOut { error, took },
            Outcome::Stopped => Self::Stopped { took },
            Outcome::NotDone { reason } => Self::NotDone { reason, took },
        }
    }
}

impl fmt::Display for JobEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claimed { attempt: 1 } => f.write_str("the tick was claimed"),
            Self::Claimed { attempt } => write!(f, "the tick was claimed for attempt {attempt}"),
            Self::Skipped(reason) => write!(f, "skipped: {reason}"),
            Self::Missed { count: 1, why, .. } => write!(f, "missed: {why}"),
            Self::Missed { count, first, why } => {
                write!(f, "{count} ticks since {first} were missed: {why}")
            }
            Self::GivenUp { attempts } => write!(f, "given up after {attempts} attempts"),
            Self::Interrupted { by } => write!(f, "the run by {} did not end", ServerText(by)),
            Self::Started { token, lateness } => {
                if *lateness < Duration::from_millis(1) {
                    f.write_str("started on time")?;
                } else {
                    write!(f, "started {lateness:.1?} late")?;
                }
                if token.get() == 0 { Ok(()) } else { write!(f, ", with token {token}") }
            }
            Self::Extended { remaining } => {
                write!(f, "the lock was extended: {remaining:.1?} left")
            }
            Self::Stopping => f.write_str("asked to stop"),
            Self::Retrying { attempt, error, pause } => {
                write!(f, "attempt {attempt} failed, the next one begins in {pause:.1?}: {error}")
            }
            Self::Finished { took } => write!(f, "finished after {took:.1?}"),
            Self::Failed { error, took } => write!(f, "failed after {took:.1?}: {error}"),
            Self::Panicked { message, took } => write!(f, "panicked after {took:.1?}: {message}"),
            Self::Lost { cause, took } => write!(f, "lost its lock after {took:.1?}: {cause}"),
            Self::TimedOut { error, took } => {
                write!(f, "stopped at the limit of its run, after {took:.1?}")?;
                error.as_ref().map_or(Ok(()), |error| write!(f, ": {error}"))
            }
            Self::Stopped { took } => write!(f, "stopped after {took:.1?}"),
            Self::NotDone { reason, took } => {
                write!(f, "not done after {took:.1?}, to be run again: {reason}")
            }
            Self::Conflict(conflict) => conflict.fmt(f),
            Self::Ended { reason } => write!(f, "the job has ended: {reason}"),
        }
    }
}

/// Returns the label in metrics.
pub(super) const fn label(reason: &SkipReason) -> &'static str {
    match reason {
        SkipReason::AlreadyStarted { .. } => "already_started",
        SkipReason::Overlap => "overlap",
        SkipReason::Held { .. } => "held",
        SkipReason::NotLeading => "not_leading",
        SkipReason::Unavailable { .. } => "unavailable",
        SkipReason::Ended => "ended",
        SkipReason::OwnRun => "own_run",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_says_what_it_has() {
        let start = |token, micros| {
            let (token, lateness) = (FencingToken::new(token), Duration::from_micros(micros));
            JobEventKind::Started { token, lateness }.to_string()
        };
        assert_eq!(start(7, 0), "started on time, with token 7");
        assert_eq!(start(7, 1_500), "started 1.5ms late, with token 7");
        assert_eq!(start(0, 999), "started on time");
    }
}
