//! Every job of the fleet.

use maud::{Markup, html};
use serde_json::{Value, json};
use tower_redlock::scheduler::JobStatus;

use super::{
    layout::Visit,
    region::{RegionSource, pager, region, snapshot_json, snapshot_region, table, trouble},
    sets::SetColumn,
    standing::{result, state, took},
    words::{ago, span, text, until},
};
use crate::{
    access::Subject,
    cache::{JobListing, ShownJob},
    query::Params,
    site::Site,
};

pub(crate) async fn jobs(site: &Site, visit: &Visit) -> Markup {
    let snapshot = site.snapshots.jobs(visit.params.page()).await;
    let here = site.jobs();
    let sets = SetColumn::new(site, Subject::Job);
    let content = html! {
        (snapshot_region("fleet-jobs", "Jobs", RegionSource::Fleet, snapshot.as_deref(), |jobs| fleet(jobs, visit, sets)))
        (region("jobs-here", "Jobs of this process", RegionSource::Process, &local(&here, visit, sets)))
    };
    visit.page("jobs", "Jobs", &content)
}

fn fleet(listing: &JobListing, visit: &Visit, sets: SetColumn<'_>) -> Markup {
    const COLUMNS: [&str; 7] = ["Job", "State", "Running on", "Last run", "Result", "Took", "By"];
    let JobListing { jobs, paging, more, error } = listing;
    html! {
        (trouble(error.as_deref()))
        p.count {
            (paging.found) @if paging.found == 1 { " job" } @else { " jobs" }
            @if *more { ", and more than are read" } "."
        }
        @if !jobs.is_empty() {
            (table("jobs", "jobs", &sets.after(&COLUMNS), &html! { @for job in jobs { (row(job, visit, sets)) } }))
        }
        (pager(visit, "jobs", *paging))
    }
}

fn row(job: &ShownJob, visit: &Visit, sets: SetColumn<'_>) -> Markup {
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
                @if !job.running_beside.is_empty() { ", and " (job.running_beside.len()) " more" }
            } }
            td { @match last { Some(run) => (ago(run.started, visit.now)), None => "–" } }
            td { @if let Some(run) = last { (result(run.result)) } }
            td { @if let Some(took) = last.and_then(took) { (span(took)) } }
            td { @if let Some(run) = last { (text(&run.owner)) } }
            (sets.cell(&job.name))
        }
    }
}

fn local(here: &[JobStatus], visit: &Visit, sets: SetColumn<'_>) -> Markup {
    const COLUMNS: [&str; 8] =
        ["Job", "Schedule", "Next tick", "State here", "#Runs", "#Failed", "#Missed", "#Skipped"];
    html! {
        @if here.is_empty() {
            p { "No scheduler of this process was given to the dashboard." }
        } @else {
            (table("jobs-here", "this process's jobs", &sets.after(&COLUMNS), &html! { @for job in here {
                tr data-job-here=(job.name) {
                    th scope="row" { a href=(visit.link("job", &[("name", &*job.name)])) { (text(&job.name)) } }
                    td { (text(&job.schedule)) }
                    td { @match job.next_tick { Some(tick) => (until(tick, visit.now)), None => "–" } }
                    td { (state(&job.state)) }
                    td.number { (job.counts.started) }
                    td.number { (job.counts.failed + job.counts.panicked + job.counts.lost + job.counts.timed_out) }
                    td.number { (job.counts.missed) }
                    td.number { (job.counts.skipped) }
                    (sets.cell(&job.name))
                }
            } }))
        }
    }
}

pub(crate) async fn jobs_json(site: &Site, params: &Params) -> Value {
    let sets = SetColumn::new(site, Subject::Job);
    let fleet = site.snapshots.jobs(params.page()).await.map(|snapshot| {
        let JobListing { jobs, paging, more, error } = &snapshot.value;
        let jobs: Vec<_> = jobs.iter().map(|job| sets.json(json!(job), &job.name)).collect();
        json!({
            "jobs": jobs,
            "found": paging.found,
            "page": paging.number,
            "pages": paging.pages,
            "more": more,
            "error": error,
            "look": snapshot_json(&snapshot),
        })
    });
    let here = site.jobs();
    let here: Vec<_> = here.iter().map(|job| sets.json(json!(job), &job.name)).collect();
    json!({ "fleet": fleet, "process": { "jobs": here } })
}
