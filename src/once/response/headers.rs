//! The headers that are stored with a response.

use std::{fmt, sync::Arc};

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{self, CONNECTION},
};

/// The headers that are stored with a response. By default [`all`](Self::all).
///
/// Never stored, even if named:
///
/// * `set-cookie`, which would hand one session to every client that knows the key;
/// * headers of one connection (RFC 9110, section 7.6.1): `connection` and the headers that it
///   names, `keep-alive`, `proxy-connection`, `te`, `trailer`, `transfer-encoding`, `upgrade`,
///   `proxy-authenticate` and `proxy-authentication-info`;
/// * `date` and `content-length`, which the server sets.
///
/// Outer layers set their own headers, such as CORS or a request id, for each response.
///
/// ```
/// use tower_redlock::once::StoredHeaders;
///
/// let headers = StoredHeaders::all().except("x-upload-token");
/// assert!(headers.contains(&http::header::CACHE_CONTROL));
/// assert!(!headers.contains(&"x-upload-token".parse().unwrap()));
/// ```
#[derive(Clone)]
pub struct StoredHeaders {
    /// The stored headers, or the excluded ones.
    names: Arc<[HeaderName]>,
    /// Whether headers that are not named are stored.
    others: bool,
}

const REPRESENTATION: [HeaderName; 9] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LOCATION,
    header::CONTENT_DISPOSITION,
    header::LOCATION,
    header::ETAG,
    header::LAST_MODIFIED,
    header::LINK,
];

const NEVER: [&str; 13] = [
    "set-cookie",
    "set-cookie2",
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
    "date",
];

/// Returns whether a header may be stored at all.
pub(super) fn may_be_kept(name: &HeaderName) -> bool {
    !NEVER.contains(&name.as_str())
}

impl StoredHeaders {
    /// All headers but those that are [never stored](Self), and those with
    /// [sensitive](HeaderValue::set_sensitive) values.
    ///
    /// They are readable wherever the body is. Exclude a secret header by [`except`](Self::except), or
    /// mark its value as sensitive. They count towards [`response_limit`](crate::OnceLayer::response_limit).
    pub fn all() -> Self {
        Self { names: Arc::default(), others: true }
    }

    /// The headers that describe the body or locate the result: `content-type`, `content-encoding`,
    /// `content-language`, `content-location`, `content-disposition`, `location`, `etag`,
    /// `last-modified` and `link`.
    ///
    /// For responses whose other headers are large, secret, or valid only once (rate limits,
    /// `retry-after`). Headers for caches and browsers are then not replayed:
    /// `cache-control`, `vary`, `content-security-policy`, `x-content-type-options`.
    pub fn representation() -> Self {
        Self { names: REPRESENTATION.into(), others: false }
    }

    /// Only these headers.
    ///
    /// # Panics
    ///
    /// If one is not a valid header name.
    pub fn only<I>(names: I) -> Self
    where
        I: IntoIterator,
        I::Item: TryInto<HeaderName, Error: fmt::Debug>,
    {
        Self { names: names.into_iter().map(named).collect(), others: false }
    }

    /// Adds a header.
    ///
    /// ```
    /// use tower_redlock::once::StoredHeaders;
    ///
    /// let headers = StoredHeaders::representation().and("x-payment-id");
    /// assert!(headers.contains(&"x-payment-id".parse().unwrap()));
    /// assert!(!headers.and("set-cookie").contains(&http::header::SET_COOKIE));
    /// ```
    ///
    /// # Panics
    ///
    /// If it is not a valid header name.
    #[must_use]
    pub fn and<N>(self, name: N) -> Self
    where
        N: TryInto<HeaderName, Error: fmt::Debug>,
    {
        self.with(&named(name), true)
    }

    /// Removes a header.
    ///
    /// # Panics
    ///
    /// If it is not a valid header name.
    #[must_use]
    pub fn except<N>(self, name: N) -> Self
    where
        N: TryInto<HeaderName, Error: fmt::Debug>,
    {
        self.with(&named(name), false)
    }

    fn with(self, name: &HeaderName, is_kept: bool) -> Self {
        let rest = self.names.iter().filter(|known| *known != name).cloned();
        let names = rest.chain((is_kept != self.others).then(|| name.clone())).collect();
        Self { names, ..self }
    }

    /// Returns whether a header is stored.
    pub fn contains(&self, name: &HeaderName) -> bool {
        may_be_kept(name) && self.names.contains(name) != self.others
    }

    fn kept<'a>(
        &'a self,
        headers: &'a HeaderMap,
    ) -> impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)> {
        headers.iter().filter(|(name, value)| {
            self.contains(name)
                && !(self.others && value.is_sensitive())
                && !is_of_hop(headers, name)
        })
    }

    /// Returns the size of the stored headers, names and values, in bytes.
    pub(in crate::once) fn size(&self, headers: &HeaderMap) -> usize {
        self.kept(headers).map(|(name, value)| name.as_str().len() + value.len()).sum()
    }

    pub(super) fn of(&self, headers: &HeaderMap) -> HeaderMap {
        let mut kept = HeaderMap::new();
        for (name, value) in self.kept(headers) {
            kept.append(name, value.clone());
        }
        kept
    }
}

fn named<N: TryInto<HeaderName, Error: fmt::Debug>>(name: N) -> HeaderName {
    name.try_into().expect("a header's name")
}

/// Returns whether `connection` names the header.
fn is_of_hop(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.get_all(CONNECTION).iter().any(|options| {
        let mut options = options.as_bytes().split(|byte| *byte == b',');
        options.any(|option| option.trim_ascii().eq_ignore_ascii_case(name.as_str().as_bytes()))
    })
}

/// [`StoredHeaders::all`].
impl Default for StoredHeaders {
    fn default() -> Self {
        Self::all()
    }
}

impl fmt::Debug for StoredHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = if self.others { "except" } else { "only" };
        f.debug_struct("StoredHeaders").field(names, &self.names).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(names: &[&'static str]) -> HeaderMap {
        let pair =
            |name: &&'static str| (HeaderName::from_static(name), HeaderValue::from_static("x"));
        names.iter().map(pair).collect()
    }

    fn kept(stored: &StoredHeaders, headers: &HeaderMap) -> Vec<String> {
        stored.of(headers).keys().map(ToString::to_string).collect()
    }

    #[test]
    fn sessions_and_connections_are_never_kept() {
        let mut all = headers(&NEVER);
        all.append(header::ETAG, HeaderValue::from_static("x"));
        let named = NEVER.into_iter().fold(StoredHeaders::representation(), StoredHeaders::and);
        let asked = StoredHeaders::only(NEVER.into_iter().chain(["Etag"]));
        let any = NEVER.into_iter().fold(StoredHeaders::all(), StoredHeaders::and);
        for stored in [named, asked, any, StoredHeaders::default()] {
            assert_eq!(kept(&stored, &all), ["etag"], "{stored:?}");
        }
    }

    #[test]
    fn all_others_are_kept_by_default() {
        let names = ["cache-control", "content-security-policy", "retry-after", "vary", "x-own"];
        let mut found = kept(&StoredHeaders::default(), &headers(&names));
        found.sort_unstable();
        assert_eq!(found, names);
    }

    #[test]
    fn what_connection_names_is_not_kept() {
        let mut all = headers(&["etag", "x-hop", "x-other", "x-end"]);
        all.append(CONNECTION, HeaderValue::from_static("close, X-Hop"));
        all.append(CONNECTION, HeaderValue::from_static("x-other"));
        for stored in [StoredHeaders::all(), StoredHeaders::only(["etag", "x-hop", "x-end"])] {
            let mut found = kept(&stored, &all);
            found.sort_unstable();
            assert_eq!(found, ["etag", "x-end"], "{stored:?}");
        }
    }

    #[test]
    fn sensitive_values_must_be_named() {
        let mut all = headers(&["etag", "x-token"]);
        all.get_mut("x-token").unwrap().set_sensitive(true);
        assert_eq!(kept(&StoredHeaders::all(), &all), ["etag"]);
        assert_eq!(kept(&StoredHeaders::only(["x-token"]), &all), ["x-token"]);
    }

    #[test]
    fn representation_is_what_describes_the_body() {
        let stored = StoredHeaders::representation();
        for name in ["content-type", "content-encoding", "location", "etag", "link"] {
            assert!(stored.contains(&name.parse().unwrap()), "{name}");
        }
        for name in ["date", "x-request-id", "retry-after", "cache-control", "www-authenticate"] {
            assert!(!stored.contains(&name.parse().unwrap()), "{name}");
        }
    }

    #[test]
    fn last_call_per_header_wins() {
        let own = HeaderName::from_static("x-own");
        for stored in [StoredHeaders::all(), StoredHeaders::only([header::ETAG])] {
            assert!(stored.contains(&header::ETAG));
            let with = stored.clone().except("x-own").and("X-Own");
            assert!(with.contains(&own), "{with:?}");
            let without = stored.and("x-own").except("X-Own");
            assert!(!without.contains(&own) && without.contains(&header::ETAG), "{without:?}");
        }
    }

    #[test]
    fn names_and_values_count_as_size() {
        let all = headers(&["etag", "set-cookie", "x-own"]);
        assert_eq!(StoredHeaders::all().size(&all), "etagxx-ownx".len());
        assert_eq!(StoredHeaders::only(["etag"]).size(&all), "etagx".len());
    }

    #[test]
    #[should_panic(expected = "a header's name")]
    fn invalid_header_name_panics() {
        let _ = StoredHeaders::default().and("a b");
    }
}
