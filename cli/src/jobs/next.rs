//! `redlock jobs next`.

use std::{fmt::Write as _, process::ExitCode, time::SystemTime};

use humantime::format_rfc3339_seconds;
use serde_json::json;
use tower_redlock::{
    Redlock,
    schedule::{WallTime, zone_database_version},
    scheduler::StoredSchedule,
};

use crate::{
    exit::Failure,
    output::{print, print_json, say, short, shown},
};

pub(super) async fn next(
    redlock: &Redlock,
    job: &str,
    number: u16,
    json: bool,
) -> Result<ExitCode, Failure> {
    let (schedule, control) = (redlock.job_schedule(job).await?, redlock.job_control(job).await?);
    let Some(schedule) = schedule else {
        if json {
            print_json(&json!({ "job": job, "schedule": null, "control": control, "ticks": [] }))?;
        } else {
            print(&format!("the servers know no schedule of {job:?}\n"))?;
        }
        return Ok(ExitCode::SUCCESS);
    };
    let now = SystemTime::now();
    let ticks = schedule.next_ticks(now, number.into());
    warn_of_zones(&schedule);
    if json {
        let times: Vec<_> =
            ticks.iter().map(|tick| format_rfc3339_seconds(*tick).to_string()).collect();
        print_json(&json!({
            "job": job,
            "schedule": schedule.text,
            "time_zones": schedule.zones,
            "control": control,
            "ticks": times,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    // Writing into memory does not fail.
    match (&schedule.schedule, &schedule.text) {
        (Some(known), _) => {
            let _ = writeln!(text, "{known}");
        }
        (None, Some(stored)) => {
            let _ = writeln!(text, "{}: only the program knows its ticks", shown(stored));
        }
        (None, None) => {
            text.push_str("stored by an earlier version, without the schedule's text\n");
        }
    }
    if let Some(pause) = &control.paused {
        let until = pause.until.map_or_else(
            || "until it is resumed".into(),
            |until| format!("until {}", format_rfc3339_seconds(until)),
        );
        let _ =
            writeln!(text, "paused by {} {until}: ticks in the pause do not run", shown(&pause.by));
    }
    for tick in &ticks {
        let left = tick.duration_since(now).unwrap_or_default();
        let _ = writeln!(text, "{}  in {}", WallTime::from(*tick), short(left));
    }
    if ticks.is_empty() && schedule.schedule.is_some() {
        text.push_str(if schedule.ended.is_none() && schedule.tick.is_some() {
            "the next tick follows from the end of the run that is under way\n"
        } else {
            "no further tick\n"
        });
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The ticks are computed here, by the database of this program.
fn warn_of_zones(schedule: &StoredSchedule) {
    let (Some(stored), Some(own)) = (schedule.zones.as_deref(), zone_database_version()) else {
        return;
    };
    if stored != own {
        say(&format!(
            "redlock: the job's programs have the time zone database {}, this one {own}: around a change of \
             law the ticks may differ",
            shown(stored)
        ));
    }
}
