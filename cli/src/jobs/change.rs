//! Commands for a job of the whole fleet.

use std::{
    env,
    process::ExitCode,
    time::{Duration, Instant, SystemTime},
};

use futures_util::TryStreamExt as _;
use humantime::format_rfc3339_seconds;
use serde_json::json;
use tower_redlock::{
    LockError, Redlock, Resource,
    scheduler::{ControlError, JobCommand, UnusedJob},
};

use super::Reason;
use crate::{
    exit::{self, Failure},
    output::{confirm, print, print_json, print_json_line, say, shown},
};

/// Returns who gives the command: the user, and this process.
fn by(redlock: &Redlock, reason: &Reason) -> String {
    let user = || ["LOGNAME", "USER"].iter().find_map(|name| env::var(name).ok());
    match (&reason.by, user().filter(|user| !user.is_empty())) {
        (Some(by), _) => by.clone(),
        (None, Some(user)) => format!("{user} ({})", redlock.owner()),
        (None, None) => redlock.owner().to_string(),
    }
}

fn said<T>(redlock: &Redlock, reason: &Reason, command: JobCommand<T>) -> JobCommand<T> {
    let command = command.by(by(redlock, reason));
    match &reason.why {
        Some(why) => command.why(why.as_str()),
        None => command,
    }
}

pub(super) async fn pause(
    redlock: &Redlock,
    job: &str,
    reason: &Reason,
    until: Option<SystemTime>,
    json: bool,
) -> Result<ExitCode, Failure> {
    let command = said(redlock, reason, redlock.pause_job(job));
    let command = match until {
        Some(until) => command.until(until),
        None => command,
    };
    command.await.map_err(failure)?;
    if json {
        let control = redlock.job_control(job).await?;
        print_json(&json!({ "job": job, "control": control }))?;
    } else {
        let until = until.map_or_else(
            || "until it is resumed".into(),
            |until| format!("until {}", format_rfc3339_seconds(until)),
        );
        print(&format!("{job:?} is paused on all replicas, {until}; a current run continues\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn resume(
    redlock: &Redlock,
    job: &str,
    reason: &Reason,
    json: bool,
) -> Result<ExitCode, Failure> {
    let before = redlock.job_control(job).await?;
    said(redlock, reason, redlock.resume_job(job)).await.map_err(failure)?;
    if json {
        let control = redlock.job_control(job).await?;
        print_json(&json!({ "job": job, "before": before, "control": control }))?;
    } else if before.paused.is_some() {
        print(&format!("{job:?} runs again from its next tick\n"))?;
    } else {
        print(&format!("{job:?} was not paused\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn trigger(
    redlock: &Redlock,
    job: &str,
    reason: &Reason,
    json: bool,
) -> Result<ExitCode, Failure> {
    let id = said(redlock, reason, redlock.trigger_job(job)).await.map_err(failure)?;
    if json {
        print_json(&json!({ "job": job, "trigger": id }))?;
    } else {
        print(&format!(
            "a run of {job:?} is requested, number {id}; `redlock jobs history` shows it once a replica has begun it\n"
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Interval between looks at the run.
const LOOK: Duration = Duration::from_millis(200);

pub(super) async fn stop(
    redlock: &Redlock,
    job: &str,
    reason: &Reason,
    timeout: Duration,
    json: bool,
) -> Result<ExitCode, Failure> {
    // Of a run for a tick, the claim tells the end, and the lock may be kept for longer (`min_hold`).
    let is_open = async || {
        let schedule = redlock.job_schedule(job).await?;
        Ok::<_, Failure>(schedule.is_some_and(|it| it.tick.is_some() && it.ended.is_none()))
    };
    let was_open = is_open().await?;
    let run = match said(redlock, reason, redlock.stop_job(job)).await {
        Ok(run) => run,
        Err(ControlError::NotRunning { .. }) => {
            if json {
                print_json(&json!({ "job": job, "run": null, "ended": true }))?;
            } else {
                print(&format!("{job:?} is not running\n"))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => return Err(failure(error)),
    };
    let resource = Resource::of_job(job).map_err(LockError::from)?;
    let asked = Instant::now();
    let mut owner = None;
    let ended = loop {
        let holder = redlock.inspect(resource.clone()).await?;
        // A key that fewer than a quorum of servers keep may be that of a run that goes on.
        let Some(holder) = holder.filter(|holder| holder.token.get() == run) else { break true };
        owner = holder.owner;
        if was_open && !is_open().await? {
            break true;
        }
        if asked.elapsed() >= timeout {
            break false;
        }
        tokio::time::sleep(LOOK).await;
    };
    if json {
        print_json(&json!({ "job": job, "run": run, "ended": ended }))?;
    } else if ended {
        print(&format!("the run of {job:?} with token {run} has ended\n"))?;
    }
    if ended {
        return Ok(ExitCode::SUCCESS);
    }
    let owner = owner.as_deref().map_or_else(String::new, |owner| format!(" by {}", shown(owner)));
    Err(Failure::new(
        exit::HELD,
        format!(
            "the run of {job:?}{owner} with token {run} goes on after {timeout:?}: its work blocks, or its \
             program sees no such requests; `redlock break job:{job}` takes its lock away"
        ),
    ))
}

pub(super) async fn forget_unused(
    redlock: &Redlock,
    unused_for: Duration,
    yes: bool,
    json: bool,
) -> Result<ExitCode, Failure> {
    let unused: Vec<UnusedJob> = redlock.unused_jobs(unused_for).try_collect().await?;
    if !json {
        for job in &unused {
            let since = format_rfc3339_seconds(job.since);
            let doubt = if job.is_certain { "" } else { "; its next tick is not known" };
            print(&format!("{} unused since {since}{doubt}\n", shown(&job.name)))?;
        }
        if unused.is_empty() {
            print("no job has been unused for so long\n")?;
        } else {
            print(&format!("\n{MEANING}\n\n"))?;
        }
    }
    if unused.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    confirm(&format!("Forget these {} jobs?", unused.len()), yes).await?;
    let mut failed = None;
    let mut number = 0;
    for job in unused {
        let result = redlock.forget_unused_job(&job.name, unused_for).await;
        if json {
            let error = result.as_ref().err().map(ToString::to_string);
            let existed = result.as_ref().ok();
            print_json_line(&json!({ "job": job.name, "forgotten": existed, "error": error }))?;
        }
        match result {
            Ok(existed) => number += u32::from(existed),
            Err(error) => {
                say(&format!("redlock: {error}"));
                failed = Some(error);
            }
        }
    }
    if !json {
        print(&format!("{number} forgotten\n"))?;
    }
    failed.map_or(Ok(ExitCode::SUCCESS), |error| Err(failure(error)))
}

const MEANING: &str = "\
Forgetting it removes from every server which tick was run last, the history and a pause. A replica that still has
the job takes it for a new one.";

pub(super) async fn forget(
    redlock: &Redlock,
    job: &str,
    yes: bool,
    json: bool,
) -> Result<ExitCode, Failure> {
    if json {
        say(MEANING);
    } else {
        print(&format!("{MEANING}\n\n"))?;
    }
    confirm(&format!("Forget {job:?}?"), yes).await?;
    let forgotten = redlock.forget_job(job).await;
    if json {
        let error = forgotten.as_ref().err().map(ToString::to_string);
        let existed = forgotten.as_ref().ok();
        print_json(&json!({ "job": job, "forgotten": existed, "error": error }))?;
    }
    let existed = forgotten.map_err(failure)?;
    if !json {
        let said = if existed { "is forgotten" } else { "was not known to the servers" };
        print(&format!("{job:?} {said}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn failure(error: ControlError) -> Failure {
    match error {
        ControlError::Nodes { error, .. } => error.into(),
        ControlError::Incomplete { .. } => Failure::new(exit::UNAVAILABLE, error.to_string()),
        ControlError::TooManyRequests { .. } => Failure::new(exit::HELD, error.to_string()),
        _ => Failure::usage(error.to_string()),
    }
}
