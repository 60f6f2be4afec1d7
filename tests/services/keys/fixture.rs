//! Handlers that respond with the locked resource, over embedded nodes.

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Path, Request},
    http::StatusCode,
};
use tower::ServiceExt;
use tower_redlock::{
    LockContext, Redlock, RedlockLayer,
    key::{Key, Source},
    layer::http::RedlockHttp,
};

pub(crate) fn locked<S: Source>(key: Key<S>) -> RedlockLayer<Key<S>, RedlockHttp> {
    RedlockLayer::new(Redlock::embedded(), key).http()
}

/// The resource that is locked around the handler.
pub(crate) async fn resource() -> String {
    LockContext::current().map_or("unguarded".into(), |cx| cx.resource().to_string())
}

/// The locked resource, and axum's value of the path's last parameter: both must be equal.
pub(crate) async fn resource_and_param(Path(params): Path<Vec<(String, String)>>) -> String {
    let (_, last) = params.last().expect("the route has a parameter");
    let resource = resource().await;
    if resource == *last { format!("{last} twice") } else { format!("{resource} but {last}") }
}

/// The status and the body of a GET.
pub(crate) async fn get(app: &Router, uri: &str) -> (StatusCode, String) {
    let request = Request::get(uri).body(Body::empty()).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), 64 * 1024).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

pub(crate) async fn expect(app: &Router, uri: &str, body: &str) {
    assert_eq!(get(app, uri).await, (StatusCode::OK, body.to_owned()), "{uri}");
}

/// The detail of the response if the key is at the wrong position.
pub(crate) async fn misplaced(app: &Router, uri: &str) -> String {
    let (status, body) = get(app, uri).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{uri}: {body}");
    let problem: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&problem["code"], &problem["outcome"]),
        (&"bad-settings".into(), &"not-run".into())
    );
    problem["detail"].as_str().unwrap().to_owned()
}

/// The detail of a bad request's problem body.
pub(crate) async fn refused(app: &Router, uri: &str) -> String {
    let (status, body) = get(app, uri).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{uri}: {body}");
    let problem: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&problem["code"], &problem["outcome"]), (&"bad-key".into(), &"not-run".into()));
    problem["detail"].as_str().unwrap().to_owned()
}
