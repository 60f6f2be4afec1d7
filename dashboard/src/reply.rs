//! Responses, with the headers that all of them have.

use std::{
    convert::Infallible,
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use maud::Markup;

/// Nothing but the dashboard's own files and pages, in no frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The same for a page without files. Its icon is an empty one, as browsers ask the origin for one otherwise.
const PLAIN_POLICY: &str = "default-src 'none'; img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The body of a response: a page, or a stream of events.
pub struct DashboardBody(UnsyncBoxBody<Bytes, Infallible>);

impl Body for DashboardBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl fmt::Debug for DashboardBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DashboardBody").finish_non_exhaustive()
    }
}

pub(crate) type Reply = Response<DashboardBody>;

/// Returns a response with the headers that all have.
pub(crate) fn reply(
    status: StatusCode,
    content_type: &'static str,
    content: impl Into<Bytes>,
) -> Reply {
    let body = DashboardBody(Full::new(content.into()).boxed_unsync());
    with_headers(status, content_type, body)
}

fn with_headers(status: StatusCode, content_type: &'static str, body: DashboardBody) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    let mut set = |name: HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    set(header::CONTENT_TYPE, content_type);
    set(header::CONTENT_SECURITY_POLICY, POLICY);
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    // For browsers that do not know `frame-ancestors`.
    set(header::X_FRAME_OPTIONS, "DENY");
    set(header::REFERRER_POLICY, "no-referrer");
    set(header::CACHE_CONTROL, "no-store");
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    reply
}

pub(crate) fn html(status: StatusCode, page: Markup) -> Reply {
    reply(status, "text/html; charset=utf-8", page.into_string())
}

pub(crate) fn json(value: &serde_json::Value) -> Reply {
    reply(StatusCode::OK, "application/json", value.to_string())
}

/// A stream of server-sent events. A proxy must not collect it.
pub(crate) fn event_stream(events: impl Stream<Item = String> + Send + 'static) -> Reply {
    let frames = events.map(|text| Ok(Frame::data(Bytes::from(text))));
    let body = DashboardBody(StreamBody::new(frames).boxed_unsync());
    let mut reply = with_headers(StatusCode::OK, "text/event-stream", body);
    let name = HeaderName::from_static("x-accel-buffering");
    reply.headers_mut().insert(name, HeaderValue::from_static("no"));
    reply
}

/// Returns a redirect to a relative address.
pub(crate) fn redirect(status: StatusCode, address: &str) -> Reply {
    let mut reply = reply(status, "text/plain", "");
    let location = HeaderValue::try_from(address).unwrap_or(HeaderValue::from_static("./"));
    reply.headers_mut().insert(header::LOCATION, location);
    reply
}

/// A page whose form is sent to this origin. Under `no-referrer` browsers would send `Origin: null` with the
/// form (Fetch, "append a request `Origin` header"), as a page of another site does.
pub(crate) fn with_form(mut reply: Reply) -> Reply {
    reply.headers_mut().insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    reply
}

/// A page that loads no file.
pub(crate) fn without_files(mut reply: Reply) -> Reply {
    let policy = HeaderValue::from_static(PLAIN_POLICY);
    reply.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    reply
}
