//! Viewers that reach the pages by an address, not by a name.

use std::net::IpAddr;

use http::{
    header::HOST,
    request::Parts,
    uri::{Authority, Uri},
};

use super::{Authorize, Viewer};

const REFUSED: &str = "These pages are shown to viewers that open them by an IP address or as localhost, as \
                       http://127.0.0.1 with the port. Under another name, a page of another site could read them.";

/// Gives the same access to each viewer that addresses the server by an IP address or as `localhost`. A request
/// under another name, or without one, is answered 403.
///
/// For pages without authentication that listen on loopback. A page of another site can have the browser connect
/// to loopback, by a name of its own that it lets resolve to 127.0.0.1 (DNS rebinding): to the browser this is
/// that site's server, so the page may read the answers and send forms. The `Host` of such a request is the
/// name.
///
/// ```
/// use tower_redlock::Redlock;
/// use tower_redlock_dashboard::{Access, Dashboard, by_address};
///
/// # let redlock = Redlock::embedded();
/// let dashboard = Dashboard::new(redlock).access(by_address(Access::ReadOnly));
/// ```
pub fn by_address(viewer: impl Into<Viewer>) -> impl Authorize {
    let viewer = viewer.into();
    move |request: &Parts| {
        if is_address(request) { viewer.clone() } else { Viewer::refused(REFUSED) }
    }
}

/// Whether there is a host, and each that the request names is an address.
fn is_address(request: &Parts) -> bool {
    let hosts = request.headers.get_all(HOST).iter().map(|host| host.to_str().ok());
    // HTTP/2 has the authority in its place, and a request to a proxy has both.
    let authority = Uri::authority(&request.uri).map(Authority::as_str);
    let mut all = hosts.chain(authority.map(Some)).peekable();
    all.peek().is_some() && all.all(|host| host.is_some_and(is_host_address))
}

fn is_host_address(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host();
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    // The part before an `@` names a user.
    !host.contains('@')
        && (bare.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost"))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::Access;

    fn viewer(uri: &str, hosts: &[&str]) -> Viewer {
        let request = Request::get(uri);
        let request = hosts.iter().fold(request, |request, host| request.header(HOST, *host));
        let parts = request.body(()).unwrap().into_parts().0;
        by_address(Access::All.by("all")).viewer(&parts)
    }

    #[test]
    fn addresses_have_access() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:8700",
            "10.1.2.3:80",
            "[::1]",
            "[::1]:8700",
            "[::ffff:127.0.0.1]:1",
            "localhost",
            "LocalHost:8700",
        ] {
            assert_eq!(viewer("/", &[host]), Access::All.by("all"), "{host}");
        }
        assert_eq!(viewer("http://127.0.0.1:8700/", &[]), Access::All.by("all"));
    }

    #[test]
    fn names_are_refused() {
        for host in [
            "",
            "evil.example",
            "evil.example:8700",
            "127.0.0.1.evil.example",
            "localhost.evil.example:8700",
            "evil.localhost",
            "127.0.0.1@evil.example",
            "evil.example@127.0.0.1",
            "127.0.0.1, evil.example",
            "127.0.0.1:8700:evil",
            "[evil]",
            "::1",
            "2130706433",
            "127.1",
        ] {
            assert_eq!(viewer("/", &[host]), Viewer::refused(REFUSED), "{host}");
        }
    }

    #[test]
    fn each_host_is_checked() {
        let access = |uri, hosts: &[&str]| viewer(uri, hosts).access();
        assert_eq!(access("/", &[]), Access::Forbidden);
        assert_eq!(access("/", &["127.0.0.1", "evil.example"]), Access::Forbidden);
        assert_eq!(access("http://evil.example/", &["127.0.0.1"]), Access::Forbidden);
        assert_eq!(access("http://127.0.0.1/", &["evil.example"]), Access::Forbidden);
    }
}
