//! Which requests are the same as the first with their key.

use std::sync::Arc;

use http::HeaderName;

use super::Idempotency;
use crate::{
    key::RequestHead,
    once::{Fingerprint, OnceLayer, http::Http},
};

/// How requests are told apart.
#[derive(Clone, Default)]
pub(super) enum Same {
    /// By method, path, query and body.
    #[default]
    Request,
    /// By these headers as well, which are in the order of their names.
    Headers(Arc<[HeaderName]>),
    /// By what the user says.
    Replaced(Arc<Replacement>),
}

type Replacement = dyn Fn(&RequestHead<'_>, &[u8]) -> Fingerprint + Send + Sync;

impl Same {
    /// Calls what a user wrote: under no lock.
    pub(super) fn fingerprint(&self, head: &RequestHead<'_>, body: &[u8]) -> Fingerprint {
        match self {
            Self::Request => Fingerprint::of(head, body),
            Self::Headers(names) => Fingerprint::with_headers(head, body, names),
            Self::Replaced(by) => Fingerprint::replaced(by(head, body)),
        }
    }
}

impl<K, C, R, St> OnceLayer<K, C, Http<R, Idempotency<St>>> {
    /// Counts these headers, too, when requests are compared that have the same key: all values that
    /// a request has of each, in their order. Default: none, so that only method, path, query and body
    /// count.
    ///
    /// For headers by which the handler does something else: `accept`, `content-type`, a header that
    /// names an account. Not for those that differ between tries of one request (`date`,
    /// `traceparent`, signatures): each try is answered 422 then. That goes for the `content-type` of
    /// `multipart/form-data` as well, whose boundary clients draw anew.
    ///
    /// They count as they were sent, also those that the layer changes for the service: `accept-encoding`,
    /// `range`. Only its [`token_header`](OnceLayer::token_header) never counts, as no client can set it.
    ///
    /// Not for the host: `host` is no header over HTTP/2. The host is part of the
    /// [scope](OnceLayer::scope) already, unless [`any_host`](OnceLayer::any_host) is set.
    ///
    /// The last call of this and [`fingerprint`](Self::fingerprint) counts. Where the headers change
    /// from one version of a service to the next, keys of before the change are answered 422, until
    /// [`retain`](OnceLayer::retain) is over.
    ///
    /// ```
    /// use http::header::CONTENT_TYPE;
    /// use tower_redlock::{OnceLayer, Redlock, once::Scope};
    ///
    /// # let _layer =
    /// OnceLayer::idempotency(Redlock::embedded(), "payments")
    ///     .scope(Scope::none())
    ///     .fingerprint_headers([CONTENT_TYPE]);
    /// ```
    pub fn fingerprint_headers(mut self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        names.dedup();
        self.face.mode.same =
            if names.is_empty() { Same::Request } else { Same::Headers(names.into()) };
        self
    }

    /// Compares requests that have the same key by what `fingerprint` makes of their head and their
    /// whole body, instead of [`Fingerprint::of`]. For bodies that differ between tries of one request:
    /// the boundaries of `multipart/form-data`, a timestamp, the order of JSON members.
    ///
    /// **What it leaves out does not count.** Two requests with one fingerprint are one request: the
    /// second is answered with the response of the first, and does not run. So begin with
    /// [`Fingerprint::of`] the head, which counts method, path and query, and give it a body in which all
    /// that the handler reads is still told apart: parts with their lengths, say, rather than glued
    /// together. What it takes in too much is less bad: a try that differs in it is answered 422.
    ///
    /// It finds the head as it was sent, without the layer's [`token_header`](OnceLayer::token_header):
    /// `accept-encoding` and `range` are changed for the service after it. `host` is no header over HTTP/2.
    ///
    /// It has to be the same on all replicas, and stay so: where it changes, keys of before the change
    /// are answered 422, until [`retain`](OnceLayer::retain) is over. Its results never equal
    /// fingerprints that were made without it. It is called once for each request, before the key's
    /// lock is asked for, on the task of the connection: it should not block. Where it panics, the
    /// request does, and nothing ran. The last call of this and
    /// [`fingerprint_headers`](Self::fingerprint_headers) counts.
    ///
    /// ```
    /// use tower_redlock::{OnceLayer, Redlock, key::RequestHead, once::{Fingerprint, Scope}};
    ///
    /// /// The same for all boundaries: each piece between two of them, with its length.
    /// fn of_parts(head: &RequestHead<'_>, body: &[u8]) -> Fingerprint {
    ///     let boundary = head.headers().get("content-type").and_then(|value| {
    ///         let value = value.to_str().ok()?.strip_prefix("multipart/form-data;")?;
    ///         Some(value.trim().strip_prefix("boundary=")?.trim_matches('"').to_owned())
    ///     });
    ///     let Some(boundary) = boundary.filter(|boundary| !boundary.is_empty()) else {
    ///         return Fingerprint::of(head, body);
    ///     };
    ///     // The first one stands at the beginning, each other on a line of its own.
    ///     let delimiter = format!("\r\n--{boundary}");
    ///     let (first, delimiter) = (&delimiter.as_bytes()[2..], delimiter.as_bytes());
    ///     let mut rest = body.strip_prefix(first).unwrap_or(body);
    ///     let mut pieces = b"multipart/form-data".to_vec();
    ///     loop {
    ///         let end = rest.windows(delimiter.len()).position(|at| at == delimiter);
    ///         let piece = &rest[..end.unwrap_or(rest.len())];
    ///         pieces.extend((piece.len() as u64).to_be_bytes());
    ///         pieces.extend(piece);
    ///         let Some(end) = end else { return Fingerprint::of(head, &pieces) };
    ///         rest = &rest[end + delimiter.len()..];
    ///     }
    /// }
    ///
    /// # let _layer =
    /// OnceLayer::idempotency(Redlock::embedded(), "uploads")
    ///     .scope(Scope::none())
    ///     .fingerprint(of_parts);
    /// # let of = |boundary: &str, body: String| {
    /// #     let typed = format!("multipart/form-data; boundary={boundary}");
    /// #     let request = http::Request::post("/").header("content-type", typed).body(()).unwrap();
    /// #     of_parts(&RequestHead::from(&request), body.as_bytes())
    /// # };
    /// # let body = |b: &str, text: &str| format!("--{b}\r\n\r\n{text}\r\n--{b}--\r\n");
    /// # assert_eq!(of("a", body("a", "x")), of("b", body("b", "x")));
    /// # assert_ne!(of("a", body("a", "x")), of("a", body("a", "y")));
    /// # assert_ne!(of("a", body("a", "x")), of("a", body("b", "x")));
    /// ```
    pub fn fingerprint<F>(mut self, fingerprint: F) -> Self
    where
        F: Fn(&RequestHead<'_>, &[u8]) -> Fingerprint + Send + Sync + 'static,
    {
        self.face.mode.same = Same::Replaced(Arc::new(fingerprint));
        self
    }
}
