use std::{fmt, str::FromStr};

use sha2::{Digest, Sha256};

use crate::key::RequestHead;

/// What tells requests apart that have the same key: a SHA-256 over the method, the path with its
/// query, and the body.
///
/// Each part counts as it was sent, and with its length, so that no two different requests give the
/// same text to the hash; a text that stands for this use and version goes before. Behind axum's nested
/// routers it is the path that was sent (feature `axum`). Headers and trailers don't count: a client
/// that retries may sign and trace each try anew. The scheme and the host don't count either.
///
/// It is no secret and proves nothing of who sent a request. It does tell whether a guess at the
/// whole request is right.
///
/// As text: 64 hexadecimal digits, lower-case.
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

/// Another use of SHA-256 over the same bytes gives another hash.
const DOMAIN: &[u8] = b"tower-redlock request fingerprint 1";

impl Fingerprint {
    /// How many bytes it has.
    pub const BYTES: usize = 32;

    /// The fingerprint of a request with this head and this whole body.
    pub fn of(head: &RequestHead<'_>, body: &[u8]) -> Self {
        let target = head.uri().path_and_query().map_or("", |target| target.as_str());
        let mut hash = Sha256::new();
        for part in [DOMAIN, head.method().as_str().as_bytes(), target.as_bytes(), body] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// A fingerprint as it comes back from a store.
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Its bytes, for a store.
    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
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

/// Lower-case only, so that one fingerprint is one text.
const fn digit(digit: u8) -> Result<u8, ParseFingerprintError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(ParseFingerprintError(())),
    }
}

/// A text is no [`Fingerprint`].
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
    fn it_stays_what_it_is_in_records_that_live_for_days() {
        // Computed apart from this code, by another implementation of SHA-256.
        let known = "e78070899436912b9657470e5d702f4f09ce30ee2eedb6f6cb98b9898511eb56";
        assert_eq!(of("POST", "/payments?dry=1", b"3 EUR").to_string(), known);
    }

    #[test]
    fn a_change_of_any_part_changes_it_and_the_host_is_no_part() {
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

    #[cfg(feature = "axum")]
    #[test]
    fn behind_a_nested_router_it_is_the_path_that_was_sent() {
        let mut nested = Request::post("/a").body(()).unwrap();
        nested.extensions_mut().insert(axum::extract::OriginalUri("/v1/a".parse().unwrap()));
        assert_eq!(Fingerprint::of(&RequestHead::from(&nested), b"x"), of("POST", "/v1/a", b"x"));
    }

    proptest! {
        #[test]
        fn its_text_is_read_back_and_no_other_is(bytes: [u8; 32], at in 0..64_usize, c: char) {
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
