//! Requests that a page of another site sent.

use http::{
    HeaderMap, Uri,
    header::{HOST, HeaderName, ORIGIN},
    request::Parts,
};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether a browser sent the request on behalf of another origin.
///
/// Browsers send `Sec-Fetch-Site` (W3C, *Fetch Metadata Request Headers*) over TLS and to loopback, and `Origin`
/// with each POST (RFC 6454, section 7). A client that sends neither is not a browser.
pub(crate) fn is_cross_origin(request: &Parts) -> bool {
    let headers = &request.headers;
    if let Some(site) = headers.get(SEC_FETCH_SITE) {
        return site != "same-origin" && site != "none";
    }
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let Some(host) = host(headers, &request.uri) else { return true };
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    !origin.is_some_and(|(_, origin)| origin.eq_ignore_ascii_case(host))
}

fn host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    // HTTP/2 has the authority in its place.
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    host.or_else(|| uri.authority().map(http::uri::Authority::as_str))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn is_refused(headers: &[(&str, &str)]) -> bool {
        let mut request = Request::post("/break");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        is_cross_origin(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn site_decides_first() {
        let foreign = ("origin", "https://evil.example");
        assert!(!is_refused(&[("sec-fetch-site", "same-origin"), foreign]));
        assert!(!is_refused(&[("sec-fetch-site", "none")]));
        for site in ["cross-site", "same-site", "", "else"] {
            assert!(is_refused(&[("sec-fetch-site", site)]), "{site}");
        }
    }

    #[test]
    fn origin_is_compared_with_host() {
        let host = ("host", "locks.example:8080");
        assert!(!is_refused(&[host, ("origin", "http://Locks.example:8080")]));
        for origin in ["http://locks.example", "http://evil.example:8080", "null", ""] {
            assert!(is_refused(&[host, ("origin", origin)]), "{origin}");
        }
        assert!(is_refused(&[("origin", "http://locks.example")]));
        // No browser.
        assert!(!is_refused(&[host]));
    }
}
