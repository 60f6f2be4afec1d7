//! Jobs and their runs in words.

use std::{sync::Arc, time::Duration};

use maud::{Markup, html};
use tower_redlock::scheduler::{JobControl, JobRun, JobRunResult, JobState};

use super::{
    layout::Visit,
    words::{ago, moment, text},
};
use crate::cache::ShownJob;

/// Returns where a job runs, the pause, and the requests.
pub(super) fn standing(job: &ShownJob, visit: &Visit) -> Markup {
    let JobControl { paused, requested, .. } = &job.control;
    let by = |by: &str, at, why: Option<&str>| {
        html! {
            "by " (text(by)) ", " (ago(at, visit.now)) @if let Some(why) = why { ": " (text(why)) }
        }
    };
    html! {
        dl {
            div { dt { "State" } dd data-state=(job.state()) { (job.state()) } }
            @for running in job.runs() {
                div { dt { "Running on" } dd {
                    @if let Some(owner) = &running.owner { (text(owner)) }
                    @if let Some(slot) = running.slot { ", slot " (slot) }
                    @if let Some(since) = running.since { ", since " (ago(since, visit.now)) }
                    @if running.token > 0 { ", token " (running.token) }
                } }
            }
            @if let Some(stop) = job.stop() {
                div { dt { "Stop requested" } dd { (by(&stop.by, stop.at, stop.why.as_deref())) } }
            }
            @if let Some(pause) = paused {
                div { dt { "Paused" } dd {
                    @match pause.until {
                        Some(end) => { "until " (moment(end)) },
                        None => "until it is resumed",
                    }
                    ", " (by(&pause.by, pause.at, pause.why.as_deref()))
                } }
            }
            @for run in requested {
                div { dt { "Requested" } dd { "run " (run.id) " " (by(&run.by, run.at, run.why.as_deref())) } }
            }
        }
    }
}

/// Returns the state of a job on this replica.
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

pub(super) fn took(run: &JobRun) -> Option<Duration> {
    Some(run.ended?.duration_since(run.started).unwrap_or_default())
}

/// Returns whether the work of a run did not succeed, and was not stopped.
pub(super) const fn is_failure(result: JobRunResult) -> bool {
    !matches!(
        result,
        JobRunResult::Finished | JobRunResult::Open | JobRunResult::Stopped | JobRunResult::NotDone
    )
}

pub(super) const fn result(result: JobRunResult) -> &'static str {
    match result {
        JobRunResult::Finished => "finished",
        JobRunResult::Failed => "failed",
        JobRunResult::Panicked => "panicked",
        JobRunResult::Lost => "lost its lock",
        JobRunResult::TimedOut => "timed out",
        JobRunResult::Stopped => "stopped",
        JobRunResult::NotDone => "not done",
        JobRunResult::Interrupted => "interrupted",
        JobRunResult::Conflict => "conflict",
        // The run may have been interrupted, which the next run finds.
        JobRunResult::Open => "begun",
        _ => "unknown",
    }
}

/// Returns a run, whose fields a test may change.
#[cfg(test)]
pub(super) async fn sample_run() -> JobRun {
    let redlock = tower_redlock::Redlock::embedded();
    let schedule = tower_redlock::Schedule::every(Duration::from_secs(60));
    let work = async |_| Ok::<_, std::convert::Infallible>(());
    redlock.job_tick("sample", schedule).run(work).await.expect("no other runs it");
    redlock.job_history("sample").await.expect("the nodes answer").remove(0)
}
