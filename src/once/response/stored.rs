//! A stored response, and its bytes.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, response::Parts};

use super::{StoredHeaders, headers::may_be_kept};

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
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl StoredResponse {
    /// Creates it with the headers that `headers` selects.
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
        encode(self)
    }

    /// Decodes a response. Its body shares the record's memory.
    ///
    /// # Errors
    ///
    /// [`DecodeResponseError`] if the bytes are malformed, or have a later version of the format.
    pub fn decode(record: impl Into<Bytes>) -> Result<Self, DecodeResponseError> {
        decode(record.into())
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

const VERSION: u8 = 1;

fn encode(response: &StoredResponse) -> Bytes {
    let StoredResponse { status, headers, body } = response;
    let all: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    // Most lengths take one byte; a number takes at most ten.
    let mut record = BytesMut::with_capacity(23 + all + 3 * headers.len() + body.len());
    record.put_u8(VERSION);
    record.put_u16(status.as_u16());
    put_number(&mut record, headers.len());
    for (name, value) in headers {
        put_text(&mut record, name.as_str().as_bytes());
        put_text(&mut record, value.as_bytes());
    }
    put_text(&mut record, body);
    record.freeze()
}

fn put_number(record: &mut BytesMut, number: usize) {
    let mut rest = number;
    while rest >= 0x80 {
        record.put_u8(rest.to_le_bytes()[0] | 0x80);
        rest >>= 7;
    }
    record.put_u8(rest.to_le_bytes()[0]);
}

fn put_text(record: &mut BytesMut, text: &[u8]) {
    put_number(record, text.len());
    record.put_slice(text);
}

fn decode(mut record: Bytes) -> Result<StoredResponse, DecodeResponseError> {
    match byte(&mut record) {
        Some(VERSION) => {}
        Some(version) => return Err(DecodeResponseError::Version { version }),
        None => return Err(DecodeResponseError::Malformed),
    }
    parts(&mut record).filter(|_| record.is_empty()).ok_or(DecodeResponseError::Malformed)
}

fn parts(record: &mut Bytes) -> Option<StoredResponse> {
    let status = StatusCode::from_u16(u16::from_be_bytes([byte(record)?, byte(record)?])).ok()?;
    let mut headers = HeaderMap::new();
    for _ in 0..number(record)? {
        let name = text(record)?;
        // `encode` writes names in lower case only.
        let name = HeaderName::from_lowercase(&name).ok().filter(may_be_kept)?;
        let value = HeaderValue::from_maybe_shared(text(record)?).ok()?;
        headers.try_append(name, value).ok()?;
    }
    Some(StoredResponse { status, headers, body: text(record)? })
}

fn byte(record: &mut Bytes) -> Option<u8> {
    record.has_remaining().then(|| record.get_u8())
}

fn number(record: &mut Bytes) -> Option<usize> {
    let mut number = 0_u64;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = byte(record)?;
        let bits = u64::from(byte & 0x7f);
        if (bits << shift) >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            // A last byte of zero would be a second encoding of the number.
            let is_shortest = byte != 0 || shift == 0;
            return usize::try_from(number).ok().filter(|_| is_shortest);
        }
    }
    None
}

fn text(record: &mut Bytes) -> Option<Bytes> {
    let len = number(record)?;
    (len <= record.len()).then(|| record.split_to(len))
}

/// The error of bytes that are not a [`StoredResponse`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeResponseError {
    /// This version of the crate does not know their format.
    Version {
        /// The format's version.
        version: u8,
    },
    /// They are truncated or damaged, or something else.
    Malformed,
}

impl fmt::Display for DecodeResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { version } => write!(
                f,
                "a stored response has the format {version}, and this version of tower-redlock \
                 knows {VERSION}: was it stored by a later one?"
            ),
            Self::Malformed => f.write_str("what was stored is no response: it is damaged"),
        }
    }
}

impl std::error::Error for DecodeResponseError {}

#[cfg(test)]
mod tests {
    use http::Response;
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::once::StoredHeaders;

    fn response(status: u16, headers: &[(&str, &[u8])], body: impl Into<Bytes>) -> StoredResponse {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, HeaderValue::from_bytes(value).unwrap());
        }
        let (parts, ()) = response.body(()).unwrap().into_parts();
        let kept = StoredHeaders::only(headers.iter().map(|(name, _)| *name));
        StoredResponse::new(&parts, body.into(), &kept)
    }

    fn any_response() -> impl Strategy<Value = StoredResponse> {
        let name = prop::sample::select(vec!["etag", "link", "x-a", "x-b", "content-type"]);
        let byte = prop_oneof![Just(b'\t'), 0x20..0x7f_u8, 0x80..=0xff_u8];
        let headers = vec((name, vec(byte, 0..200)), 0..6);
        let body = prop_oneof![vec(any::<u8>(), 0..300), vec(any::<u8>(), 16_380..16_390)];
        (100..1000_u16, headers, body).prop_map(|(status, headers, body)| {
            let headers: Vec<_> = headers.iter().map(|(name, v)| (*name, v.as_slice())).collect();
            response(status, &headers, body)
        })
    }

    #[test]
    fn format_is_stable() {
        let stored = response(201, &[("etag", b"\"\xe4\""), ("x-a", b"")], vec![b'x'; 130]);
        let mut record = b"\x01\x00\xc9\x02\x04etag\x03\"\xe4\"\x03x-a\x00\x82\x01".to_vec();
        record.extend([b'x'; 130]);
        assert_eq!(stored.encode(), record);
        let decoded = StoredResponse::decode(record);
        assert_eq!(decoded.as_ref().map(StoredResponse::status), Ok(http::StatusCode::CREATED));
        assert_eq!(decoded, Ok(stored));
    }

    #[test]
    fn errors_describe_the_bytes() {
        let error = StoredResponse::decode(&b"\x02"[..]).unwrap_err();
        assert!(error.to_string().contains("the format 2"), "{error}");
        let error = StoredResponse::decode(&b""[..]).unwrap_err();
        assert!(error.to_string().contains("damaged"), "{error}");
    }

    #[test]
    fn values_keep_their_order() {
        let stored = response(200, &[("link", b"b"), ("etag", b"1"), ("link", b"a")], "");
        let again = StoredResponse::decode(stored.encode()).unwrap();
        let links: Vec<_> = again.headers().get_all("link").iter().collect();
        assert_eq!(links, ["b", "a"]);
        assert_eq!(again.headers().len(), 3);
    }

    #[test]
    fn malformed_records_are_errors() {
        let malformed = |record: &[u8]| {
            let decoded = StoredResponse::decode(record.to_vec());
            assert_eq!(decoded, Err(DecodeResponseError::Malformed), "{record:?}");
        };
        malformed(b"");
        malformed(b"\x01\x00\x63\x00\x00"); // status 99
        malformed(b"\x01\x03\xe8\x00\x00"); // status 1000
        malformed(b"\x01\x00\xc8\x00\x80\x00"); // a long form of zero
        malformed(b"\x01\x00\xc8\x00\x00\x00"); // a byte after the body
        malformed(b"\x01\x00\xc8\x01\x00\x00\x00"); // a header without a name
        malformed(b"\x01\x00\xc8\x01\x04Etag\x00\x00"); // a name in upper case
        malformed(b"\x01\x00\xc8\x01\x04etag\x01\n\x00"); // a value with a line break
        malformed(b"\x01\x00\xc8\x01\x0aset-cookie\x00\x00");
        malformed(b"\x01\x00\xc8\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"); // 2^64 - 1 bytes
        malformed(b"\x01\x00\xc8\x00\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02"); // 2^64 bytes
        malformed(b"\x01\x00\xc8\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"); // so many headers
        let later = StoredResponse::decode(&b"\x02\x00\xc8\x00\x00"[..]);
        assert_eq!(later, Err(DecodeResponseError::Version { version: 2 }));
        assert!(StoredResponse::decode(&b"\x01\x00\xc8\x00\x00"[..]).is_ok());
    }

    #[test]
    fn too_many_headers_are_an_error() {
        let mut record = b"\x01\x00\xc8\x80\x80\x04".to_vec(); // 65,536
        (0..65_536).for_each(|i| {
            record.push(6);
            record.extend(format!("{i:06x}\0").bytes());
        });
        record.push(0);
        assert_eq!(StoredResponse::decode(record), Err(DecodeResponseError::Malformed));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded_again(stored in any_response()) {
            let record = stored.encode();
            let again = StoredResponse::decode(record.clone());
            prop_assert_eq!(again.as_ref(), Ok(&stored));
            prop_assert_eq!(again.unwrap().encode(), record);
        }

        #[test]
        fn cut_or_extended_record_fails(
            stored in any_response(),
            cut: prop::sample::Index,
            more in vec(any::<u8>(), 1..4),
        ) {
            let record = stored.encode();
            let part = record.slice(..cut.index(record.len()));
            prop_assert_eq!(StoredResponse::decode(part), Err(DecodeResponseError::Malformed));
            let longer = [&record[..], &more].concat();
            prop_assert_eq!(StoredResponse::decode(longer), Err(DecodeResponseError::Malformed));
        }
    }
}
