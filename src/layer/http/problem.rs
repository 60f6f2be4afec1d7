use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

use super::RequestOutcome;

/// A problem body after RFC 9457, with the members `code` and `outcome` of our own.
pub(crate) fn problem(
    status: StatusCode,
    code: &str,
    detail: &str,
    has_begun: bool,
) -> Response<Bytes> {
    problem_of(status, code, detail, if has_begun { "unknown" } else { "not-run" })
}

/// The same with any outcome. The response tells a layer outside of it.
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
    RequestOutcome::of_rejection(outcome == "unknown").mark(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_outside_is_told_what_became_of_the_request() {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        let said = |has_begun| RequestOutcome::of(&problem(status, "x", "x", has_begun));
        assert_eq!(said(true), Some(RequestOutcome::Unknown));
        assert_eq!(said(false), Some(RequestOutcome::Refused));
        // Done by another request; this one did nothing.
        let done = problem_of(status, "x", "x", "done");
        assert_eq!(RequestOutcome::of(&done), Some(RequestOutcome::Refused));
        assert_eq!(RequestOutcome::of(&Response::new(())), None);
    }
}
