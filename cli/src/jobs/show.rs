//! `redlock jobs history` and `redlock jobs next`: the latest runs and the next ticks of a job.

use std::time::SystemTime;

use humantime::format_rfc3339_seconds;
use serde_json::json;
use tower_redlock::{
    schedule::{WallTime, zone_database_version},
    scheduler::{JobControl, JobRun, JobRunResult, StoredSchedule},
};

use super::known;
use crate::{
    client::Client,
    exit::Failure,
    output::{Table, say, short, shown, shown_or},
};

const COLUMNS: [&str; 8] =
    ["TICK", ">LATE", "STARTED", ">TOOK", "RESULT", ">ATTEMPT", "BY", "ERROR"];

pub(super) async fn history(client: &Client, job: &str) -> Result<(), Failure> {
    let control = client.redlock.job_control(job).await?;
    let runs = client.redlock.job_history(job).await?;
    let json = json!({ "job": job, "control": control, "runs": runs });
    let runs_text = match &runs[..] {
        [] if !known::is_known(client, job).await? => {
            client.output.show_json(&json)?;
            return Err(known::unknown(client, job, "").await);
        }
        [] => format!("the servers know of no run of {job:?}\n"),
        runs => Table::of(COLUMNS, runs.iter().rev().map(cells)),
    };
    client.output.show(&json, &(control_text(&control) + &runs_text))
}

/// The end of a pause in words.
pub(super) fn until_text(until: Option<SystemTime>) -> String {
    until.map_or_else(
        || "until it is resumed".into(),
        |until| format!("until {}", format_rfc3339_seconds(until)),
    )
}

/// The pause, and the requested runs.
fn control_text(control: &JobControl) -> String {
    let said = |by: &str, at, until: &str, why: Option<&str>| {
        let why = why.map_or_else(String::new, |why| format!(": {}", shown(why)));
        format!("by {} at {}{until}{why}\n", shown(by), format_rfc3339_seconds(at))
    };
    let pause = control.paused.iter().map(|pause| {
        let until = format!(", {}", until_text(pause.until));
        format!("paused {}", said(&pause.by, pause.at, &until, pause.why.as_deref()))
    });
    let requests = control.requested.iter().map(|run| {
        format!("run {} requested {}", run.id, said(&run.by, run.at, "", run.why.as_deref()))
    });
    let text: String = pause.chain(requests).collect();
    if text.is_empty() { text } else { text + "\n" }
}

fn cells(run: &JobRun) -> [String; 8] {
    let tick = match run.trigger {
        None => format_rfc3339_seconds(run.tick).to_string(),
        Some(trigger) => format!("requested: {trigger}"),
    };
    [
        tick,
        short(run.lateness),
        format_rfc3339_seconds(run.started).to_string(),
        took(run),
        result(run.result),
        run.attempt.to_string(),
        shown(&run.owner),
        shown_or(run.error.as_deref(), ""),
    ]
}

pub(super) fn took(run: &JobRun) -> String {
    let took = run.ended.map(|ended| ended.duration_since(run.started).unwrap_or_default());
    took.map_or_else(|| "-".into(), short)
}

/// Returns a result in words.
pub(super) fn result(result: JobRunResult) -> String {
    match (result, json!(result).as_str()) {
        (JobRunResult::Open, _) => "running".into(),
        (_, name) => name.unwrap_or_default().replace('_', " "),
    }
}

pub(super) async fn next(client: &Client, job: &str, number: u16) -> Result<(), Failure> {
    let (redlock, output) = (&client.redlock, client.output);
    let (schedule, control) = (redlock.job_schedule(job).await?, redlock.job_control(job).await?);
    let Some(schedule) = schedule else {
        let json = json!({ "job": job, "schedule": null, "control": control, "ticks": [] });
        if !known::is_known(client, job).await? {
            output.show_json(&json)?;
            return Err(known::unknown(client, job, "").await);
        }
        return output.show(&json, &format!("the servers know no schedule of {job:?}\n"));
    };
    let now = SystemTime::now();
    let ticks = schedule.next_ticks(now, number.into());
    warn_of_zones(&schedule);
    let mut text = vec![match (&schedule.schedule, &schedule.text) {
        (Some(known), _) => format!("{known}\n"),
        (None, Some(stored)) => format!("{}: only the program knows its ticks\n", shown(stored)),
        (None, None) => "stored by an earlier version, without the schedule's text\n".into(),
    }];
    text.extend(control.paused.iter().map(|pause| {
        let (by, until) = (shown(&pause.by), until_text(pause.until));
        format!("paused by {by} {until}: ticks in the pause do not run\n")
    }));
    text.extend(ticks.iter().map(|tick| {
        let left = tick.duration_since(now).unwrap_or_default();
        format!("{}  in {}\n", WallTime::from(*tick), short(left))
    }));
    if ticks.is_empty() && schedule.schedule.is_some() {
        let is_running = schedule.ended.is_none() && schedule.tick.is_some();
        let next = "the next tick follows from the end of the run that is under way\n";
        text.push(if is_running { next } else { "no further tick\n" }.into());
    }
    let times = ticks.iter().map(|tick| format_rfc3339_seconds(*tick).to_string());
    let json = json!({
        "job": job,
        "schedule": schedule.text,
        "time_zones": schedule.zones,
        "control": control,
        "ticks": times.collect::<Vec<_>>(),
    });
    output.show(&json, &text.concat())
}

/// Warns if this program, which computes the ticks here, has another database than the job's programs.
fn warn_of_zones(schedule: &StoredSchedule) {
    if let (Some(stored), Some(own)) = (schedule.zones.as_deref(), zone_database_version())
        && stored != own
    {
        say(&format!(
            "redlock: the job's programs have the time zone database {}, this one {own}: around a change of \
             law the ticks may differ",
            shown(stored)
        ));
    }
}
