//! How the command ended, and how `run` ended: its messages and its exit code.

use std::{
    fmt, io,
    os::unix::process::ExitStatusExt,
    process::{ExitCode, ExitStatus},
};

use rustix::process::Signal;
use tower_redlock::{LockError, lock::NotReady, scheduler::JobStop};

use super::hook::TickFailure;
use crate::{
    exit::{self, Failure},
    output::say,
    signals::exit_code,
};

/// Why a command was stopped whose lock did not report a loss.
const STOPPED: &str = "it could not be extended, or was held for --max-hold";

/// How the command ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// By itself, or by a signal that was forwarded.
    Itself(ExitStatus),
    /// Stopped, as the lock ended.
    Stopped,
    /// Its first process has ended, others can't be killed, and a signal ended the wait for them.
    Left,
    /// Killed, as it could not be watched any more.
    Unwatched(io::Error),
    /// Not started: a signal came before.
    Interrupted(Signal),
    /// Not started: the operating system refused.
    NotStarted(io::Error),
}

impl Ended {
    /// Returns `Ok` if the command succeeded.
    pub(super) fn into_result(self) -> Result<Self, Self> {
        let is_success = matches!(&self, Self::Itself(status) if status.success());
        if is_success { Ok(self) } else { Err(self) }
    }

    fn text(&self, command: &str) -> String {
        match self {
            Self::Itself(status) => format!("{command} ended with {status}"),
            Self::Stopped => format!("{command} was stopped, as the lock was about to end"),
            Self::Left => format!("{command} left processes that can't be killed"),
            Self::Unwatched(error) => {
                format!("{command} was killed: it could not be watched: {error}")
            }
            Self::Interrupted(_) => format!("a signal came before {command} was started"),
            Self::NotStarted(error) => format!("{command} was not started: {error}"),
        }
    }
}

/// The error of a failed run in the history of a job.
impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text("the command"))
    }
}

/// How `run` ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The command was started, or a signal or the operating system prevented its start.
    Ran(Ended),
    /// The command did not have to run, for this reason.
    NothingToDo(String),
    /// The command was not run.
    NotRun(NotRun),
    /// The lock was lost while the command ran, for this reason.
    Lost(String),
    /// The run was stopped by a user.
    StoppedBy(JobStop),
    /// The command succeeded, and this could not be recorded.
    Unrecorded(LockError),
    /// The library reports an outcome that this version does not know.
    Unknown,
}

/// Why the command was not run.
#[derive(Debug)]
pub(super) struct NotRun {
    code: u8,
    reason: String,
    /// How a tick failed, and the number of the attempt; `None` if another host runs it.
    failure: Option<(&'static str, u32)>,
}

impl From<Ended> for Outcome {
    fn from(ended: Ended) -> Self {
        Self::Ran(ended)
    }
}

impl From<LockError> for Outcome {
    fn from(error: LockError) -> Self {
        if let LockError::Lost { cause } = error {
            return Self::Lost(cause.to_string());
        }
        let is_held = matches!(error.root(), LockError::Held { .. });
        Self::not_run(error.into(), (!is_held).then_some(("unavailable", 0)))
    }
}

impl From<NotReady> for Outcome {
    fn from(why: NotReady) -> Self {
        Self::not_run(why.into(), Some(("unavailable", 0)))
    }
}

impl Outcome {
    pub(super) fn not_run(failure: Failure, of_tick: Option<(&'static str, u32)>) -> Self {
        let Failure { code, message } = failure;
        Self::NotRun(NotRun { code, reason: message, failure: of_tick })
    }

    /// The command was not run because of what another client did or does.
    pub(super) fn conflict(reason: String, of_tick: Option<(&'static str, u32)>) -> Self {
        Self::not_run(Failure::new(exit::HELD, reason), of_tick)
    }

    /// Returns the failure of a tick that is reported to people. `attempt` is the number of the run; zero if
    /// the command was not started.
    pub(super) fn tick_failure(&self, attempt: u32) -> Option<TickFailure> {
        let (outcome, error, attempt) = match self {
            Self::Ran(Ended::Itself(status)) if status.success() => return None,
            Self::Ran(Ended::Interrupted(_)) => return None,
            Self::Ran(ended @ Ended::Stopped) => ("lost", ended.to_string(), attempt),
            Self::Ran(ended) => ("failed", ended.to_string(), attempt),
            Self::Lost(cause) => ("lost", format!("the lock was lost: {cause}"), attempt),
            Self::Unrecorded(error) => ("unavailable", error.to_string(), attempt),
            Self::NotRun(NotRun { reason, failure: Some((outcome, attempt)), .. }) => {
                (*outcome, reason.clone(), *attempt)
            }
            _ => return None,
        };
        Some(TickFailure { outcome, error, attempt })
    }

    /// Returns the cause if the command was stopped as its lock was lost.
    pub(super) fn loss(&self) -> Option<&str> {
        match self {
            Self::Ran(Ended::Stopped) => Some(STOPPED),
            Self::Lost(cause) => Some(cause),
            _ => None,
        }
    }

    /// Prints the message about the command. Returns the exit code; `conflict_code` if the lock was held.
    pub(super) fn report(self, command: &str, conflict_code: u8, is_verbose: bool) -> ExitCode {
        let lost = |cause: &str| {
            let message = format!("the lock was lost, and {command} stopped: {cause}");
            Failure::new(exit::LOST, message)
        };
        let failure = match self {
            Self::Lost(cause) => lost(&cause),
            Self::Ran(Ended::Stopped) => lost(STOPPED),
            Self::Ran(Ended::Itself(status)) => {
                let signal = |signal| 128_i32.saturating_add(signal);
                let code = status.code().or_else(|| status.signal().map(signal)).unwrap_or(1);
                return ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX));
            }
            Self::Ran(Ended::Interrupted(signal)) => return exit_code(signal).into(),
            Self::NothingToDo(reason) => {
                // cron(8) mails what is printed, from each host.
                if is_verbose {
                    say(&format!("redlock: {command} was not run: {reason}"));
                }
                return ExitCode::SUCCESS;
            }
            Self::Ran(ended) => Failure::system(ended.text(command)),
            Self::NotRun(NotRun { code, reason, .. }) => {
                let code = if code == exit::HELD { conflict_code } else { code };
                Failure::new(code, format!("{command} was not run: {reason}"))
            }
            Self::StoppedBy(stop) => Failure::new(exit::LOST, format!("{command} was {stop}")),
            Self::Unrecorded(error) => Failure::new(
                exit::UNAVAILABLE,
                format!(
                    "{command} succeeded, and this could not be recorded; it may run again: {error}"
                ),
            ),
            Self::Unknown => Failure::system(format!(
                "{command}: the library reports an outcome that this version does not know"
            )),
        };
        failure.report()
    }
}
