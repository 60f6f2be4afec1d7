//! `redlock jobs pause`, `resume`, `trigger`, `stop` and `forget`: commands for all replicas of a job.

use std::{
    env,
    time::{Duration, Instant, SystemTime},
};

use futures_util::TryStreamExt as _;
use humantime::format_rfc3339_seconds;
use serde_json::{Value, json};
use tower_redlock::{
    LockError, Resource,
    lock::Holder,
    scheduler::{ControlError, JobCommand, JobControl, UnusedJob},
};

use super::{known, show::until_text};
use crate::{
    client::Client,
    exit::{self, Failure},
    output::{Progress, confirm, error_text, print_json_line, say, shown},
};

/// Time for a replica to take over the request to run a job that the servers do not know. Replicas look for
/// requests every 5 s.
const TAKE_OVER_TIMEOUT: Duration = Duration::from_secs(12);
/// Interval between checks of a run that was requested to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

const MEANING: &str = "\
Forgetting it removes from every server which tick was run last, the history and a pause. A replica that still has
the job takes it for a new one.";

/// The author of a command, and the reason.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Reason {
    /// Reason of the command, for people
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    /// Author of the command [default: the user of this process, and its name as a client]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl Reason {
    /// Adds the reason and its author to a command.
    fn of<T>(&self, client: &Client, command: JobCommand<T>) -> JobCommand<T> {
        let owner = client.redlock.owner();
        let user = ["LOGNAME", "USER"].iter().find_map(|name| env::var(name).ok());
        let user = user.filter(|user| !user.is_empty());
        let default = || user.map_or_else(|| owner.to_string(), |user| format!("{user} ({owner})"));
        let command = command.by(self.by.clone().unwrap_or_else(default));
        match &self.why {
            Some(why) => command.why(why.as_str()),
            None => command,
        }
    }
}

pub(super) async fn pause(
    client: &Client,
    job: &str,
    reason: &Reason,
    until: Option<SystemTime>,
) -> Result<(), Failure> {
    let mut command = reason.of(client, client.redlock.pause_job(job));
    if let Some(until) = until {
        command = command.until(until);
    }
    command.await.map_err(failure)?;
    let control = control(client, job).await?;
    let until = until_text(until);
    client.output.show(
        &json!({ "job": job, "control": control }),
        &format!("{job:?} is paused on all replicas, {until}; a current run continues\n"),
    )
}

pub(super) async fn resume(client: &Client, job: &str, reason: &Reason) -> Result<(), Failure> {
    known::check(client, job, "").await?;
    let before = client.redlock.job_control(job).await?;
    reason.of(client, client.redlock.resume_job(job)).await.map_err(failure)?;
    let control = control(client, job).await?;
    let said =
        if before.paused.is_some() { "runs again from its next tick" } else { "was not paused" };
    client.output.show(
        &json!({ "job": job, "before": before, "control": control }),
        &format!("{job:?} {said}\n"),
    )
}

/// Reads what was changed, as JSON has it.
async fn control(client: &Client, job: &str) -> Result<Option<JobControl>, LockError> {
    if client.output.json { client.redlock.job_control(job).await.map(Some) } else { Ok(None) }
}

pub(super) async fn trigger(client: &Client, job: &str, reason: &Reason) -> Result<(), Failure> {
    let is_known = known::is_known(client, job).await?;
    let command = reason.of(client, client.redlock.trigger_job(job));
    let id = command.await.map_err(failure)?;
    if !is_known && !is_taken_over(client, job, id).await? {
        // The request is all that the servers have of the job.
        client.redlock.forget_job(job).await.map_err(|error| {
            let Failure { code, message } = failure(error);
            let kept = format!(
                "request {id} to run {job:?} is not withdrawn, and no replica has taken it over"
            );
            Failure::new(
                code,
                format!("{kept}: `redlock jobs forget {job}` withdraws it: {message}"),
            )
        })?;
        let otherwise =
            format!("; no replica has taken the request over within {TAKE_OVER_TIMEOUT:?}");
        return Err(known::unknown(client, job, &otherwise).await);
    }
    client.output.show(
        &json!({ "job": job, "trigger": id }),
        &format!(
            "a run of {job:?} is requested, number {id}; `redlock jobs history` shows it once a replica has \
             begun it\n"
        ),
    )
}

/// Waits until a replica takes over a request to run a job whose ticks none has run so far.
async fn is_taken_over(client: &Client, job: &str, id: u64) -> Result<bool, Failure> {
    let asked = Instant::now();
    let taken_over = async {
        loop {
            let control = client.redlock.job_control(job).await?;
            if control.requested.iter().all(|run| run.id != id) {
                return Ok(true);
            }
            if asked.elapsed() >= TAKE_OVER_TIMEOUT {
                return Ok(false);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    Progress::new().during(&format!("waiting for a replica that has {job:?}"), taken_over).await
}

pub(super) async fn stop(
    client: &Client,
    job: &str,
    reason: &Reason,
    timeout: Duration,
) -> Result<(), Failure> {
    let (redlock, output) = (&client.redlock, client.output);
    // The claim tells the end of a run for a tick; its lock may be kept for longer (`min_hold`).
    let is_open = async || {
        let schedule = redlock.job_schedule(job).await?;
        Ok::<_, Failure>(schedule.is_some_and(|it| it.tick.is_some() && it.ended.is_none()))
    };
    let was_open = is_open().await?;
    let holders = redlock.job_holders(job).await?;
    let run = match reason.of(client, redlock.stop_job(job)).await {
        Ok(run) => run,
        Err(ControlError::NotRunning { .. }) => {
            known::check(client, job, "").await?;
            let json = json!({ "job": job, "run": null, "ended": true });
            return output.show(&json, &format!("{job:?} is not running\n"));
        }
        Err(error) => return Err(failure(error)),
    };
    let resource = Resource::of_job(job).map_err(LockError::from)?;
    let slots: Vec<_> =
        holders.into_iter().filter(|of| Resource::slot_of(&of.name).is_some()).collect();
    let asked = Instant::now();
    // Returns the holder of a run that continues after the timeout.
    let ended = async {
        loop {
            let holder = if slots.is_empty() {
                let holder = redlock.inspect(resource.clone()).await?;
                // A run may continue whose key only a minority of servers keep.
                holder.filter(|holder| holder.token.get() == run)
            } else {
                let holds = |now: &Holder| {
                    slots.iter().any(|slot| (&slot.name, slot.token) == (&now.name, now.token))
                };
                redlock.job_holders(job).await?.into_iter().find(holds)
            };
            let Some(holder) = holder else { return Ok::<_, Failure>(None) };
            if slots.is_empty() && was_open && !is_open().await? {
                return Ok(None);
            }
            if asked.elapsed() >= timeout {
                return Ok(Some(holder));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let line = format!("waiting for the run of {job:?} to end");
    let left = Progress::new().during(&line, ended).await?;
    output.show_json(&json!({ "job": job, "run": run, "ended": left.is_none() }))?;
    let Some(Holder { name, owner, token, .. }) = left else {
        let ended = match slots.len() {
            0 => format!("the run of {job:?} with token {run} has ended\n"),
            runs => format!("{runs} runs of {job:?} have ended\n"),
        };
        return output.show_text(&ended);
    };
    let owner = owner.as_deref().map_or_else(String::new, |owner| format!(" by {}", shown(owner)));
    Err(Failure::new(
        exit::HELD,
        format!(
            "the run of {job:?}{owner} with token {token} still runs after {timeout:?}: its work blocks, or its \
             program does not see stop requests; `redlock break {name}` takes its lock away"
        ),
    ))
}

pub(super) async fn forget(client: &Client, job: &str, yes: bool) -> Result<(), Failure> {
    client.output.explain(MEANING)?;
    confirm(&format!("Forget {job:?}?"), yes).await?;
    let forgotten = client.redlock.forget_job(job).await;
    client.output.show_json(&object(job, &forgotten))?;
    if !forgotten.map_err(failure)? {
        return Err(known::unknown(client, job, "").await);
    }
    client.output.show_text(&format!("{job:?} is forgotten\n"))
}

pub(super) async fn forget_unused(
    client: &Client,
    unused_for: Duration,
    yes: bool,
) -> Result<(), Failure> {
    let (redlock, output) = (&client.redlock, client.output);
    let unused: Vec<UnusedJob> = redlock.unused_jobs(unused_for).try_collect().await?;
    if unused.is_empty() {
        return output.show_text("no job has been unused for that time\n");
    }
    for job in &unused {
        let since = format_rfc3339_seconds(job.since);
        let doubt = if job.is_certain { "" } else { "; its next tick is not known" };
        output.show_text(&format!("{} unused since {since}{doubt}\n", shown(&job.name)))?;
    }
    output.show_text(&format!("\n{MEANING}\n\n"))?;
    confirm(&format!("Forget these {} jobs?", unused.len()), yes).await?;
    let mut failed = None;
    let mut number = 0;
    for job in unused {
        let forgotten = redlock.forget_unused_job(&job.name, unused_for).await;
        if output.json {
            print_json_line(&object(&job.name, &forgotten))?;
        }
        match forgotten {
            Ok(existed) => number += u32::from(existed),
            Err(error) => {
                say(&format!("redlock: {error}"));
                failed = Some(error);
            }
        }
    }
    output.show_text(&format!("{number} forgotten\n"))?;
    failed.map_or(Ok(()), |error| Err(failure(error)))
}

fn object(job: &str, forgotten: &Result<bool, ControlError>) -> Value {
    let error = error_text(forgotten);
    json!({ "job": job, "forgotten": forgotten.as_ref().ok(), "error": error })
}

fn failure(error: ControlError) -> Failure {
    let code = match error {
        ControlError::Nodes { error, .. } => return (*error).into(),
        ControlError::Incomplete { .. } => exit::UNAVAILABLE,
        ControlError::TooManyRequests { .. } => exit::HELD,
        _ => exit::USAGE,
    };
    Failure::new(code, error.to_string())
}
