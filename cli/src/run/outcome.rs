//! How `run` ends: what it says, and its exit code.

use std::{
    io::{IsTerminal, stderr},
    os::unix::process::ExitStatusExt,
    process::ExitCode,
    sync::Arc,
    time::SystemTime,
};

use humantime::format_rfc3339_seconds;
use rustix::process::Signal;
use tower_redlock::{
    LockError,
    lock::NotReady,
    scheduler::{JobPause, JobStop},
};

use super::{
    args::RunArgs,
    command::shown,
    hook::{TickFailure, shell},
    signals::Signals,
    work::Ended,
};
use crate::{
    exit::{self, Failure},
    output::say,
};

/// How `run` ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The command was started.
    Ran(Ended),
    /// The lock was not acquired, or was lost while the command ran.
    Failed(LockError),
    /// Too few servers vote.
    NotReady(Box<NotReady>),
    /// The library ended with an outcome that this version does not know.
    Unknown,
    /// A signal came before the command was started.
    Interrupted(Signal),
    /// The work was done before.
    AlreadyDone { by: Arc<str>, at: SystemTime },
    /// Another client does the work, or its outcome is unknown.
    InProgress { by: Option<Arc<str>>, is_unknown: bool },
    /// The job's tick was run before.
    TickDone { by: Option<Arc<str>> },
    /// A later tick of the job was begun before: this one is missed.
    TickSuperseded { tick: SystemTime, by: Option<Arc<str>> },
    /// The maximum number of attempts at the tick was reached.
    GivenUp { by: Option<Arc<str>>, attempts: u32 },
    /// A majority of the servers began without data after the tick.
    TickUnknown,
    /// The job is paused.
    Paused(JobPause),
    /// Somebody stopped the run.
    StoppedBy(JobStop),
    /// What the arguments say can't be done.
    Usage(String),
    /// The command succeeded, and this could not be recorded.
    Unrecorded(LockError),
}

impl From<Ended> for Outcome {
    fn from(ended: Ended) -> Self {
        Self::Ran(ended)
    }
}

impl From<LockError> for Outcome {
    fn from(error: LockError) -> Self {
        Self::Failed(error)
    }
}

impl Outcome {
    /// Returns why the command did not have to run.
    fn nothing_to_do(&self) -> Option<String> {
        Some(match self {
            Self::AlreadyDone { by, at } => {
                format!("{by} has done it at {}", format_rfc3339_seconds(*at))
            }
            Self::TickDone { by } => format!("{} has run this tick", shown_owner(by.as_deref())),
            Self::Paused(JobPause { by, why, until, .. }) => {
                let why = why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
                let until = until.map_or_else(String::new, |until| {
                    format!(" until {}", format_rfc3339_seconds(until))
                });
                format!("{by} has paused the job{until}{why}")
            }
            _ => return None,
        })
    }

    /// Returns the failure of a tick that a person should know. `attempt` is that of the run, zero if the
    /// command was not started.
    pub(super) fn tick_failure(&self, attempt: u32) -> Option<TickFailure> {
        let failure =
            |outcome, error: String, attempt| Some(TickFailure { outcome, error, attempt });
        match self {
            Self::Ran(Ended::Itself(status)) if status.success() => None,
            Self::Ran(ended @ Ended::Stopped) => failure("lost", ended.to_string(), attempt),
            Self::Ran(
                ended @ (Ended::Itself(_)
                | Ended::Left
                | Ended::Unwatched(_)
                | Ended::NotStarted(_)),
            ) => failure("failed", ended.to_string(), attempt),
            Self::Failed(error @ LockError::Lost { .. }) => {
                failure("lost", error.to_string(), attempt)
            }
            // Another host runs the tick.
            Self::Failed(error) if matches!(error.root(), LockError::Held { .. }) => None,
            Self::Failed(error) | Self::Unrecorded(error) => {
                failure("unavailable", error.to_string(), attempt)
            }
            Self::NotReady(why) => failure("unavailable", why.to_string(), attempt),
            Self::TickSuperseded { tick, by } => {
                let (by, tick) = (shown_owner(by.as_deref()), format_rfc3339_seconds(*tick));
                failure("missed", format!("{by} has begun a later tick, that of {tick}"), 0)
            }
            Self::GivenUp { by, attempts } => {
                let by = shown_owner(by.as_deref());
                let error = format!("{by} tried it last, and failed or was broken off");
                failure("failed", error, *attempts)
            }
            Self::TickUnknown => {
                let error = "a majority of the servers began without data after this tick";
                failure("unknown", error.into(), 0)
            }
            Self::Unknown
            | Self::Ran(Ended::Interrupted(_))
            | Self::Interrupted(_)
            | Self::AlreadyDone { .. }
            | Self::InProgress { .. }
            | Self::TickDone { .. }
            | Self::Paused(_)
            | Self::StoppedBy(_)
            | Self::Usage(_) => None,
        }
    }

    /// Prints what there is to say. Returns the exit code.
    pub(super) async fn report(
        self,
        args: &RunArgs,
        is_verbose: bool,
        signals: &Signals,
    ) -> ExitCode {
        let command = shown(&args.command);
        if let Some(why) = self.nothing_to_do() {
            // cron(8) mails what is printed, from each host.
            if !args.quiet && (is_verbose || stderr().is_terminal()) {
                say(&format!("redlock: {command} was not run: {why}"));
            }
            return ExitCode::SUCCESS;
        }
        let failure = match self {
            Self::Ran(Ended::Itself(status)) => {
                let signal = |signal| 128_i32.saturating_add(signal);
                let code = status.code().or_else(|| status.signal().map(signal)).unwrap_or(1);
                return ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX));
            }
            Self::Ran(Ended::Interrupted(signal)) | Self::Interrupted(signal) => {
                return ExitCode::from(u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX));
            }
            Self::TickSuperseded { tick, by } => Failure::new(
                args.conflict_exit_code,
                format!(
                    "{command} was not run: {} has begun a later tick, that of {}; this one is missed",
                    shown_owner(by.as_deref()),
                    format_rfc3339_seconds(tick)
                ),
            ),
            Self::GivenUp { by, attempts } => Failure::new(
                args.conflict_exit_code,
                format!(
                    "{command} was not run: {} tried the tick last; attempts so far: {attempts}, which failed \
                     or were broken off, and --attempts allows no more",
                    shown_owner(by.as_deref())
                ),
            ),
            Self::TickUnknown => Failure::new(
                args.conflict_exit_code,
                format!(
                    "{command} was not run: a majority of the servers began without data after this tick, \
                     so it is not known whether it was run"
                ),
            ),
            Self::StoppedBy(stop) => Failure::new(exit::LOST, format!("{command} was {stop}")),
            Self::Usage(reason) => Failure::usage(reason),
            Self::Ran(Ended::Stopped) => {
                lost(args, signals, "it could not be extended, or was held for --max-hold").await
            }
            Self::Failed(LockError::Lost { cause }) => {
                lost(args, signals, &cause.to_string()).await
            }
            Self::Ran(Ended::Left) => Failure::system(format!(
                "processes of {command} are left, which can't be killed; the lock is released"
            )),
            Self::Ran(Ended::Unwatched(error)) => {
                Failure::system(format!("{command} was killed: it could not be watched: {error}"))
            }
            Self::Ran(Ended::NotStarted(error)) => {
                Failure::system(format!("{command} was not started: {error}"))
            }
            Self::Failed(error) => {
                let mut failure = Failure::from(error);
                failure.message = format!("{command} was not run: {}", failure.message);
                if failure.code == exit::HELD {
                    failure.code = args.conflict_exit_code;
                }
                failure
            }
            // Handled above.
            Self::AlreadyDone { .. } | Self::TickDone { .. } | Self::Paused(_) => {
                return ExitCode::SUCCESS;
            }
            Self::NotReady(why) => {
                let mut failure = Failure::from(*why);
                failure.message = format!("{command} was not run: {}", failure.message);
                failure
            }
            Self::Unknown => Failure::system(format!(
                "{command}: an outcome that this version of the command does not know"
            )),
            Self::InProgress { by, is_unknown } => {
                let by = shown_owner(by.as_deref());
                let what =
                    if is_unknown { "began it, and may have done it" } else { "does it now" };
                Failure::new(args.conflict_exit_code, format!("{command} was not run: {by} {what}"))
            }
            Self::Unrecorded(error) => Failure::new(
                exit::UNAVAILABLE,
                format!(
                    "{command} succeeded, which could not be recorded; it may run again: {error}"
                ),
            ),
        };
        failure.report()
    }
}

fn shown_owner(owner: Option<&str>) -> &str {
    owner.unwrap_or("another client")
}

/// Does what is to be done after a loss.
async fn lost(args: &RunArgs, signals: &Signals, cause: &str) -> Failure {
    if let Some(on_lost) = &args.on_lost {
        shell("--on-lost", on_lost, &[("REDLOCK_LOSS", cause)], signals).await;
    }
    let command = shown(&args.command);
    Failure::new(exit::LOST, format!("the lock was lost, and {command} stopped: {cause}"))
}
