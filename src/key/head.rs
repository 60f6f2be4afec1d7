//! A request without its body.

use std::fmt;

use http::{Extensions, HeaderMap, Method, Request, Uri, request::Parts};

/// A request without its body, from which keys take names.
#[derive(Clone, Copy)]
pub struct RequestHead<'r> {
    method: &'r Method,
    uri: &'r Uri,
    headers: &'r HeaderMap,
    extensions: &'r Extensions,
    /// The body, for keys that read it. Closures get it as another argument.
    body: Option<&'r [u8]>,
}

impl<'r> RequestHead<'r> {
    /// Adds the whole body.
    pub(super) const fn with_body(self, body: &'r [u8]) -> Self {
        Self { body: Some(body), ..self }
    }

    /// Returns the whole body, if it was read.
    pub(super) const fn body(&self) -> Option<&'r [u8]> {
        self.body
    }

    /// Returns the method as it was sent.
    pub const fn method(&self) -> &'r Method {
        self.method
    }

    /// Returns the method whose handler runs: GET for a HEAD request.
    pub(super) fn handled_as(&self) -> &'r Method {
        if self.method == Method::HEAD { &Method::GET } else { self.method }
    }

    /// Returns the URI as it was sent, with the prefixes that nested routers of axum remove (feature
    /// `axum`).
    pub fn uri(&self) -> &'r Uri {
        #[cfg(feature = "axum")]
        if let Some(original) = self.extensions.get::<axum::extract::OriginalUri>() {
            return &original.0;
        }
        self.uri
    }

    /// Returns whether a router has received the request and removed no prefix from its path.
    #[cfg(feature = "axum")]
    pub(super) fn is_in_router(&self) -> bool {
        let original = self.extensions.get::<axum::extract::OriginalUri>();
        original.is_some_and(|original| original.0.path() == self.uri.path())
    }

    /// Returns the headers.
    pub const fn headers(&self) -> &'r HeaderMap {
        self.headers
    }

    /// Returns the extensions.
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

/// Omits headers and path, which may contain secrets.
impl fmt::Debug for RequestHead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestHead").field("method", self.method).finish_non_exhaustive()
    }
}
