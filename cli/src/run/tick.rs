//! One tick of a job, by `--tick`: its start, its outcome, and the report of a failure.

use std::time::{Duration, SystemTime};

use humantime::format_rfc3339_seconds;
use tokio::time::{sleep, timeout};
use tower_redlock::{
    LockError,
    scheduler::{JobConflict, TickError, TickOutcome, TickRequest},
};

use super::{
    args::RunArgs,
    ended::{Ended, Outcome},
    runner::{Runner, client},
    zone,
};
use crate::{
    exit::{self, Failure},
    output::say,
};

/// Timeout of the question which tick was begun last.
const SCHEDULE_TIMEOUT: Duration = Duration::from_secs(2);

impl Runner<'_> {
    /// Notes which tick the start means, and prints a line if a wrong time zone may be the reason.
    pub(super) fn mean_tick(&self, request: &TickRequest) {
        let Some(tick) = request.tick() else { return };
        self.tick.set(Some((tick, 0)));
        if self.args.quiet || !self.args.is_tick_of_now() {
            return;
        }
        let doubt =
            self.args.zone().ok().and_then(|zone| zone::doubt(tick, SystemTime::now(), &zone));
        if let Some(doubt) = doubt {
            say(&format!("redlock: {}: {doubt}", self.args.tick.as_deref().unwrap_or_default()));
        }
    }

    /// Waits until the tick begins that an early start is for.
    async fn tick_begins(&self, job: &str, request: &TickRequest) {
        let tick = request.tick().filter(|_| self.args.is_tick_of_now());
        let wait = tick.and_then(|tick| tick.duration_since(SystemTime::now()).ok());
        let (Some(tick), Some(wait)) = (tick, wait) else { return };
        let reason = async || format!("the tick of {job} at {}", format_rfc3339_seconds(tick));
        self.waiting.during(sleep(wait), reason).await;
    }

    pub(super) async fn tick(&self, job: &str, request: TickRequest) -> Outcome {
        if !self.is_verbose {
            // Each host waits for others at many ticks, and cron(8) mails what is printed.
            self.waiting.end();
        }
        self.tick_begins(job, &request).await;
        let done = request.run(|context| async move {
            self.tick.set(Some((context.tick(), context.attempt())));
            let more = vec![
                ("REDLOCK_TICK", format_rfc3339_seconds(context.tick()).to_string()),
                ("REDLOCK_ATTEMPT", context.attempt().to_string()),
            ];
            let is_stopped = || context.stop_request().is_some();
            let ended = self.work(job, (*context).clone(), more, is_stopped).await;
            if matches!(&ended, Ended::Interrupted(_) | Ended::NotStarted(_)) {
                context.give_back();
            }
            ended.into_result()
        });
        let reason = async || {
            let other = || format!("another host, which runs a tick of {job}");
            self.missing_servers().unwrap_or_else(other)
        };
        match self.waiting.during(done, reason).await {
            Ok(TickOutcome::Ran(ended)) | Err(TickError::Work(ended)) => ended.into(),
            Ok(TickOutcome::RanUnrecorded(_, error)) => Outcome::Unrecorded(error),
            Ok(TickOutcome::AlreadyDone { by, .. }) => {
                Outcome::NothingToDo(format!("{} has run this tick", client(by.as_deref())))
            }
            Ok(TickOutcome::Superseded { tick, by, .. }) => {
                let (by, tick) = (client(by.as_deref()), format_rfc3339_seconds(tick));
                let reason = format!("{by} has begun a later tick, {tick}; this one is missed");
                Outcome::conflict(reason, Some(("missed", 0)))
            }
            Ok(TickOutcome::GivenUp { by, attempts, .. }) => {
                let reason = format!(
                    "{} tried the tick last; attempts so far: {attempts}, which failed or were interrupted, \
                     and --attempts allows no more",
                    client(by.as_deref())
                );
                Outcome::conflict(reason, Some(("failed", attempts)))
            }
            Ok(TickOutcome::Conflict { tick, conflict, .. }) => {
                let tick = format_rfc3339_seconds(tick);
                let (by, what) = (
                    conflict.by(),
                    match &conflict {
                        JobConflict::Schedule { other: Some(other), .. } => {
                            format!("by another schedule, {other}")
                        }
                        JobConflict::Schedule { .. } => "by another schedule".into(),
                        _ => "with another command".into(),
                    },
                );
                let reason = format!(
                    "{by} has begun the tick {tick} of {job} {what}: of two lines with one job name only one \
                     runs, so give each a name of its own; if they are the same job, give both the same --cron \
                     and --work-id"
                );
                let failure = Failure::new(exit::CONFLICT, reason);
                Outcome::not_run(failure, Some(("conflict", 0)))
            }
            Ok(TickOutcome::Paused(pause)) => {
                let until =
                    pause.until.map(|until| format!(" until {}", format_rfc3339_seconds(until)));
                let why = pause.why.map(|why| format!(": {why}"));
                let (until, why) = (until.unwrap_or_default(), why.unwrap_or_default());
                Outcome::NothingToDo(format!("{} has paused the job{until}{why}", pause.by))
            }
            Ok(TickOutcome::Unknown) => {
                let reason = "a majority of the servers began without data after this tick, so it is not \
                              known whether it was run";
                Outcome::conflict(reason.into(), Some(("unknown", 0)))
            }
            Err(TickError::Stopped(stop)) => Outcome::StoppedBy(stop),
            Err(TickError::Lock(error)) => self.tick_not_locked(job, error).await,
            Err(error) => Outcome::not_run(Failure::usage(error.to_string()), None),
            Ok(_) => Outcome::Unknown,
        }
    }

    /// Returns the outcome of a tick whose lock was not acquired, or was lost. After a wait for its whole interval
    /// it is missed, unless another host runs it.
    async fn tick_not_locked(&self, job: &str, error: LockError) -> Outcome {
        let is_late = self.args.has_default_wait()
            && matches!(error, LockError::WaitTimedOut { .. })
            && matches!(error.root(), LockError::Held { .. });
        if !is_late {
            return error.into();
        }
        let known = timeout(SCHEDULE_TIMEOUT, self.servers.job_schedule(job)).await;
        let begun = known.ok().and_then(Result::ok).flatten().and_then(|known| known.tick);
        let meant = self.tick.get().map(|(tick, _)| tick);
        if begun.is_some() && begun >= meant {
            return Outcome::NothingToDo("another host runs this tick".into());
        }
        let reason = format!(
            "{error}: the run of an earlier tick takes longer than the time between two ticks, and this one is \
             missed (--wait sets how long a tick waits)"
        );
        Outcome::conflict(reason, Some(("missed", 0)))
    }

    /// Reports a failed or missed tick by `--notify-failure`.
    pub(super) async fn notify_failure(&self, outcome: &Outcome) {
        let RunArgs { tick: Some(job), notify_failure: Some(command), .. } = self.args else {
            return;
        };
        let meant = self.tick.get();
        let Some(failure) = outcome.tick_failure(meant.map_or(0, |(_, attempt)| attempt)) else {
            return;
        };
        let tick = meant.map(|(tick, _)| format_rfc3339_seconds(tick).to_string());
        let tick = tick.unwrap_or_default();
        failure.notify(&self.redlock, command, job, &tick, &self.signals).await;
    }
}
