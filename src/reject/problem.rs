//! Problem bodies after RFC 9457.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};

use super::RequestOutcome;

/// Creates a problem of the type `about:blank`, with the members `code` and `outcome` of this
/// crate. A response whose outcome is not `unknown` is marked as refused, as the request itself had
/// no effect.
pub(crate) fn problem(
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
    fn response_is_marked_with_the_outcome() {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        let marked = |outcome| RequestOutcome::of(&problem(status, "x", "x", outcome));
        assert_eq!(marked("unknown"), Some(RequestOutcome::Unknown));
        assert_eq!(marked("not-run"), Some(RequestOutcome::Refused));
        // Another request did the work; this one had no effect.
        assert_eq!(marked("done"), Some(RequestOutcome::Refused));
        assert_eq!(RequestOutcome::of(&Response::new(())), None);
    }
}
