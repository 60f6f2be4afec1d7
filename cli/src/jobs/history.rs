//! `redlock jobs history`.

use std::{fmt::Write as _, process::ExitCode};

use humantime::format_rfc3339_seconds;
use serde_json::json;
use tower_redlock::{
    Redlock,
    scheduler::{JobControl, JobRun, JobRunResult},
};

use crate::{
    exit::Failure,
    output::{Column, Table, print, print_json, short, shown},
};

const COLUMNS: [Column; 8] = [
    Column::left("TICK"),
    Column::right("LATE"),
    Column::left("STARTED"),
    Column::right("TOOK"),
    Column::left("RESULT"),
    Column::right("ATTEMPT"),
    Column::left("BY"),
    Column::left("ERROR"),
];

pub(super) async fn history(redlock: &Redlock, job: &str, json: bool) -> Result<ExitCode, Failure> {
    let (control, runs) = (redlock.job_control(job).await?, redlock.job_history(job).await?);
    if json {
        print_json(&json!({ "job": job, "control": control, "runs": runs }))?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&standing(&control))?;
    if runs.is_empty() {
        print(&format!("the servers know of no run of {job:?}\n"))?;
    }
    let mut table = Table::new(COLUMNS);
    for run in runs.iter().rev() {
        print(&table.row(cells(run)))?;
    }
    print(&table.end())?;
    Ok(ExitCode::SUCCESS)
}

/// The pause, and the requested runs.
fn standing(control: &JobControl) -> String {
    let mut text = String::new();
    let why = |why: &Option<_>| {
        why.as_deref().map_or_else(String::new, |why: &str| format!(": {}", shown(why)))
    };
    // Writing into memory does not fail.
    if let Some(pause) = &control.paused {
        let until = pause.until.map_or_else(
            || "until it is resumed".into(),
            |until| format!("until {}", format_rfc3339_seconds(until)),
        );
        let _ = writeln!(
            text,
            "paused by {} at {}, {until}{}",
            shown(&pause.by),
            format_rfc3339_seconds(pause.at),
            why(&pause.why)
        );
    }
    for request in &control.requested {
        let _ = writeln!(
            text,
            "run {} requested by {} at {}{}",
            request.id,
            shown(&request.by),
            format_rfc3339_seconds(request.at),
            why(&request.why)
        );
    }
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
        run.error.as_deref().map_or_else(String::new, shown),
    ]
}

pub(super) fn took(run: &JobRun) -> String {
    let took = run.ended.map(|ended| ended.duration_since(run.started).unwrap_or_default());
    took.map_or_else(|| "-".into(), short)
}

/// A result in words.
pub(super) fn result(result: JobRunResult) -> String {
    match result {
        JobRunResult::Finished => "finished",
        JobRunResult::Failed => "failed",
        JobRunResult::Panicked => "panicked",
        JobRunResult::Lost => "lost",
        JobRunResult::TimedOut => "timed out",
        JobRunResult::Stopped => "stopped",
        JobRunResult::NotDone => "not done",
        JobRunResult::BrokenOff => "broken off",
        JobRunResult::Open => "running",
        _ => "unknown",
    }
    .into()
}
