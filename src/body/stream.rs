//! Responses that clients read while they are being sent.

use http::{HeaderMap, header::CONTENT_TYPE};

/// Event streams (WHATWG HTML, section 9.2) and their predecessor. They end only when a client or a
/// server disconnects, and clients reconnect after any end.
const EVENT_STREAMS: [&str; 2] = ["text/event-stream", "multipart/x-mixed-replace"];

pub(crate) fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
    EVENT_STREAMS.iter().any(|stream| essence.eq_ignore_ascii_case(stream))
}

/// Returns whether a response must be passed on unbuffered: an event stream, or one whose
/// `x-accel-buffering` requests that from proxies.
#[cfg(feature = "once")]
pub(crate) fn is_unbuffered(headers: &HeaderMap) -> bool {
    let says_no = |value: &http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"no");
    is_event_stream(headers) || headers.get("x-accel-buffering").is_some_and(says_no)
}
