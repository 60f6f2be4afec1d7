//! Parses a server's URL.

use std::sync::Arc;

use ::redis::{ConnectionAddr, IntoConnectionInfo};

use super::{Address, Credentials};
use crate::error::BuildError;

/// One server, as its URL names it.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: Address,
    #[cfg(feature = "tls")]
    pub(crate) tls: bool,
    pub(crate) database: i64,
    pub(crate) credentials: Option<Credentials>,
    /// `host:port/db`; what people see.
    pub(crate) name: Arc<str>,
}

const FORM: &str = "it does not parse; the forms are redis://[user:password@]host[:port][/database] \
     and redis+unix:///path[?user=…&pass=…&db=…]";

impl Endpoint {
    /// Reads a URL, the one of this `number` among those that were given.
    pub(crate) fn parse(number: usize, url: &str) -> Result<Self, BuildError> {
        let url = url.trim();
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let scheme = Scheme::parse(scheme);
        let invalid = |reason: &str| BuildError::InvalidUrl {
            number,
            // Any other part may be the password of a URL that is not as it should be.
            url: format!("{}***", scheme.map(Scheme::as_str).unwrap_or_default()),
            reason: reason.into(),
        };
        let scheme = scheme.ok_or_else(|| {
            invalid("it begins with none of redis://, rediss:// and redis+unix://")
        })?;
        check(scheme, rest).map_err(invalid)?;
        // TLS is done by our own connector, so the driver needs to know of the address only.
        let plain = format!("{}{rest}", scheme.without_tls().as_str());
        let info = plain.as_str().into_connection_info().map_err(|_| invalid(FORM))?;
        let address = match info.addr() {
            ConnectionAddr::Tcp(host, _) if !host.chars().all(is_of_host) => {
                return Err(invalid("its host is no name and no address"));
            }
            ConnectionAddr::Tcp(host, port) => {
                Address::Tcp { host: host.to_ascii_lowercase(), port: *port }
            }
            ConnectionAddr::Unix(path) => Address::Unix { path: path.clone() },
            _ => return Err(invalid("an address of this kind is not supported")),
        };
        let settings = info.redis_settings();
        let database = settings.db();
        if database < 0 {
            return Err(invalid("its database is negative"));
        }
        let credentials = match (settings.username(), settings.password()) {
            (Some(user), Some(password)) => Some(Credentials::new(user, password)),
            (None, Some(password)) => Some(Credentials::password(password)),
            (Some(_), None) => return Err(invalid("it names a user but no password")),
            (None, None) => None,
        };
        let tls = scheme == Scheme::Tls;
        if tls && cfg!(not(feature = "tls")) {
            return Err(BuildError::TlsNotBuilt { url: format!("rediss://{address}") });
        }
        let name: Arc<str> = format!("{address}/{database}").into();
        // The path of a socket may be percent-encoded.
        if name.contains(char::is_control) {
            return Err(invalid("it has a control character"));
        }
        Ok(Self {
            address,
            #[cfg(feature = "tls")]
            tls,
            database,
            credentials,
            name,
        })
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Scheme {
    Tcp,
    Tls,
    Unix,
}

impl Scheme {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "redis" => Some(Self::Tcp),
            "rediss" => Some(Self::Tls),
            "redis+unix" => Some(Self::Unix),
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "redis://",
            Self::Tls => "rediss://",
            Self::Unix => "redis+unix://",
        }
    }

    fn without_tls(self) -> Self {
        if self == Self::Tls { Self::Tcp } else { self }
    }

    /// The parameters that a URL may have after its `?`.
    fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::Tcp | Self::Tls => &["protocol"],
            Self::Unix => &["db", "user", "pass", "protocol"],
        }
    }
}

/// Refuses what a parser takes for something else than it was meant for: a part of a password for a
/// host, a port, a path or a parameter, which are shown or ignored.
fn check(scheme: Scheme, rest: &str) -> Result<(), &'static str> {
    if rest.contains(char::is_control) {
        return Err("it has a control character");
    }
    if rest.contains('#') {
        return Err("it has a #; in a password, write %23");
    }
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    if scheme == Scheme::Unix {
        if !place.starts_with('/') {
            return Err("the path of a socket begins with the third slash of redis+unix:///path");
        }
        if place.contains(['@', '&']) {
            return Err("the path of a socket has no @ and no &; credentials come after it, as \
                        ?user=…&pass=…");
        }
    } else {
        let path = place.split_once('/').map_or("", |(_, path)| path);
        if path.contains('@') || query.contains('@') {
            return Err("an @ comes after a / or a ?; in a password, write %2F and %3F");
        }
    }
    let is_known = |parameter: &str| {
        let name = parameter.split_once('=').map_or(parameter, |(name, _)| name);
        scheme.parameters().contains(&name)
    };
    if rest.contains('?') && !query.split('&').all(is_known) {
        return Err("it has an unknown parameter after the ?; in a password, write %3F for a ? \
                    and %26 for an &");
    }
    Ok(())
}

/// Of a name, an IPv4 or an IPv6 address.
fn is_of_host(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_omit_the_password() {
        let name = |url| Endpoint::parse(1, url).unwrap().name.to_string();
        assert_eq!(name("redis://10.0.0.1"), "10.0.0.1:6379/0");
        assert_eq!(name("redis://user:pw@db.example:7000/3"), "db.example:7000/3");
        assert_eq!(name("redis+unix:///run/redis.sock"), "/run/redis.sock/0");
        let endpoint = Endpoint::parse(1, "redis://app:s3cret@h/0").unwrap();
        assert!(!format!("{endpoint:?}").contains("s3cret"));
    }

    #[test]
    fn encoded_control_characters_are_refused() {
        let error = Endpoint::parse(1, "redis+unix:///run/a%0Ab.sock").unwrap_err().to_string();
        assert!(error.contains("control character"), "{error}");
    }

    #[test]
    fn malformed_urls_hide_the_password() {
        let bad = [
            "",
            "localhost:6379",
            "http://h",
            "redis://",
            "redis://h:notaport",
            "redis://u:s3cret@h:99999",
            "redis://default:s3cret",
            "redis+unix:///run/redis.sock?db=x&pass=s3cret",
            "redis://:s3cret@h/x",
            "u:s3cret@h",
        ];
        for url in bad {
            let error = Endpoint::parse(1, url).unwrap_err().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    #[cfg(not(feature = "tls"))]
    fn tls_without_its_feature_is_refused() {
        let error = Endpoint::parse(1, "rediss://h").unwrap_err();
        assert!(matches!(error, BuildError::TlsNotBuilt { .. }), "{error}");
    }
}
