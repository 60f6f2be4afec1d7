//! Pages, their JSON twins, and the files that they load.

use std::{sync::Arc, time::SystemTime};

use http::{StatusCode, request::Parts};
use tokio::sync::TryAcquireError;

use crate::{
    access::{Action, Viewer},
    assets::asset,
    events::stream,
    pages::{self, Visit},
    problem::Problem,
    query::Params,
    reply::{Reply, event_stream, html, json, with_form},
    site::Site,
};

pub(super) async fn get(
    site: &Site,
    viewer: Viewer,
    parts: &Parts,
    path: &str,
) -> Result<Reply, Problem> {
    if let Some(file) = asset(path) {
        return Ok(file);
    }
    let params = Params::parse(parts.uri.query().unwrap_or_default().as_bytes());
    match path.strip_prefix("api/") {
        Some("events/stream") => follow(site, parts, &params),
        Some(twin) => twin_of(site, &params, twin).await,
        None => {
            let (now, process) = (SystemTime::now(), Arc::clone(site.redlock.owner()));
            page(site, &Visit { viewer, params, now, process }, path).await
        }
    }
}

fn required<'a>(params: &'a Params, name: &str) -> Result<&'a str, Problem> {
    params.exact(name).ok_or_else(|| Problem::not_found(format!("The address lacks a {name}.")))
}

async fn page(site: &Site, visit: &Visit, path: &str) -> Result<Reply, Problem> {
    let page = match path {
        "" => pages::overview(site, visit).await,
        "locks" => pages::locks(site, visit).await,
        "lock" => pages::lock(site, visit, required(&visit.params, "name")?).await,
        "nodes" => pages::nodes(site, visit).await,
        "jobs" => pages::jobs(site, visit).await,
        "job" => pages::job(site, visit, required(&visit.params, "name")?).await,
        "leaders" => pages::leaders(site, visit).await,
        "once" => pages::once(site, visit).await,
        "events" => pages::events(site, visit),
        _ => {
            let Some(action) = Action::named(path) else {
                return Err(Problem::not_found("There is no such page."));
            };
            return Ok(with_form(html(StatusCode::OK, pages::ask(site, visit, action).await?)));
        }
    };
    Ok(html(StatusCode::OK, page))
}

async fn twin_of(site: &Site, params: &Params, page: &str) -> Result<Reply, Problem> {
    let value = match page {
        "overview" => pages::overview_json(site).await,
        "locks" => pages::locks_json(site, params).await,
        "lock" => pages::lock_json(site, required(params, "name")?).await,
        "nodes" => pages::nodes_json(site).await,
        "jobs" => pages::jobs_json(site, params).await,
        "job" => pages::job_json(site, required(params, "name")?).await,
        "leaders" => pages::leaders_json(site).await,
        "once" => pages::once_json(site, required(params, "key")?).await,
        "events" => pages::events_json(site),
        _ => return Err(Problem::not_found("There is no such page.")),
    };
    Ok(json(&value))
}

/// Streams the events after the last one that the browser has seen, which it repeats when it connects again.
fn follow(site: &Site, parts: &Parts, params: &Params) -> Result<Reply, Problem> {
    let header = parts.headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let seen = header.or_else(|| params.get("after")).and_then(|seen| seen.parse().ok());
    let refused = |error| {
        let (title, what) = match error {
            TryAcquireError::Closed => {
                ("Shutting down", "This process is shutting down; api/events has its events.")
            }
            TryAcquireError::NoPermits => {
                let what = "The maximum number of viewers follow the events; api/events has them.";
                ("Too many viewers", what)
            }
        };
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, title, what)
    };
    Ok(event_stream(stream(&site.log, seen.unwrap_or(0)).map_err(refused)?))
}
