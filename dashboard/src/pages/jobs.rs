//! Every job of the fleet.

use std::sync::Arc;

use maud::{Markup, html};
use serde_json::{Value, json};
use tower_redlock::scheduler::{JobState, JobStatus};

use super::{
    job::{result, took},
    layout::{RegionSource, Visit, freshness, look_json, pager, reading, region, trouble},
    words::{ago, span, text, until},
};
use crate::{
    look::{JobListing, Look, ShownJob},
    query::Params,
    router::Site,
};

pub(crate) async fn jobs(site: &Site, visit: &Visit) -> Markup {
    let look = site.looks.jobs(&site.redlock, page(&visit.params)).await;
    let here = site.jobs();
    let content = html! {
        (region("fleet-jobs", "Jobs", RegionSource::Fleet, &html! {
            @match &look {
                Some(look) => (fleet(look, visit)),
                None => (reading()),
            }
        }))
        (region("jobs-here", "Jobs of this process", RegionSource::Process, &local(&here, visit)))
    };
    visit.page("jobs", "Jobs", &content)
}

fn fleet(look: &Look<JobListing>, visit: &Visit) -> Markup {
    let JobListing { jobs, found, number, pages, more, error } = &look.value;
    html! {
        (freshness(look))
        (trouble(error.as_deref()))
        p.count { (found) @if *found == 1 { " job" } @else { " jobs" } @if *more { ", and more than are read" } "." }
        @if !jobs.is_empty() {
            div #jobs-scroll.scroll tabindex="0" role="region" aria-label="Table of jobs" { table {
                thead { tr {
                    th scope="col" { "Job" } th scope="col" { "State" } th scope="col" { "Running on" }
                    th scope="col" { "Last run" } th scope="col" { "Result" } th scope="col" { "Took" }
                    th scope="col" { "By" }
                } }
                tbody { @for job in jobs { (row(job, visit)) } }
            } }
        }
        (pager(visit, "jobs", *number, *pages))
    }
}

fn row(job: &ShownJob, visit: &Visit) -> Markup {
    let last = job.last.as_ref();
    html! {
        tr data-job=(job.name) data-state=(job.state()) {
            th scope="row" { a href=(visit.link("job", &[("name", &*job.name)])) { (text(&job.name)) } }
            td {
                @match &job.control.paused {
                    Some(pause) => {
                        @if job.running.is_some() { "running, " }
                        "paused by " (text(&pause.by))
                    }
                    None => (job.state()),
                }
            }
            td { @if let Some(running) = &job.running {
                @if let Some(owner) = &running.owner { (text(owner)) }
                @if let Some(since) = running.since { ", since " (ago(since, visit.now)) }
            } }
            td { @match last { Some(run) => (ago(run.started, visit.now)), None => "–" } }
            td { @if let Some(run) = last { (result(run.result)) } }
            td { @if let Some(took) = last.and_then(took) { (span(took)) } }
            td { @if let Some(run) = last { (text(&run.owner)) } }
        }
    }
}

fn local(here: &[JobStatus], visit: &Visit) -> Markup {
    html! {
        @if here.is_empty() {
            p { "No scheduler of this process was given to the dashboard." }
        } @else {
            div #jobs-here-scroll.scroll tabindex="0" role="region" aria-label="Table of this process's jobs" { table {
                thead { tr {
                    th scope="col" { "Job" } th scope="col" { "Schedule" } th scope="col" { "Next tick" }
                    th scope="col" { "State here" } th.number scope="col" { "Runs" }
                    th.number scope="col" { "Failed" } th.number scope="col" { "Missed" }
                    th.number scope="col" { "Skipped" }
                } }
                tbody { @for job in here {
                    tr data-job-here=(job.name) {
                        th scope="row" { a href=(visit.link("job", &[("name", &*job.name)])) { (text(&job.name)) } }
                        td { (text(&job.schedule)) }
                        td { @match job.next_tick { Some(tick) => (until(tick, visit.now)), None => "–" } }
                        td { (state(&job.state)) }
                        td.number { (job.counts.started) }
                        td.number { (job.counts.failed + job.counts.panicked + job.counts.lost + job.counts.timed_out) }
                        td.number { (job.counts.missed) }
                        td.number { (job.counts.skipped) }
                    }
                } }
            } }
        }
    }
}

/// The state of a job on this replica, in words.
pub(super) fn state(state: &JobState) -> Markup {
    let by = |owner: &Option<Arc<str>>| owner.as_deref().map_or(html! { "another process" }, text);
    match state {
        JobState::Starting => html! { "starting" },
        JobState::WaitingForTick { .. } => html! { "waits for its tick" },
        JobState::WaitingForSlot => html! { "waits until other jobs have ended" },
        JobState::WaitingForNodes { error } => html! { "too few nodes answer: " (text(error)) },
        JobState::HeldBy { owner } => html! { (by(owner)) " runs it" },
        JobState::Running => html! { "running" },
        JobState::Finishing => html! { "its end is being stored" },
        JobState::BackingOff { reason } => html! { "pauses after " (text(reason)) },
        JobState::Paused { by, .. } => html! { "paused by " (text(by)) },
        JobState::StandingBy { leader } => html! { "stands by, " (by(leader)) " leads" },
        JobState::NoMoreTicks => html! { "its schedule is over" },
        JobState::Ended { reason } => html! { "ended: " (text(reason)) },
        _ => html! { "unknown" },
    }
}

/// The number of the page that is asked for.
fn page(params: &Params) -> usize {
    params.number("page").unwrap_or(1)
}

pub(crate) async fn jobs_json(site: &Site, params: &Params) -> Value {
    let fleet = site.looks.jobs(&site.redlock, page(params)).await.map(|look| {
        let JobListing { jobs, found, number, pages, more, error } = &look.value;
        json!({
            "jobs": jobs,
            "found": found,
            "page": number,
            "pages": pages,
            "more": more,
            "error": error,
            "look": look_json(&look),
        })
    });
    json!({ "fleet": fleet, "process": { "jobs": site.jobs() } })
}
