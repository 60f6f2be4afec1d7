use http::StatusCode;

/// Whether a response with this status is the answer to the request for good.
///
/// A server's failure is no answer, and neither is one that says "not now" or "not with these
/// credentials": the same request may be answered otherwise the next time.
pub(super) fn is_final(status: StatusCode) -> bool {
    let come_again = [
        StatusCode::UNAUTHORIZED,
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::CONFLICT,
        StatusCode::TOO_EARLY,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    (200..500).contains(&status.as_u16()) && !come_again.contains(&status)
}
