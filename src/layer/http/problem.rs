use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

/// A problem body after RFC 9457, with the members `code` and `outcome` of our own.
pub(crate) fn problem(
    status: StatusCode,
    code: &str,
    detail: &str,
    has_begun: bool,
) -> Response<Bytes> {
    problem_of(status, code, detail, if has_begun { "unknown" } else { "not-run" })
}

/// The same with any outcome.
pub(crate) fn problem_of(
    status: StatusCode,
    code: &str,
    detail: &str,
    outcome: &str,
) -> Response<Bytes> {
    let body = serde_json::json!({
        "title": status.canonical_reason().unwrap_or_default(),
        "status": status.as_u16(),
        "detail": detail,
        "code": code,
        "outcome": outcome,
    });
    let mut response = Response::new(Bytes::from(body.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let problem = HeaderValue::from_static("application/problem+json");
    headers.insert(header::CONTENT_TYPE, problem);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
