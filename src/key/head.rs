//! A request without its body.

use std::fmt;

use http::{Extensions, HeaderMap, Method, Request, Uri, request::Parts};

/// A request without its body: what keys look at.
#[derive(Clone, Copy)]
pub struct RequestHead<'r> {
    method: &'r Method,
    uri: &'r Uri,
    headers: &'r HeaderMap,
    extensions: &'r Extensions,
    /// For keys that look into it; closures are given it apart from the head.
    body: Option<&'r [u8]>,
}

impl<'r> RequestHead<'r> {
    /// The same request with its whole body.
    pub(super) const fn with_body(self, body: &'r [u8]) -> Self {
        Self { body: Some(body), ..self }
    }

    /// The whole body, where it was read.
    pub(super) const fn body(&self) -> Option<&'r [u8]> {
        self.body
    }

    /// The method, as it was sent.
    pub const fn method(&self) -> &'r Method {
        self.method
    }

    /// The method whose handler runs: routers answer HEAD by that of GET.
    pub(super) fn handled_as(&self) -> &'r Method {
        if self.method == Method::HEAD { &Method::GET } else { self.method }
    }

    /// The URI as it was sent: axum's routers take the prefix off that they are nested under, and
    /// here it is there again (feature `axum`).
    pub fn uri(&self) -> &'r Uri {
        #[cfg(feature = "axum")]
        if let Some(original) = self.extensions.get::<axum::extract::OriginalUri>() {
            return &original.0;
        }
        self.uri
    }

    /// Whether a router has the request and took no prefix off its path.
    #[cfg(feature = "axum")]
    pub(super) fn is_in_router(&self) -> bool {
        let original = self.extensions.get::<axum::extract::OriginalUri>();
        original.is_some_and(|original| original.0.path() == self.uri.path())
    }

    /// The headers.
    pub const fn headers(&self) -> &'r HeaderMap {
        self.headers
    }

    /// The extensions.
    pub const fn extensions(&self) -> &'r Extensions {
        self.extensions
    }
}

impl<'r, B> From<&'r Request<B>> for RequestHead<'r> {
    fn from(request: &'r Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
            body: None,
        }
    }
}

impl<'r> From<&'r Parts> for RequestHead<'r> {
    fn from(parts: &'r Parts) -> Self {
        let Parts { method, uri, headers, extensions, .. } = parts;
        Self { method, uri, headers, extensions, body: None }
    }
}

/// Headers and paths may hold secrets: they are not shown.
impl fmt::Debug for RequestHead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestHead").field("method", self.method).finish_non_exhaustive()
    }
}
