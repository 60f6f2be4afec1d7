use std::{fmt, sync::Arc};

use http::{HeaderMap, HeaderName, header};

/// The headers of a response that are kept with it.
///
/// By default those that describe the body or say where the result is: `content-type`,
/// `content-encoding`, `content-language`, `content-location`, `content-disposition`, `location`,
/// `etag`, `last-modified` and `link`. Whatever tells of the one exchange is left away: a date, a
/// request's id, limits of rates, `retry-after`, what caches and browsers are told. Layers outside
/// give the replayed response its own.
///
/// Never kept, even if named: `set-cookie`, which would hand one session to all who know the key;
/// what belongs to a connection (`connection`, `keep-alive`, `proxy-connection`, `te`, `trailer`,
/// `transfer-encoding`, `upgrade`); and `content-length`, which the server writes anew.
#[derive(Clone)]
pub struct StoredHeaders {
    names: Arc<[HeaderName]>,
}

const DEFAULT: [HeaderName; 9] = [
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

const NEVER: [&str; 10] = [
    "set-cookie",
    "set-cookie2",
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
];

/// Whether a header may be kept at all.
pub(super) fn may_be_kept(name: &HeaderName) -> bool {
    !NEVER.contains(&name.as_str())
}

impl StoredHeaders {
    /// These headers and no others.
    ///
    /// # Panics
    ///
    /// If one of them is not the name of a header.
    pub fn only<I>(names: I) -> Self
    where
        I: IntoIterator,
        I::Item: TryInto<HeaderName, Error: fmt::Debug>,
    {
        let names = names.into_iter().map(|name| name.try_into().expect("a header's name"));
        Self { names: names.filter(may_be_kept).collect() }
    }

    /// One more header.
    ///
    /// ```
    /// use tower_redlock::once::StoredHeaders;
    ///
    /// let headers = StoredHeaders::default().and("x-payment-id");
    /// assert!(headers.contains(&"x-payment-id".parse().unwrap()));
    /// assert!(!headers.and("set-cookie").contains(&http::header::SET_COOKIE));
    /// ```
    ///
    /// # Panics
    ///
    /// If it is not the name of a header.
    #[must_use]
    pub fn and<N>(self, name: N) -> Self
    where
        N: TryInto<HeaderName, Error: fmt::Debug>,
    {
        let name = name.try_into().expect("a header's name");
        Self::only(self.names.iter().cloned().chain([name]))
    }

    /// Whether a header is kept.
    pub fn contains(&self, name: &HeaderName) -> bool {
        self.names.contains(name)
    }

    pub(super) fn of(&self, headers: &HeaderMap) -> HeaderMap {
        let mut kept = HeaderMap::new();
        for (name, value) in headers.iter().filter(|(name, _)| self.contains(name)) {
            kept.append(name, value.clone());
        }
        kept
    }
}

impl Default for StoredHeaders {
    fn default() -> Self {
        Self { names: DEFAULT.into() }
    }
}

impl fmt::Debug for StoredHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_and_what_belongs_to_a_connection_are_never_kept() {
        let mut headers = HeaderMap::new();
        for name in NEVER.into_iter().chain(["etag"]) {
            headers.append(name, "x".parse().unwrap());
        }
        let named = NEVER.into_iter().fold(StoredHeaders::default(), StoredHeaders::and);
        let asked = StoredHeaders::only(NEVER.into_iter().chain(["Etag"]));
        for kept in [named, asked, StoredHeaders::default()] {
            let kept = kept.of(&headers);
            assert_eq!(kept.keys().collect::<Vec<_>>(), ["etag"]);
        }
    }

    #[test]
    fn what_describes_the_body_is_kept_with_it_and_other_things_are_not() {
        let kept = StoredHeaders::default();
        for name in ["content-type", "content-encoding", "location", "etag", "link"] {
            assert!(kept.contains(&name.parse().unwrap()), "{name}");
        }
        for name in ["date", "x-request-id", "retry-after", "cache-control", "www-authenticate"] {
            assert!(!kept.contains(&name.parse().unwrap()), "{name}");
        }
        let one = StoredHeaders::only([header::ETAG]);
        assert!(one.contains(&header::ETAG) && !one.contains(&header::LOCATION));
        assert!(one.and("X-Payment").contains(&"x-payment".parse().unwrap()));
    }

    #[test]
    #[should_panic(expected = "a header's name")]
    fn what_is_no_name_of_a_header_is_refused_at_once() {
        let _ = StoredHeaders::default().and("a b");
    }
}
