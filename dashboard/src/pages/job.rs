//! One job: its pause, its state, its last runs.

use std::time::Duration;

use maud::{Markup, html};
use serde_json::{Value, json};
use tower_redlock::scheduler::{JobControl, JobRun, JobRunResult, JobStatus};

use super::{
    events::event_list,
    jobs::state,
    layout::{RegionSource, Visit, actions, freshness, look_json, reading, region, trouble},
    words::{ago, late, moment, span, stamp, text, until},
};
use crate::{
    access::Action,
    events::EventSource,
    look::{JobDetails, Look, ShownJob},
    router::Site,
};

/// Maximum number of events that are shown.
const MAX_EVENTS: usize = 30;

pub(crate) async fn job(site: &Site, visit: &Visit, name: &str) -> Markup {
    let look = site.looks.job(&site.redlock, name).await;
    let here = site.jobs();
    let here = here.iter().find(|job| &*job.name == name);
    let content = html! {
        (region("job", "State", RegionSource::Fleet, &html! {
            @match &look {
                Some(look) => (fleet(look, visit, name)),
                None => (reading()),
            }
        }))
        (region("job-here", "In this process", RegionSource::Process, &local(here, visit)))
        (region("runs", "Last runs", RegionSource::Fleet, &html! {
            @if let Some(look) = &look { (runs(&look.value.runs)) }
        }))
        (region("job-events", "Last events", RegionSource::Process, &html! {
            (event_list(&site.log.about(EventSource::Job, name, MAX_EVENTS)))
        }))
    };
    visit.subpage("jobs", "Job", name, &content)
}

fn fleet(look: &Look<JobDetails>, visit: &Visit, name: &str) -> Markup {
    html! {
        (freshness(look))
        @match &look.value.job {
            Err(error) => (trouble(Some(error))),
            Ok(job) => {
                (standing(job, visit))
                @let pause = match job.control.paused {
                    Some(_) => (Action::ResumeJob, "Resume it"),
                    None => (Action::PauseJob, "Pause it on the whole fleet"),
                };
                (actions(visit, ("name", name), &[(Action::TriggerJob, "Run it now"), pause]))
            }
        }
    }
}

/// Where a job runs, who paused it, which runs are requested.
pub(crate) fn standing(job: &ShownJob, visit: &Visit) -> Markup {
    let JobControl { paused, requested, .. } = &job.control;
    html! {
        dl {
            div { dt { "State" } dd data-state=(job.state()) { (job.state()) } }
            @if let Some(running) = &job.running {
                div { dt { "Running on" } dd {
                    @if let Some(owner) = &running.owner { (text(owner)) }
                    @if let Some(since) = running.since { ", since " (ago(since, visit.now)) }
                    @if running.token > 0 { ", token " (running.token) }
                } }
            }
            @if let Some(pause) = paused {
                div { dt { "Paused" } dd {
                    "by " (text(&pause.by)) ", " (ago(pause.at, visit.now)) ", "
                    @match pause.until {
                        Some(end) => { "until " (moment(end)) },
                        None => "until it is resumed",
                    }
                    @if let Some(why) = &pause.why { ": " (text(why)) }
                } }
            }
            @for run in requested {
                div { dt { "Requested" } dd {
                    "run " (run.id) " by " (text(&run.by)) ", " (ago(run.at, visit.now))
                    @if let Some(why) = &run.why { ": " (text(why)) }
                } }
            }
        }
    }
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
                    div { dt { "Ticks missed" } dd { (job.counts.missed) } }
                    div { dt { "Ticks skipped" } dd { (job.counts.skipped) } }
                }
            }
        }
    }
}

pub(super) fn took(run: &JobRun) -> Option<Duration> {
    Some(run.ended?.duration_since(run.started).unwrap_or_default())
}

/// A result in words.
pub(super) const fn result(result: JobRunResult) -> &'static str {
    match result {
        JobRunResult::Finished => "finished",
        JobRunResult::Failed => "failed",
        JobRunResult::Panicked => "panicked",
        JobRunResult::Lost => "lost its lock",
        JobRunResult::TimedOut => "timed out",
        JobRunResult::Stopped => "stopped",
        JobRunResult::NotDone => "not done",
        JobRunResult::BrokenOff => "broken off",
        // Or broken off, and not found yet.
        JobRunResult::Open => "begun",
        _ => "unknown",
    }
}

fn runs(runs: &[JobRun]) -> Markup {
    html! {
        @if runs.is_empty() {
            p { "The servers know of no run." }
        } @else {
            (chart(runs))
            div #runs-scroll.scroll tabindex="0" role="region" aria-label="Table of runs" { table {
                thead { tr {
                    th scope="col" { "Tick" } th scope="col" { "Begun" } th scope="col" { "Took" }
                    th scope="col" { "Result" } th.number scope="col" { "Attempt" } th scope="col" { "By" }
                    th scope="col" { "Error" }
                } }
                tbody { @for run in runs.iter().rev() {
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
                } }
            } }
        }
    }
}

/// A bar for each run, the oldest at the left: its height is the duration, its colour the result; the thin bar
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
                "Each bar is a run, the oldest at the left; the longest took " (span(longest))
                ". "
                @if latest < Duration::from_millis(1) {
                    "All began on time."
                } @else {
                    "The thin bar above it shows how late it began, " (span(latest)) " at most."
                }
            }
        }
    }
}

const fn class(result: JobRunResult) -> &'static str {
    match result {
        JobRunResult::Finished => "finished",
        JobRunResult::Open => "open",
        JobRunResult::Stopped | JobRunResult::NotDone => "stopped",
        _ => "failed",
    }
}

pub(crate) async fn job_json(site: &Site, name: &str) -> Value {
    let events = site.log.about(EventSource::Job, name, MAX_EVENTS);
    let events: Vec<_> = events.iter().map(|event| event.json()).collect();
    let here = site.jobs().into_iter().find(|job| &*job.name == name);
    let fleet = site.looks.job(&site.redlock, name).await.map(|look| {
        let (job, error) = match &look.value.job {
            Ok(job) => (Some(job), None),
            Err(error) => (None, Some(error)),
        };
        json!({ "job": job, "runs": look.value.runs, "error": error, "look": look_json(&look) })
    });
    json!({ "name": name, "fleet": fleet, "process": { "job": here, "events": events } })
}
