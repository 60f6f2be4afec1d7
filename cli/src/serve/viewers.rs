//! The users of the pages, their access, and the names under which the pages are served.

use std::{
    env,
    ffi::OsString,
    fs,
    net::{IpAddr, SocketAddr},
    path::Path,
};

use hyper::http::{
    header::HOST,
    request::Parts,
    uri::{Authority, Uri},
};
use tower_redlock_dashboard::{Access, Authorize, BasicAuth, Dashboard, Viewer, by_address};

use super::{activity::Activity, args::ServeArgs};
use crate::{exit::Failure, output::say};

const PASSWORD: &str = "REDLOCK_SERVE_PASSWORD";

const REFUSED: &str = "These pages are shown to viewers that open them by an IP address or as localhost, or under a name of \
                       the option --host. Under another name, a page of another site could read them.";

/// The users of the pages.
#[derive(Debug)]
pub(super) struct Viewers {
    /// The user with a password. `None`: every user of this machine may read.
    user: Option<BasicAuth>,
    /// `None`: every name is accepted.
    hosts: Option<Hosts>,
}

impl Viewers {
    /// Reads the password. Warns of a password that is not used or not encrypted.
    pub(super) fn new(args: &ServeArgs) -> Result<Self, Failure> {
        let is_open = !is_loopback(args.listen);
        let hosts = (!is_open || !args.host.is_empty()).then(|| Hosts(args.host.clone()));
        let Some(user) = &args.user else {
            if is_open {
                return Err(Failure::usage(format!(
                    "{} is not a loopback address: without a password, pages are served on loopback only. Give \
                     --user, and the password in --password-file or {PASSWORD}",
                    args.listen
                )));
            }
            if env::var_os(PASSWORD).is_some() {
                say(&format!("redlock: {PASSWORD} is not used without --user"));
            }
            return Ok(Self { user: None, hosts });
        };
        if user.is_empty() || user.contains(':') || user.contains(char::is_control) {
            let message = "--user: a name is not empty, and has no colon and no control character";
            return Err(Failure::usage(message));
        }
        let password = match &args.password_file {
            Some(file) => of_file(file)?,
            None => of_variable(env::var_os(PASSWORD))?,
        };
        if is_open {
            say(&format!(
                "redlock: {} is not a loopback address: the password travels in the clear, unless a proxy in front \
                 adds TLS",
                args.listen
            ));
        }
        let access = if args.read_only { Access::ReadOnly } else { Access::All };
        let user = BasicAuth::new("redlock").user(user.as_str(), &password, access);
        Ok(Self { user: Some(user), hosts })
    }

    /// Gives them access.
    pub(super) fn admit(self, dashboard: Dashboard) -> Dashboard {
        dashboard.access(move |request: &Parts| self.viewer(request))
    }

    fn viewer(&self, request: &Parts) -> Viewer {
        // Before the password: a page under a foreign name must not try any.
        if self.hosts.as_ref().is_some_and(|hosts| !hosts.include(request)) {
            return Viewer::refused(REFUSED);
        }
        let reader = || Access::ReadOnly.into();
        let viewer = self.user.as_ref().map_or_else(reader, |user| user.viewer(request));
        if viewer.access() != Access::Forbidden
            && let Some(activity) = request.extensions.get::<Activity>()
        {
            activity.admit();
        }
        viewer
    }
}

/// The names under which requests are accepted, beside IP addresses and `localhost`. A page of another site can have
/// a name of its own resolve to the address of this server (DNS rebinding): see [`by_address`].
#[derive(Debug)]
struct Hosts(Vec<String>);

impl Hosts {
    fn include(&self, request: &Parts) -> bool {
        by_address(Access::ReadOnly).viewer(request).access() != Access::Forbidden
            || self.name_each_of(request)
    }

    /// Whether there is a host, and each that the request names has one of the names.
    fn name_each_of(&self, request: &Parts) -> bool {
        let hosts = request.headers.get_all(HOST).iter().map(|host| host.to_str().ok());
        // HTTP/2 has the authority in its place, and a request to a proxy has both.
        let authority = Uri::authority(&request.uri).map(Authority::as_str);
        let mut all = hosts.chain(authority.map(Some)).peekable();
        all.peek().is_some() && all.all(|host| host.is_some_and(|host| self.has(host)))
    }

    fn has(&self, host: &str) -> bool {
        // The part before an `@` names a user.
        let authority = host.parse::<Authority>().ok().filter(|_| !host.contains('@'));
        let is = |name: &String| {
            authority.as_ref().is_some_and(|host| name.eq_ignore_ascii_case(host.host()))
        };
        self.0.iter().any(is)
    }
}

fn is_loopback(address: SocketAddr) -> bool {
    // A loopback address of IPv4 within IPv6 is one, too.
    IpAddr::to_canonical(&address.ip()).is_loopback()
}

/// Returns the first line.
fn of_file(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let text = fs::read_to_string(path);
    let text = text.map_err(|error| Failure::config(format!("{shown}: {error}")))?;
    match text.lines().next() {
        Some(password) if !password.is_empty() => Ok(password.to_owned()),
        _ => Err(Failure::usage(format!(
            "{shown}: the first line is empty; it must be the password"
        ))),
    }
}

fn of_variable(value: Option<OsString>) -> Result<String, Failure> {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Err(Failure::usage(format!(
            "no password for --user: give it in the first line of --password-file, or in {PASSWORD}"
        )));
    };
    let not_text = |_| Failure::usage(format!("{PASSWORD} is not UTF-8"));
    value.into_string().map_err(not_text)
}

#[cfg(test)]
mod tests {
    use hyper::http::Request;

    use super::*;

    #[test]
    fn loopback_addresses_are_known() {
        for address in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(is_loopback(address.parse().unwrap()), "{address}");
        }
        for address in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:10.0.0.1]:1", "[fe80::1]:1"] {
            assert!(!is_loopback(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn given_names_are_accepted() {
        let hosts = Hosts(vec!["locks.example".into()]);
        let includes = |uri: &str, sent: &[&str]| {
            let request = Request::get(uri);
            let request = sent.iter().fold(request, |request, host| request.header(HOST, *host));
            hosts.include(&request.body(()).unwrap().into_parts().0)
        };
        for host in ["locks.example", "Locks.example:8443", "127.0.0.1:8700", "localhost", "[::1]"]
        {
            assert!(includes("/", &[host]), "{host}");
        }
        assert!(includes("http://locks.example/", &[]));
        for host in ["", "evil.example", "x@locks.example", "locks.example.evil", "a.locks.example"]
        {
            assert!(!includes("/", &[host]), "{host}");
        }
        assert!(!includes("/", &[]));
        assert!(!includes("/", &["locks.example", "evil.example"]));
        assert!(!includes("http://evil.example/", &["locks.example"]));
    }

    #[test]
    fn missing_password_is_wrong_usage() {
        assert_eq!(of_variable(Some("pass word ".into())).unwrap(), "pass word ");
        for value in [None, Some(OsString::new())] {
            let failure = of_variable(value).unwrap_err();
            assert_eq!(failure.code, crate::exit::USAGE);
            assert!(failure.message.contains(PASSWORD), "{}", failure.message);
        }
    }
}
