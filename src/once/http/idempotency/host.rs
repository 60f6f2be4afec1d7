//! The host that a request was sent to.

use std::borrow::Cow;

use http::{header::HOST, uri::Authority};

use crate::{key::RequestHead, layer::KeyError};

/// Returns the authority of a request's target, normalized: its URI's (HTTP/2, and HTTP/1 in the absolute
/// form), else the `Host` header (RFC 9112, section 3.2.2). Empty if it has neither, as HTTP/1.0 allows.
///
/// Letters are lower-case, and a port that the scheme implies is left out (RFC 9110, section 4.2.3),
/// if the scheme is known; requests over HTTP/1 rarely state it.
pub(super) fn authority(head: &RequestHead<'_>) -> Result<String, KeyError> {
    let uri = head.uri();
    let sent = match uri.authority() {
        Some(authority) => Cow::Borrowed(authority),
        None => match of_header(head)? {
            Some(authority) => Cow::Owned(authority),
            None => return Ok(String::new()),
        },
    };
    normalized(&sent, uri.scheme_str()).ok_or_else(no_host)
}

fn of_header(head: &RequestHead<'_>) -> Result<Option<Authority>, KeyError> {
    let mut hosts = head.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => Ok(None),
        (Some(host), None) if host.is_empty() => Ok(None),
        (Some(host), None) => Authority::try_from(host.as_bytes()).map(Some).map_err(|_| no_host()),
        (Some(_), Some(_)) => Err(KeyError::new("there is more than one header host")),
    }
}

fn no_host() -> KeyError {
    KeyError::new("the request's host is not a host with an optional port")
}

/// Returns `None` for userinfo, an empty host with a port, or an invalid port.
fn normalized(sent: &Authority, scheme: Option<&str>) -> Option<String> {
    let (text, host) = (sent.as_str(), sent.host());
    let port = match text.strip_prefix(host)?.strip_prefix(':') {
        _ if host.is_empty() => return None,
        None if text.len() > host.len() => return None,
        None | Some("") => None,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(digits.parse::<u16>().ok()?)
        }
        Some(_) => return None,
    };
    let implied = match scheme {
        Some("http") => Some(80),
        Some("https") => Some(443),
        _ => None,
    };
    let host = host.to_ascii_lowercase();
    match port {
        Some(port) if Some(port) != implied => Some(format!("{host}:{port}")),
        _ => Some(host),
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn of(uri: &str, hosts: &[&str]) -> Result<String, KeyError> {
        let mut request = Request::post(uri);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        authority(&RequestHead::from(&request.body(()).unwrap()))
    }

    #[test]
    fn the_uri_goes_before_the_header() {
        assert_eq!(of("http://a.example/x", &["b.example"]), Ok("a.example".into()));
        assert_eq!(of("/x", &["b.example"]), Ok("b.example".into()));
    }

    #[test]
    fn spellings_of_one_host_are_one() {
        for uri in [
            "http://a.example",
            "http://A.Example:80/",
            "http://a.example:/",
            "http://a.example:080/",
        ] {
            assert_eq!(of(uri, &[]), Ok("a.example".into()), "{uri}");
        }
        assert_eq!(of("https://a.example:443/", &[]), Ok("a.example".into()));
        assert_eq!(of("/", &["A.example:"]), Ok("a.example".into()));
        assert_eq!(of("/", &["[2001:DB8::1]:8080"]), Ok("[2001:db8::1]:8080".into()));
    }

    #[test]
    fn other_ports_stay() {
        assert_eq!(of("https://a.example:80/", &[]), Ok("a.example:80".into()));
        assert_eq!(of("http://a.example:443/", &[]), Ok("a.example:443".into()));
        // Over HTTP/1 nothing tells which port is implied.
        assert_eq!(of("/", &["a.example:443"]), Ok("a.example:443".into()));
    }

    #[test]
    fn missing_host_is_empty() {
        assert_eq!(of("/", &[]), Ok(String::new()));
        assert_eq!(of("/", &[""]), Ok(String::new()));
    }

    #[test]
    fn anything_else_is_refused() {
        let ports = ["a.example:x", "a.example:65536", "a.example:+80", ":80"];
        for host in
            ["a b", "a/b", "user@a.example", "a@a", "[::1]a", "a, b"].into_iter().chain(ports)
        {
            assert!(of("/", &[host]).is_err(), "{host}");
        }
        assert!(of("/", &["a.example", "a.example"]).is_err());
        assert!(of("http://user@a.example/", &[]).is_err());
    }
}
