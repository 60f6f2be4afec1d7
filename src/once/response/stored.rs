//! A stored response.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, response::Parts};

use super::{
    StoredHeaders,
    encoding::{self, DecodeResponseError},
};

/// A stored response: status, [headers](StoredHeaders) and complete body, without version, trailers and
/// extensions.
///
/// ```
/// use bytes::Bytes;
/// use tower_redlock::once::{StoredHeaders, StoredResponse};
///
/// let response = http::Response::builder()
///     .status(201)
///     .header("location", "/payments/7")
///     .header("set-cookie", "session=secret")
///     .body(Bytes::from("made"))?;
/// let (parts, body) = response.into_parts();
/// let stored = StoredResponse::new(&parts, body, &StoredHeaders::default());
///
/// let record = stored.encode();
/// let again = StoredResponse::decode(record).unwrap().to_response();
/// assert_eq!((again.status().as_u16(), again.body().as_ref()), (201, &b"made"[..]));
/// assert_eq!(again.headers().len(), 1);
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct StoredResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl StoredResponse {
    /// Creates it with those of the response's headers that `headers` selects.
    pub fn new(parts: &Parts, body: Bytes, headers: &StoredHeaders) -> Self {
        Self { status: parts.status, headers: headers.of(&parts.headers), body }
    }

    /// Returns its status.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns its headers.
    pub const fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns its body.
    pub const fn body(&self) -> &Bytes {
        &self.body
    }

    /// Returns the size of its headers and its body, in bytes.
    pub(in crate::once) fn size(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len());
        headers.sum::<usize>() + self.body.len()
    }

    /// Returns the response. The body is shared, not copied.
    pub fn to_response(&self) -> Response<Bytes> {
        let mut response = Response::new(self.body.clone());
        *response.status_mut() = self.status;
        response.headers_mut().clone_from(&self.headers);
        response
    }

    /// Encodes it.
    ///
    /// The format: the version (1) in one byte; the status in two, the higher first; the
    /// number of headers; of each header its name, and then its value; the body. A number is in base
    /// 128, the lowest seven bits first, with the high bit set in every byte but the last (LEB128,
    /// in its shortest form); names, values and the body begin with their length as such a number,
    /// and nothing follows.
    pub fn encode(&self) -> Bytes {
        encoding::encode(self)
    }

    /// Decodes a response. Its body shares the record's memory.
    ///
    /// # Errors
    ///
    /// [`DecodeResponseError`] if the bytes are malformed, or have a later version of the format.
    pub fn decode(record: impl Into<Bytes>) -> Result<Self, DecodeResponseError> {
        encoding::decode(record.into())
    }
}

/// Headers and bodies may hold secrets: they are not shown.
impl fmt::Debug for StoredResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredResponse")
            .field("status", &self.status)
            .field("headers", &self.headers.len())
            .field("bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}
