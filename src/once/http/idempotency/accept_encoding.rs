//! The headers by which a response would fit only one client: encodings and ranges.

use http::{
    HeaderMap, HeaderValue,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, IF_RANGE, RANGE},
};

/// The content codings that a client accepts: its `Accept-Encoding` (RFC 9110, section 12.5.3).
#[derive(Clone, Debug, Default)]
pub(super) struct AcceptEncoding {
    /// Empty without such a header: any coding is then acceptable.
    sent: Vec<HeaderValue>,
}

impl AcceptEncoding {
    /// Changes the headers to ask for a complete response without encoding, which fits every repetition.
    /// Returns what the client accepts.
    pub(super) fn ask_for_plain(headers: &mut HeaderMap) -> Self {
        let sent = headers.get_all(ACCEPT_ENCODING).iter().cloned().collect();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.remove(RANGE);
        headers.remove(IF_RANGE);
        Self { sent }
    }

    /// Returns whether the client accepts a response with these headers.
    pub(super) fn accepts(&self, answer: &HeaderMap) -> bool {
        let mut codings = list(answer.get_all(CONTENT_ENCODING).iter());
        self.sent.is_empty() || codings.all(|coding| self.accepts_coding(coding))
    }

    fn accepts_coding(&self, coding: &[u8]) -> bool {
        let coding = canonical(coding);
        if coding.eq_ignore_ascii_case(b"identity") {
            return true;
        }
        let weight_of = |name: &[u8]| {
            list(self.sent.iter()).find_map(|entry| {
                let mut parts = entry.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
                let is_named = canonical(parts.next()?).eq_ignore_ascii_case(name);
                is_named.then(|| parts.all(|weight| !forbids(weight)))
            })
        };
        weight_of(coding).or_else(|| weight_of(b"*")).unwrap_or(false)
    }
}

/// The members of a header that is a list.
fn list<'a>(values: impl Iterator<Item = &'a HeaderValue>) -> impl Iterator<Item = &'a [u8]> {
    values
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|member| !member.is_empty())
}

/// Two codings have old names too (RFC 9110, section 8.4.1).
fn canonical(coding: &[u8]) -> &[u8] {
    match coding.split_at_checked(2) {
        Some((b"x-" | b"X-", name))
            if name.eq_ignore_ascii_case(b"gzip") || name.eq_ignore_ascii_case(b"compress") =>
        {
            name
        }
        _ => coding,
    }
}

/// Returns whether a weight is zero or invalid.
fn forbids(weight: &[u8]) -> bool {
    let Some((b"q=" | b"Q=", weight)) = weight.split_at_checked(2) else { return true };
    let weight = std::str::from_utf8(weight).ok().and_then(|weight| weight.parse::<f32>().ok());
    !weight.is_some_and(|weight| weight > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &http::HeaderName, values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    /// Whether a client that sent this accepts an answer with that `content-encoding`.
    fn accepts(sent: &[&'static str], encoding: &'static str) -> bool {
        let mut request = headers(&ACCEPT_ENCODING, sent);
        let accepts = AcceptEncoding::ask_for_plain(&mut request);
        accepts.accepts(&headers(&CONTENT_ENCODING, &[encoding]))
    }

    #[test]
    fn service_sees_identity_without_range() {
        let mut request = headers(&ACCEPT_ENCODING, &["gzip", "br"]);
        request.extend(headers(&RANGE, &["bytes=0-9"]));
        request.extend(headers(&IF_RANGE, &["\"x\""]));
        AcceptEncoding::ask_for_plain(&mut request);
        assert_eq!(request, headers(&ACCEPT_ENCODING, &["identity"]));
    }

    #[test]
    fn identity_is_always_accepted() {
        for sent in [&[][..], &["gzip"], &[""], &["identity;q=0"]] {
            let mut request = headers(&ACCEPT_ENCODING, sent);
            let accepts = AcceptEncoding::ask_for_plain(&mut request);
            assert!(accepts.accepts(&HeaderMap::new()), "{sent:?}");
            assert!(accepts.accepts(&headers(&CONTENT_ENCODING, &["identity"])), "{sent:?}");
        }
    }

    #[test]
    fn accept_encoding_decides() {
        for sent in [
            &[][..],
            &["gzip"],
            &["br, GZIP ; q=0.5"],
            &["br", "gzip"],
            &["*"],
            &["x-gzip"],
            &["*;q=0, gzip"],
            &["gzip;Q=1"],
        ] {
            assert!(accepts(sent, "gzip") && accepts(sent, "X-Gzip"), "{sent:?}");
        }
        for sent in [
            &[""][..],
            &["identity"],
            &["br"],
            &["gzip;q=0"],
            &["gzip;q=0.000, *"],
            &["*;q=0"],
            &["gzip;q=x"],
            &["gzip;level=1"],
        ] {
            assert!(!accepts(sent, "gzip"), "{sent:?}");
        }
    }

    #[test]
    fn other_codings_keep_their_prefix() {
        assert!(accepts(&["x-br"], "X-BR"));
        assert!(!accepts(&["br"], "x-br") && !accepts(&["x-br"], "br"));
    }

    #[test]
    fn every_coding_must_be_accepted() {
        assert!(accepts(&["gzip, br"], "br, gzip"));
        assert!(!accepts(&["gzip"], "br, gzip"));
    }
}
