//! The hash by which requests with the same key are compared.

use std::{fmt, str::FromStr, sync::Arc};

use http::HeaderName;
use sha2::{Digest, Sha256};

use super::json_form::json_form;
use crate::key::RequestHead;

/// The hash by which requests with the same key are compared: SHA-256 over the method, the path with
/// its query, and the body.
///
/// Each part is hashed as sent, with its length, after a text for this use and version. Behind axum's
/// nested routers the path is the one that was sent (feature `axum`). Headers and trailers don't count,
/// as they may differ between tries; nor do scheme and host. A layer may add
/// [headers](crate::OnceLayer::fingerprint_headers), compare JSON by its
/// [meaning](crate::OnceLayer::fingerprint_json), or use [another
/// function](crate::OnceLayer::fingerprint); those fingerprints never equal these.
///
/// It is not a secret and does not authenticate a client, but confirms a guess of the whole request.
///
/// Its text has 64 hexadecimal digits, lower-case.
///
/// ```
/// use tower_redlock::{key::RequestHead, once::Fingerprint};
///
/// let request = http::Request::post("/payments?dry").body(())?;
/// let head = RequestHead::from(&request);
/// let first = Fingerprint::of(&head, b"3 EUR");
/// assert_ne!(first, Fingerprint::of(&head, b"30 EUR"));
/// assert_eq!(first.to_string().parse(), Ok(first));
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; Self::BYTES]);

/// Separates the hash from other uses of SHA-256 over the same bytes.
const DOMAIN: &[u8] = b"tower-redlock request fingerprint 1";
const WITH_HEADERS: &[u8] = b"tower-redlock request fingerprint with headers 1";
const OF_JSON: &[u8] = b"tower-redlock request fingerprint of JSON 1";
const REPLACED: &[u8] = b"tower-redlock request fingerprint replaced 1";

impl Fingerprint {
    /// Length in bytes.
    pub const BYTES: usize = 32;

    /// Returns the fingerprint of a request with this head and complete body.
    pub fn of(head: &RequestHead<'_>, body: &[u8]) -> Self {
        let mut parts = FingerprintHasher::new(DOMAIN);
        parts.add_request(head, body);
        parts.finish()
    }

    /// Also hashes the values of these headers, which are sorted by name.
    pub(super) fn with_headers(head: &RequestHead<'_>, body: &[u8], names: &[HeaderName]) -> Self {
        let mut parts = FingerprintHasher::new(WITH_HEADERS);
        parts.add_count(names.len());
        for name in names {
            let values = head.headers().get_all(name);
            parts.add(name.as_str().as_bytes());
            parts.add_count(values.iter().count());
            values.iter().for_each(|value| parts.add(value.as_bytes()));
        }
        parts.add_request(head, body);
        parts.finish()
    }

    /// Hashes a JSON body by its meaning, without what is at these pointers.
    pub(super) fn of_json(head: &RequestHead<'_>, body: &[u8], left_out: &[Arc<[String]>]) -> Self {
        let text = std::str::from_utf8(body).ok();
        let paths: Vec<_> = left_out.iter().map(|steps| &**steps).collect();
        let form = text.and_then(|text| json_form(text, &paths));
        let mut parts = FingerprintHasher::new(OF_JSON);
        parts.add_count(left_out.len());
        for steps in left_out {
            parts.add_count(steps.len());
            steps.iter().for_each(|step| parts.add(step.as_bytes()));
        }
        parts.add_count(form.is_some().into());
        parts.add_request(head, form.as_deref().map_or(body, str::as_bytes));
        parts.finish()
    }

    /// Returns the fingerprint that stands for a user's own in records.
    pub(super) fn replaced(by: Self) -> Self {
        let mut parts = FingerprintHasher::new(REPLACED);
        parts.add(&by.0);
        parts.finish()
    }

    /// Creates a fingerprint from its bytes.
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns its bytes.
    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

/// Hashes texts, each with its length.
struct FingerprintHasher(Sha256);

impl FingerprintHasher {
    fn new(domain: &[u8]) -> Self {
        let mut this = Self(Sha256::new());
        this.add(domain);
        this
    }

    fn add(&mut self, part: &[u8]) {
        self.add_count(part.len());
        self.0.update(part);
    }

    fn add_count(&mut self, count: usize) {
        self.0.update((count as u64).to_be_bytes());
    }

    fn add_request(&mut self, head: &RequestHead<'_>, body: &[u8]) {
        let target = head.uri().path_and_query().map_or("", |target| target.as_str());
        self.add(head.method().as_str().as_bytes());
        self.add(target.as_bytes());
        self.add(body);
    }

    fn finish(self) -> Fingerprint {
        Fingerprint(self.0.finalize().into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl FromStr for Fingerprint {
    type Err = ParseFingerprintError;

    fn from_str(text: &str) -> Result<Self, ParseFingerprintError> {
        let digits: &[u8; 2 * Self::BYTES] =
            text.as_bytes().try_into().map_err(|_| ParseFingerprintError(()))?;
        let mut bytes = [0; Self::BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

/// Lower case only: a fingerprint has a single text.
const fn digit(digit: u8) -> Result<u8, ParseFingerprintError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(ParseFingerprintError(())),
    }
}

/// The error of a text that is not a [`Fingerprint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseFingerprintError(());

impl fmt::Display for ParseFingerprintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fingerprint has 64 hexadecimal digits, lower-case, and nothing else")
    }
}

impl std::error::Error for ParseFingerprintError {}

#[cfg(test)]
mod tests {
    use http::Request;
    use proptest::prelude::*;

    use super::*;

    fn of(method: &str, uri: &str, body: &[u8]) -> Fingerprint {
        let request = Request::builder().method(method).uri(uri).body(()).unwrap();
        Fingerprint::of(&RequestHead::from(&request), body)
    }

    #[test]
    fn format_is_stable() {
        // Computed apart from this code, by another implementation of SHA-256.
        let known = "e78070899436912b9657470e5d702f4f09ce30ee2eedb6f6cb98b9898511eb56";
        assert_eq!(of("POST", "/payments?dry=1", b"3 EUR").to_string(), known);
    }

    #[test]
    fn all_parts_but_the_host_count() {
        let all = [
            of("POST", "/a", b"x"),
            of("PUT", "/a", b"x"),
            of("POST", "/b", b"x"),
            of("POST", "/a?", b"x"),
            of("POST", "/a?q", b"x"),
            of("POST", "/%61", b"x"),
            of("POST", "/a", b"y"),
            of("POST", "/a", b""),
            of("POST", "/ax", b""),
            of("POSTX", "/a", b"x"),
        ];
        for (i, one) in all.iter().enumerate() {
            assert_eq!(all.iter().filter(|other| *other == one).count(), 1, "number {i}");
        }
        assert_eq!(of("POST", "http://host/a?q", b"x"), of("POST", "/a?q", b"x"));
    }

    #[test]
    fn other_settings_give_other_fingerprints() {
        let request = Request::post("/a").header("a", "1").header("a", "2").header("b", "1");
        let request = request.body(()).unwrap();
        let head = RequestHead::from(&request);
        let names = |names: &[&'static str]| -> Vec<HeaderName> {
            names.iter().map(|name| HeaderName::from_static(name)).collect()
        };
        let with = |of: &[&'static str]| Fingerprint::with_headers(&head, b"x", &names(of));
        let of_other = |values: &[&str]| {
            let mut other = Request::post("/a").header("b", "1");
            for value in values {
                other = other.header("a", *value);
            }
            let other = other.body(()).unwrap();
            Fingerprint::with_headers(&RequestHead::from(&other), b"x", &names(&["a"]))
        };
        let all = [
            Fingerprint::of(&head, b"x"),
            Fingerprint::replaced(Fingerprint::of(&head, b"x")),
            Fingerprint::replaced(Fingerprint::replaced(Fingerprint::of(&head, b"x"))),
            Fingerprint::replaced(with(&["a"])),
            with(&[]),
            with(&["a"]),
            with(&["b"]),
            with(&["c"]),
            with(&["a", "b"]),
            with(&["a", "c"]),
            of_other(&["2", "1"]),
            of_other(&["1"]),
            of_other(&["12"]),
            of_other(&["1, 2"]),
        ];
        for (i, one) in all.iter().enumerate() {
            assert_eq!(all.iter().filter(|other| *other == one).count(), 1, "number {i}");
        }
        assert_eq!(of_other(&["1", "2"]), with(&["a"]));
    }

    #[test]
    fn format_with_settings_is_stable() {
        let request = Request::post("/payments?dry=1").header("content-type", "text/plain");
        let request = request.body(()).unwrap();
        let head = RequestHead::from(&request);
        let with = Fingerprint::with_headers(&head, b"3 EUR", &[http::header::CONTENT_TYPE]);
        // Computed apart from this code, by another implementation of SHA-256.
        assert_eq!(
            with.to_string(),
            "9bf1774624a8e3b0c80e6651f91ee2fb3793e87b3cb2ce18cee5458617beccef"
        );
        let replaced = Fingerprint::replaced(Fingerprint::from_bytes([7; 32]));
        assert_eq!(
            replaced.to_string(),
            "08b80b4fb68072ab5f7192a0e8613cc1f0d6102607d83d7399744d2296152802"
        );
    }

    #[test]
    fn parse_error_describes_the_format() {
        let error = "".parse::<Fingerprint>().unwrap_err().to_string();
        assert!(error.contains("64 hexadecimal digits"), "{error}");
    }

    #[cfg(feature = "axum")]
    #[test]
    fn nested_routers_use_the_sent_path() {
        let mut nested = Request::post("/a").body(()).unwrap();
        nested.extensions_mut().insert(axum::extract::OriginalUri("/v1/a".parse().unwrap()));
        assert_eq!(Fingerprint::of(&RequestHead::from(&nested), b"x"), of("POST", "/v1/a", b"x"));
    }

    proptest! {
        #[test]
        fn only_its_own_text_parses(bytes: [u8; 32], at in 0..64_usize, c: char) {
            let print = Fingerprint::from_bytes(bytes);
            let text = print.to_string();
            prop_assert_eq!(text.parse(), Ok(print));
            prop_assert!(text[1..].parse::<Fingerprint>().is_err());
            let mut other = text.clone();
            other.replace_range(at..=at, c.encode_utf8(&mut [0; 4]));
            match other.parse::<Fingerprint>() {
                Ok(read) => prop_assert_eq!(read.to_string(), other),
                Err(_) => prop_assert!(!matches!(c, '0'..='9' | 'a'..='f')),
            }
        }
    }
}
