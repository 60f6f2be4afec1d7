//! Admits a request, and dispatches it by its method.

use std::error::Error;

use http::{HeaderValue, Method, Request, StatusCode, header::ALLOW};

use super::{get::get, post::post};
use crate::{
    access::{Access, Action, Admission, is_loaded_by_another_origin},
    pages,
    problem::Problem,
    reply::Reply,
    site::Site,
};

pub(crate) async fn answer<B>(site: Site, request: Request<B>) -> Reply
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    site.start();
    let (parts, body) = request.into_parts();
    let Some(access) = &site.access else { return pages::unconfigured() };
    let viewer = access.viewer(&parts);
    match viewer.admission() {
        Admission::Challenged(challenge) => return pages::challenged(challenge),
        Admission::Refused(reason) => return pages::forbidden(reason),
        Admission::With(Access::Forbidden) => {
            return pages::forbidden("You have no access to these pages.");
        }
        Admission::With(_) => {}
    }
    #[cfg(feature = "axum")]
    if let Some(address) = super::mount::slash(&parts) {
        return crate::reply::redirect(StatusCode::PERMANENT_REDIRECT, &address);
    }
    let path = parts.uri.path();
    let path = path.strip_prefix('/').unwrap_or(path);
    let action = Action::named(path);
    let answer = match (&parts.method, action) {
        (&Method::GET | &Method::HEAD, _) if is_loaded_by_another_origin(&parts) => {
            Err(Problem::denied(
                "A page of another origin may link to these pages, and load nothing from them.",
            ))
        }
        (&Method::GET | &Method::HEAD, _) => get(&site, viewer, &parts, path).await,
        (&Method::POST, Some(action)) => post(&site, &viewer, &parts, action, body).await,
        (&Method::POST, None) if !PATHS.contains(&path) => {
            Err(Problem::not_found("There is no such page."))
        }
        _ => return not_allowed(path, action),
    };
    answer.unwrap_or_else(|problem| pages::problem(path, &problem))
}

/// The pages without a form.
const PATHS: [&str; 9] = ["", "locks", "lock", "nodes", "jobs", "job", "leaders", "once", "events"];

fn not_allowed(path: &str, action: Option<Action>) -> Reply {
    let allowed = if action.is_some() { "GET, HEAD, POST" } else { "GET, HEAD" };
    let what = format!("Only {allowed} is possible here.");
    let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed", what);
    let mut reply = pages::problem(path, &problem);
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    reply
}
