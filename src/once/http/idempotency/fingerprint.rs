//! Which requests are the same as the first with their key.

use std::sync::Arc;

use http::HeaderName;

use super::Idempotency;
use crate::{
    key::{RequestHead, pointer_steps as steps},
    once::{Fingerprint, OnceLayer, http::OnceHttp},
};

/// How requests are compared.
#[derive(Clone, Default)]
pub(super) enum FingerprintRule {
    /// By method, path, query and body.
    #[default]
    Request,
    /// Also by these headers, sorted by name.
    Headers(Arc<[HeaderName]>),
    /// By method, path, query, and the meaning of a JSON body, without what is at these pointers.
    Json(Arc<[Arc<[String]>]>),
    /// By the user's function.
    Replaced(Arc<Replacement>),
}

type Replacement = dyn Fn(&RequestHead<'_>, &[u8]) -> Fingerprint + Send + Sync;

impl FingerprintRule {
    /// Calls a user's function: not under a mutex.
    pub(super) fn fingerprint(&self, head: &RequestHead<'_>, body: &[u8]) -> Fingerprint {
        match self {
            Self::Request => Fingerprint::of(head, body),
            Self::Headers(names) => Fingerprint::with_headers(head, body, names),
            Self::Json(left_out) => Fingerprint::of_json(head, body, left_out),
            Self::Replaced(by) => Fingerprint::replaced(by(head, body)),
        }
    }
}

impl<K, C, R, St> OnceLayer<K, C, OnceHttp<R, Idempotency<St>>> {
    /// Adds these headers to the comparison of requests with the same key: all values of each, in order.
    /// Default: none; only method, path, query and body count.
    ///
    /// For headers that change what the handler does: `accept`, `content-type`, an account. Not for those
    /// that differ between tries (`date`, `traceparent`, signatures, the `content-type` of
    /// `multipart/form-data` with its random boundary): each try would be answered 422.
    ///
    /// They count as sent, even those that the layer changes for the service (`accept-encoding`,
    /// `range`), except for its [`token_header`](OnceLayer::token_header). The host is already part of
    /// the [scope](OnceLayer::scope), unless [`any_host`](OnceLayer::any_host) is set.
    ///
    /// The last call of this and [`fingerprint`](Self::fingerprint) applies. After a change of the
    /// headers, earlier keys are answered 422 for [`retain`](OnceLayer::retain).
    ///
    /// ```
    /// use http::header::CONTENT_TYPE;
    /// use tower_redlock::{once::http::Scope, OnceLayer, Redlock};
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
        self.protocol.mode.same = if names.is_empty() {
            FingerprintRule::Request
        } else {
            FingerprintRule::Headers(names.into())
        };
        self
    }

    /// Compares JSON bodies of requests with the same key by their meaning: members in any order, white space
    /// and escapes do not count, nor does what is at the JSON pointers `left_out` (RFC 6901), such as the time
    /// of a try. Method, path and query count.
    ///
    /// Numbers count as they are written: `1.0` is not `1`. A body that is not JSON, or is nested deeper than 64
    /// levels, is compared as sent.
    ///
    /// The last call of this, [`fingerprint_headers`](Self::fingerprint_headers) and
    /// [`fingerprint`](Self::fingerprint) applies. After a change of the pointers, earlier keys are answered
    /// 422 for [`retain`](OnceLayer::retain).
    ///
    /// # Panics
    ///
    /// If a pointer is empty, does not begin with `/`, or has a `~` without `0` or `1` after it.
    ///
    /// ```
    /// use tower_redlock::{once::http::Scope, OnceLayer, Redlock};
    ///
    /// # let _layer =
    /// OnceLayer::idempotency(Redlock::embedded(), "payments")
    ///     .scope(Scope::none())
    ///     .fingerprint_json(["/sent_at", "/client/attempt"]);
    /// ```
    pub fn fingerprint_json<'p>(mut self, left_out: impl IntoIterator<Item = &'p str>) -> Self {
        let mut left_out: Vec<_> = left_out.into_iter().map(steps).collect();
        assert!(left_out.iter().all(|steps| !steps.is_empty()), "an empty pointer leaves out all");
        left_out.sort_unstable();
        left_out.dedup();
        self.protocol.mode.same = FingerprintRule::Json(left_out.into());
        self
    }

    /// Compares requests with the same key by `fingerprint` of their head and body, instead of
    /// [`Fingerprint::of`]. For bodies that differ between tries: the boundaries of
    /// `multipart/form-data`, a timestamp, the order of JSON members.
    ///
    /// **What it leaves out does not count.** Of two requests with one fingerprint, the second gets the
    /// response of the first. So return [`Fingerprint::of`] the head, which counts method, path and
    /// query, and of a body that keeps all that the handler reads distinct: parts with their lengths, not
    /// concatenated. Counting too much only means that a try that differs is answered 422.
    ///
    /// It gets the head as sent, without the layer's [`token_header`](OnceLayer::token_header). Over
    /// HTTP/2 there is no `host` header.
    ///
    /// It must be the same on all replicas. After a change, earlier keys are answered 422 for
    /// [`retain`](OnceLayer::retain). Its results never equal fingerprints made without it. It is called
    /// once per request, before the lock is acquired, on the connection's task: it should not block. If it
    /// panics, nothing runs. The last call of this and
    /// [`fingerprint_headers`](Self::fingerprint_headers) applies.
    ///
    /// ```
    /// use tower_redlock::{key::RequestHead, once::{http::Scope, Fingerprint}, OnceLayer, Redlock};
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
        self.protocol.mode.same = FingerprintRule::Replaced(Arc::new(fingerprint));
        self
    }
}
