//! One job: its pause, its state, its last runs.

use std::time::{Duration, SystemTime};

use maud::{Markup, html};
use serde_json::{Value, json};
use tower_redlock::scheduler::{JobRun, JobRunResult, JobStatus};

use super::{
    calendar::calendar,
    events::event_list,
    layout::Visit,
    region::{RegionSource, actions, region, snapshot_json, snapshot_region, table, trouble},
    sets::{set_of, with_set},
    standing::{is_failure, result, standing, state, took},
    words::{ago, late, moment, span, text, until},
};
use crate::{
    access::{Action, Subject},
    cache::{JobHistory, JobPage, ShownJob},
    events::EventSource,
    site::Site,
    text::{stamp, unix_millis},
};

/// Maximum number of events that are shown.
const MAX_EVENTS: usize = 30;
/// Number of next ticks that are shown.
const NEXT_TICKS: usize = 5;

pub(crate) async fn job(site: &Site, visit: &Visit, name: &str) -> Markup {
    let snapshot = site.snapshots.job(name).await;
    let here = site.jobs();
    let here = here.iter().find(|job| &*job.name == name);
    let page = snapshot.as_ref().and_then(|snapshot| snapshot.value.as_ref().ok());
    let content = html! {
        (set_of(site, visit, Subject::Job, name))
        (snapshot_region("job", "State", RegionSource::Fleet, snapshot.as_deref(), |details| html! {
            @match details {
                Err(error) => (trouble(Some(error))),
                Ok(JobPage { history: JobHistory { job, .. }, .. }) => { (standing(job, visit)) (offered(job, visit)) },
            }
        }))
        (region("job-here", "In this process", RegionSource::Process, &local(here, visit)))
        (region("next-ticks", "Next ticks", RegionSource::Fleet, &html! {
            @if let Some(page) = page { (next_ticks(page, visit)) }
        }))
        (region("year", "Runs of the last year", RegionSource::Fleet, &html! {
            @if let Some(page) = page { (year(&page.history.runs, visit)) }
        }))
        (region("runs", "Last runs", RegionSource::Fleet, &html! {
            @if let Some(page) = page { (history(&page.history.runs)) }
        }))
        (region("job-events", "Last events", RegionSource::Process, &html! {
            (event_list(&site.log.about(EventSource::Job, name, MAX_EVENTS)))
        }))
    };
    visit.subpage("jobs", "Job", name, &content)
}

fn offered(job: &ShownJob, visit: &Visit) -> Markup {
    let mut offered = vec![(Action::TriggerJob, "Run it now")];
    if job.running.is_some() {
        let what = if job.running_beside.is_empty() { "Stop its run" } else { "Stop its runs" };
        offered.push((Action::StopJob, what));
    }
    offered.push(match job.control.paused {
        Some(_) => (Action::ResumeJob, "Resume it"),
        None => (Action::PauseJob, "Pause it on the whole fleet"),
    });
    actions(visit, &job.name, &offered)
}

fn local(here: Option<&JobStatus>, visit: &Visit) -> Markup {
    html! {
        @match here {
            None => p { "No scheduler of this process that was given to the dashboard has it." },
            Some(job) => {
                dl {
                    div { dt { "Schedule" } dd { (text(&job.schedule)) } }
                    div { dt { "Next tick" } dd { @match job.next_tick {
                        Some(tick) => { (until(tick, visit.now)) ", " (moment(tick)) },
                        None => "none",
                    } } }
                    div { dt { "State" } dd { (state(&job.state)) } }
                    @if let Some(finding) = &job.finding { div { dt { "Finding" } dd { (text(finding)) } } }
                    @if let Some(pause) = &job.paused_here {
                        div { dt { "Paused here" } dd { "by " (text(&pause.by)) ", " (ago(pause.at, visit.now)) } }
                    }
                    div { dt { "Ticks missed" } dd {
                        (job.counts.missed)
                        @if let Some(missed) = &job.last_missed {
                            ", the last found " (ago(missed.found, visit.now)) ": " (text(&missed.why))
                        }
                    } }
                    div { dt { "Ticks skipped" } dd { (job.counts.skipped) } }
                }
            }
        }
    }
}

fn next_ticks(page: &JobPage, visit: &Visit) -> Markup {
    let Some(schedule) = &page.schedule else {
        return html! { p { "The servers know no schedule of it: no tick of it was claimed." } };
    };
    let ticks = schedule.next_ticks(visit.now, NEXT_TICKS);
    let known = schedule.schedule.as_ref().map(ToString::to_string);
    let rule = known.or_else(|| schedule.text.as_deref().map(str::to_owned));
    html! {
        @if let Some(rule) = &rule { p { "Schedule: " (text(rule)) } }
        @if page.history.job.control.paused.is_some() {
            p { "The job is paused: a tick that comes before it is resumed is not run." }
        }
        @if ticks.is_empty() {
            p { "The next ticks are not known to the servers: the schedule is over, counts from the end of the run \
                that is under way, or is a rule of the program." }
        } @else {
            ol.ticks { @for tick in &ticks { li { (moment(*tick)) span.note { " " (until(*tick, visit.now)) } } } }
        }
    }
}

fn year(runs: &[JobRun], visit: &Visit) -> Markup {
    html! {
        @if runs.is_empty() {
            p { "The servers know of no run." }
        } @else {
            p { "The servers keep the last 50 runs at most. Days are those of UTC." }
            (calendar(runs, visit.now))
        }
    }
}

fn history(runs: &[JobRun]) -> Markup {
    const COLUMNS: [&str; 7] = ["Tick", "Begun", "Took", "Result", "#Attempt", "By", "Error"];
    html! {
        @if runs.is_empty() {
            p { "The servers know of no run." }
        } @else {
            (chart(runs))
            (table("runs", "runs", &COLUMNS, &html! { @for run in runs.iter().rev() {
                tr data-run=(result(run.result)) {
                    th scope="row" { @match run.trigger {
                        None => (moment(run.tick)),
                        Some(trigger) => { "requested: " (trigger) },
                    } }
                    td { (late(run.lateness)) }
                    td { @match took(run) { Some(took) => (span(took)), None => "–" } }
                    td { (result(run.result)) }
                    td.number { (run.attempt) }
                    td { (text(&run.owner)) }
                    td { @if let Some(error) = &run.error { (text(error)) } }
                }
            } }))
        }
    }
}

/// Draws a bar for each run, the oldest at the left: its height is the duration, its colour the result; the thin bar
/// above is how late it began.
fn chart(runs: &[JobRun]) -> Markup {
    const WIDTH: usize = 12;
    const HEIGHT: u64 = 60;
    const LATE: u64 = 20;
    let longest = runs.iter().filter_map(took).max().unwrap_or_default();
    let latest = runs.iter().map(|run| run.lateness).max().unwrap_or_default();
    let share = |time: Duration, of: Duration, height: u64| {
        let share = u128::from(height) * time.as_micros() / of.as_micros().max(1);
        u64::try_from(share).unwrap_or(height).clamp(2, height)
    };
    let width = runs.len() * WIDTH;
    let whole = HEIGHT + LATE + 4;
    html! {
        figure {
            svg.history role="img" aria-label={ "The last " (runs.len()) " runs" } width=(width) height=(whole)
                viewBox={ "0 0 " (width) " " (whole) } {
                @for (nth, run) in runs.iter().enumerate() {
                    @let height = share(took(run).unwrap_or_default(), longest, HEIGHT);
                    @let delay = share(run.lateness, latest, LATE);
                    g {
                        title {
                            @if let Some(at) = stamp(run.started) { (at) ": " } (result(run.result))
                            @if let Some(took) = took(run) { " after " (span(took)) }
                            ", " (late(run.lateness))
                        }
                        rect.late x=(nth * WIDTH + 3) y=(LATE - delay) width=(WIDTH - 8) height=(delay) {}
                        rect.(class(run.result)) x=(nth * WIDTH + 1) y=(whole - height) width=(WIDTH - 3)
                            height=(height) {}
                    }
                }
            }
            figcaption {
                "Each bar is a run, the oldest at the left; the longest took " (span(longest)) ". The thin bar above \
                it shows how late it began, " (span(latest)) " at most."
            }
        }
    }
}

const fn class(result: JobRunResult) -> &'static str {
    match result {
        JobRunResult::Finished => "finished",
        JobRunResult::Open => "open",
        result if is_failure(result) => "failed",
        _ => "stopped",
    }
}

pub(crate) async fn job_json(site: &Site, name: &str) -> Value {
    let events = site.log.about(EventSource::Job, name, MAX_EVENTS);
    let events: Vec<_> = events.iter().map(|event| event.json()).collect();
    let here = site.jobs().into_iter().find(|job| &*job.name == name);
    let fleet = site.snapshots.job(name).await.map(|snapshot| {
        let page = snapshot.value.as_ref().ok();
        let job = page.map(|page| &page.history.job);
        let runs = page.map_or(&[][..], |page| &page.history.runs);
        let schedule = page.and_then(|page| page.schedule.as_ref());
        let ticks =
            schedule.map(|of| of.next_ticks(SystemTime::now(), NEXT_TICKS)).unwrap_or_default();
        json!({
            "job": job,
            "runs": runs,
            "schedule": schedule.and_then(|schedule| schedule.text.as_deref()),
            "next_ticks_unix_ms": ticks.into_iter().map(unix_millis).collect::<Vec<_>>(),
            "error": snapshot.value.as_ref().err(),
            "look": snapshot_json(&snapshot),
        })
    });
    let value =
        json!({ "name": name, "fleet": fleet, "process": { "job": here, "events": events } });
    with_set(value, site.set_of(Subject::Job, name))
}
