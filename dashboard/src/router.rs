//! From a request to a page, a twin, or an action.

use std::{error::Error, sync::Arc, time::SystemTime};

use http::{Method, Request, StatusCode, header::ALLOW, request::Parts};
use tower_redlock::{
    Redlock,
    scheduler::{JobStatus, SchedulerHandle},
};

use crate::{
    access::{Access, Action, Authorize, Viewer, is_cross_origin},
    actions::{self, SentForms},
    assets::asset,
    events::{EventLog, stream},
    look::Looks,
    pages::{self, Visit},
    query::Params,
    reply::{Reply, event_stream, html, json, redirect},
};

/// What all requests share.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) redlock: Redlock,
    pub(crate) schedulers: Vec<SchedulerHandle>,
    pub(crate) access: Option<Arc<dyn Authorize>>,
    pub(crate) looks: Arc<Looks>,
    pub(crate) log: Arc<EventLog>,
    pub(crate) sent: Arc<SentForms>,
}

impl Site {
    /// The jobs of the schedulers of this process.
    pub(crate) fn jobs(&self) -> Vec<JobStatus> {
        self.schedulers.iter().flat_map(SchedulerHandle::jobs).collect()
    }
}

pub(crate) async fn answer<B>(site: Site, request: Request<B>) -> Reply
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    site.log.start();
    let (parts, body) = request.into_parts();
    let Some(access) = &site.access else { return pages::unconfigured() };
    let viewer = access.viewer(&parts);
    if let Some(challenge) = viewer.challenge() {
        return pages::challenged(challenge);
    }
    if viewer.access() == Access::Forbidden {
        let reason = viewer.reason().unwrap_or("You have no access to these pages.");
        return pages::forbidden(reason);
    }
    if let Some(address) = slash(&parts) {
        return redirect(StatusCode::PERMANENT_REDIRECT, &address);
    }
    let path = parts.uri.path();
    let path = path.strip_prefix('/').unwrap_or(path);
    match parts.method {
        Method::GET | Method::HEAD => get(&site, viewer, &parts, path).await,
        Method::POST => match Action::named(path) {
            Some(action) if is_cross_origin(&parts) => {
                actions::refused(&viewer, action, "the request came from another origin");
                pages::denied(
                    "This request came from a page of another origin, and nothing was done. If it did not, the proxy in \
                 front changes the Host header, and the browser sends no Sec-Fetch-Site, as it does over TLS.",
                )
            }
            Some(action) => actions::perform(&site, viewer, action, body).await,
            None if PATHS.contains(&path) => not_allowed(path, "GET, HEAD"),
            None => not_found(path, "There is no such page."),
        },
        _ if Action::named(path).is_some() => not_allowed(path, "GET, HEAD, POST"),
        _ => not_allowed(path, "GET, HEAD"),
    }
}

/// The pages that have no form.
const PATHS: [&str; 9] = ["", "locks", "lock", "nodes", "jobs", "job", "leaders", "once", "events"];

fn not_allowed(path: &str, allowed: &'static str) -> Reply {
    let what = format!("Only {allowed} is possible here.");
    let status = StatusCode::METHOD_NOT_ALLOWED;
    let mut reply = pages::problem_at(path, status, "Method not allowed", &what);
    reply.headers_mut().insert(ALLOW, http::HeaderValue::from_static(allowed));
    reply
}

fn not_found(path: &str, what: &str) -> Reply {
    pages::problem_at(path, StatusCode::NOT_FOUND, "Not found", what)
}

/// Below the mount point; shows how the browser's address ends.
#[cfg(feature = "axum")]
const PROBE: &str = "~";
/// A parameter of the first page: the browser's address ends with a slash.
#[cfg(feature = "axum")]
const IN_FOLDER: &str = "in-folder";

/// Returns the relative address that leads a browser to the first page with a slash at the end: relative links
/// would lead to the pages beside it otherwise.
///
/// A layer may have taken the slash away (tower-http's `NormalizePath`), so an address that has none here may
/// have one in the browser. A link to `MOUNT/~` shows which: it arrives below the mount point once, or twice.
/// From there the way back is known, and a parameter says that it was taken.
#[cfg(feature = "axum")]
fn slash(parts: &Parts) -> Option<String> {
    let asked = parts.extensions.get::<axum::extract::OriginalUri>()?.path();
    let query = parts.uri.query().unwrap_or_default();
    let others: Vec<_> =
        query.split('&').filter(|one| !one.is_empty() && *one != IN_FOLDER).collect();
    let is_marked = query.split('&').any(|one| one == IN_FOLDER);
    let to = |path: &str, query: &[&str]| {
        let query = query.join("&");
        if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
    };
    let marked = || [&[IN_FOLDER], &others[..]].concat();
    match *parts.uri.path().trim_start_matches('/').split('/').collect::<Vec<_>>() {
        [PROBE] => Some(to("./", &marked())),
        [_, PROBE] => Some(to("../", &marked())),
        [""] => match asked.rsplit('/').next().unwrap_or_default() {
            "" if is_marked => Some(to("./", &others)),
            "" => None,
            _ if is_marked => None,
            last => Some(to(&format!("./{last}/{PROBE}"), &others)),
        },
        _ => None,
    }
}

#[cfg(not(feature = "axum"))]
const fn slash(_parts: &Parts) -> Option<String> {
    None
}

async fn get(site: &Site, viewer: Viewer, parts: &Parts, path: &str) -> Reply {
    if let Some(file) = asset(path) {
        return file;
    }
    let params = Params::parse(parts.uri.query().unwrap_or_default().as_bytes());
    if let Some(twin) = path.strip_prefix("api/") {
        return api(site, parts, &params, twin).await;
    }
    let (now, process) = (SystemTime::now(), Arc::clone(site.redlock.owner()));
    let visit = Visit { viewer, params, now, process };
    let page = match (path, visit.name()) {
        ("" | "locks", _) => pages::locks(site, &visit).await,
        ("lock", Some(name)) => pages::lock(site, &visit, name).await,
        ("nodes", _) => pages::nodes(site, &visit).await,
        ("jobs", _) => pages::jobs(site, &visit).await,
        ("job", Some(name)) => pages::job(site, &visit, name).await,
        ("leaders", _) => pages::leaders(site, &visit).await,
        ("once", _) => pages::once(site, &visit).await,
        ("events", _) => pages::events(site, &visit),
        ("lock" | "job", None) => return not_found(path, "The address lacks a name."),
        _ => match Action::named(path) {
            Some(action) => return actions::ask(site, &visit, action).await,
            None => return not_found(path, "There is no such page."),
        },
    };
    html(StatusCode::OK, page)
}

/// The JSON twin of a page.
async fn api(site: &Site, parts: &Parts, params: &Params, twin: &str) -> Reply {
    let path = parts.uri.path();
    let value = match (twin, params.exact("name")) {
        ("locks", _) => pages::locks_json(site, params).await,
        ("lock", Some(name)) => pages::lock_json(site, name).await,
        ("nodes", _) => pages::nodes_json(site).await,
        ("jobs", _) => pages::jobs_json(site, params).await,
        ("job", Some(name)) => pages::job_json(site, name).await,
        ("leaders", _) => pages::leaders_json(site).await,
        ("once", _) => match pages::once_json(site, params.exact("key")).await {
            Some(value) => value,
            None => return not_found(path, "The address lacks a key."),
        },
        ("events", _) => pages::events_json(site),
        ("events/stream", _) => {
            let Ok(permit) = Arc::clone(&site.log.streams).try_acquire_owned() else {
                let (title, what) = if site.log.streams.is_closed() {
                    ("Shutting down", "This process is shutting down; api/events has its events.")
                } else {
                    let what = "As many viewers follow the events as may; api/events has them.";
                    ("Too many viewers", what)
                };
                return pages::problem_at(path, StatusCode::SERVICE_UNAVAILABLE, title, what);
            };
            return event_stream(stream(&site.log, seen(parts, params), permit));
        }
        ("lock" | "job", None) => return not_found(path, "The address lacks a name."),
        _ => return not_found(path, "There is no such page."),
    };
    json(&value)
}

/// The number of the last event that a browser has seen; it repeats it when it connects again.
fn seen(parts: &Parts, params: &Params) -> u64 {
    let header = parts.headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let seen = header.or_else(|| params.get("after"));
    seen.and_then(|seen| seen.parse().ok()).unwrap_or(0)
}

#[cfg(all(test, feature = "axum"))]
mod tests {
    use super::*;

    #[test]
    fn mount_point_gets_its_slash() {
        let address = |asked: &str, path: &str| {
            let mut request = Request::new(());
            *request.uri_mut() = path.parse().unwrap();
            let asked = axum::extract::OriginalUri(asked.parse().unwrap());
            request.extensions_mut().insert(asked);
            slash(&request.into_parts().0)
        };
        for (asked, path, expected) in [
            ("/admin/locks", "/", "./locks/~"),
            ("/locks?q=x", "/?q=x", "./locks/~?q=x"),
            // The browser's address has no slash at its end, or it has one.
            ("/admin/locks/~?q=x", "/~?q=x", "./?in-folder&q=x"),
            ("/admin/locks/locks/~", "/locks/~", "../?in-folder"),
            // Copied from a site that has a layer that takes slashes away.
            ("/admin/locks/?in-folder&q=x", "/?in-folder&q=x", "./?q=x"),
        ] {
            assert_eq!(address(asked, path).as_deref(), Some(expected), "{asked}");
        }
        assert_eq!(address("/admin/locks?in-folder", "/?in-folder"), None);
        assert_eq!(address("/admin/locks/", "/"), None);
        assert_eq!(address("/admin/locks/nodes", "/nodes"), None);
        assert_eq!(address("/", "/"), None);
    }
}
