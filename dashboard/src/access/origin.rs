//! Requests that a page of another site sent.

use http::{
    HeaderMap, Uri,
    header::{HOST, HeaderName, ORIGIN},
    request::Parts,
};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const SEC_PURPOSE: HeaderName = HeaderName::from_static("sec-purpose");

/// Whether a browser sent the request on behalf of another origin.
///
/// Browsers send `Sec-Fetch-Site` (W3C, *Fetch Metadata Request Headers*) over TLS and to loopback, and `Origin`
/// with each POST (RFC 6454, section 7). A client that sends neither is not a browser.
pub(crate) fn is_cross_origin(request: &Parts) -> bool {
    let headers = &request.headers;
    if let Some(is_foreign) = is_foreign(headers) {
        return is_foreign;
    }
    let Some(origin) = headers.get(ORIGIN) else { return false };
    let Some(host) = host(headers, &request.uri) else { return true };
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    !origin.is_some_and(|(_, origin)| origin.eq_ignore_ascii_case(host))
}

/// Whether a page of another origin has the browser load something in the background: an image, a script, a frame,
/// a prefetch. A viewer that follows a link from another site opens a document instead.
///
/// The other page may not read the answer, but the request would have the servers asked.
pub(crate) fn is_loaded_by_another_origin(request: &Parts) -> bool {
    let headers = &request.headers;
    let is = |name: &HeaderName, value: &str| headers.get(name).is_some_and(|sent| sent == value);
    let opens_document = is(&SEC_FETCH_MODE, "navigate")
        && is(&SEC_FETCH_DEST, "document")
        && !headers.contains_key(SEC_PURPOSE);
    is_foreign(headers) == Some(true) && !opens_document
}

/// Whether the browser says that another origin caused the request; `None` if it says nothing.
fn is_foreign(headers: &HeaderMap) -> Option<bool> {
    headers.get(SEC_FETCH_SITE).map(|site| site != "same-origin" && site != "none")
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
    fn links_from_other_sites_are_followed() {
        let is_refused = |headers: &[(&str, &str)]| {
            let request = Request::get("/once?key=a");
            let request = headers
                .iter()
                .fold(request, |request, (name, value)| request.header(*name, *value));
            is_loaded_by_another_origin(&request.body(()).unwrap().into_parts().0)
        };
        let (cross, same) = (("sec-fetch-site", "cross-site"), ("sec-fetch-site", "same-origin"));
        let site = ("sec-fetch-site", "same-site");
        let link = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        let frame = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
        let image = [("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")];

        assert!(!is_refused(&[]), "the client is not a browser");
        assert!(!is_refused(&[same, image[0], image[1]]));
        for foreign in [cross, site] {
            assert!(!is_refused(&[foreign, link[0], link[1]]), "{foreign:?}");
            assert!(is_refused(&[foreign, image[0], image[1]]), "{foreign:?}");
            assert!(is_refused(&[foreign, frame[0], frame[1]]), "{foreign:?}");
            assert!(is_refused(&[foreign, link[0], link[1], ("sec-purpose", "prefetch")]));
            assert!(is_refused(&[foreign]), "{foreign:?}");
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
