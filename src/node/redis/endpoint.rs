//! The location of a node's server: its URL, or the URL of a directory that reports it.

use std::sync::Arc;

use ::redis::{ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo};

use super::{
    Address, Credentials,
    directory::{AllowedHosts, Directory, DirectoryKind, Location},
    node_address::{AddressForm, NodeAddress},
};
use crate::error::{BuildError, Reason};

/// One node, as named by its URL.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) place: Place,
    /// Whether the server uses TLS; never without the feature.
    pub(crate) tls: bool,
    /// The name that the server's certificate must have; `None` for the host of its address.
    #[cfg(feature = "tls")]
    pub(super) certificate_name: Option<Address>,
    pub(crate) database: i64,
    pub(crate) credentials: Option<Credentials>,
    /// `host:port/db`, for display.
    pub(crate) name: Arc<str>,
}

/// The way to find a node's server.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// A fixed address.
    Fixed(Address),
    /// The address that a directory reports.
    Named(Arc<Directory>),
}

const URL_FORMS: &str = "it does not parse; the forms are redis://[user:password@]host[:port][/database], \
     redis+unix:///path[?user=…&pass=…&db=…], \
     redis+sentinel://[user:password@]host[:port][,host…]/service[/database] and \
     redis+cluster://[user:password@]host[:port][,host…]";

/// Default port of Sentinels.
const SENTINEL_PORT: u16 = 26_379;

impl Endpoint {
    /// Parses the address given for a node, at position `number`.
    pub(crate) fn new(number: usize, address: &NodeAddress) -> Result<Self, BuildError> {
        let invalid = |reason: &str| BuildError::InvalidUrl {
            number,
            url: "given as an address".into(),
            reason: reason.into(),
        };
        match &address.0 {
            AddressForm::Url(url) => Self::parse(number, url),
            AddressForm::Server { address, login } => {
                Self::at_server(address, login, false, invalid)
            }
        }
    }

    /// Parses a URL, at position `number` among the given URLs.
    pub(crate) fn parse(number: usize, url: &str) -> Result<Self, BuildError> {
        let url = url.trim();
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let scheme = Scheme::parse(scheme);
        let invalid = |reason: &str| BuildError::InvalidUrl {
            number,
            // Any other part may be the password of a malformed URL.
            url: format!("{}***", scheme.map(Scheme::as_str).unwrap_or_default()),
            reason: reason.into(),
        };
        let scheme = scheme.ok_or_else(|| {
            invalid(
                "it begins with none of redis://, rediss://, redis+unix://, redis+sentinel://, \
                 rediss+sentinel://, redis+cluster:// and rediss+cluster://",
            )
        })?;
        check(scheme, rest).map_err(invalid)?;
        if scheme.is_named() {
            return Self::parse_named(number, scheme, rest).map_err(|error| match error {
                // The error of a part of the URL, which was parsed as a URL by itself.
                BuildError::InvalidUrl { reason, .. } => invalid(&reason),
                other => other,
            });
        }
        // The crate's own connector does TLS, so the redis crate gets the address only.
        let plain = format!("{}{rest}", scheme.without_tls().as_str());
        let info = plain.as_str().into_connection_info().map_err(|_| invalid(URL_FORMS))?;
        Self::at_server(info.addr(), info.redis_settings(), scheme.is_tls(), invalid)
    }

    /// Converts the redis crate's description of a server. With `tls`, a plain address uses TLS
    /// too.
    fn at_server(
        address: &ConnectionAddr,
        login: &RedisConnectionInfo,
        mut tls: bool,
        invalid: impl Fn(&str) -> BuildError,
    ) -> Result<Self, BuildError> {
        let (host, port) = match address {
            ConnectionAddr::Tcp(host, port) => (host, *port),
            ConnectionAddr::TcpTls { insecure: true, .. } => {
                return Err(invalid(
                    "it does not verify the server's certificate (insecure); give the certificate of its \
                     authority to RedlockBuilder::tls",
                ));
            }
            ConnectionAddr::TcpTls { tls_params: Some(_), .. } => {
                return Err(invalid(
                    "its certificates can't be read from it; give them to RedlockBuilder::tls, and this \
                     server by URL or ConnectionAddr",
                ));
            }
            ConnectionAddr::TcpTls { host, port, .. } => {
                tls = true;
                (host, *port)
            }
            ConnectionAddr::Unix(path) => {
                return Self::logged_in(Address::Unix { path: path.clone() }, login, tls, invalid);
            }
            _ => return Err(invalid("an address of this kind is not supported")),
        };
        if !Address::is_host(host) {
            return Err(invalid("its host is neither a name nor an address"));
        }
        Self::logged_in(Address::Tcp { host: host.to_ascii_lowercase(), port }, login, tls, invalid)
    }

    /// Adds database, user and password to an address.
    fn logged_in(
        address: Address,
        login: &RedisConnectionInfo,
        tls: bool,
        invalid: impl Fn(&str) -> BuildError,
    ) -> Result<Self, BuildError> {
        let database = login.db();
        if database < 0 {
            return Err(invalid("its database is negative"));
        }
        let credentials = match (login.username(), login.password()) {
            (Some(user), Some(password)) => Some(Credentials::new(user, password)),
            (None, Some(password)) => Some(Credentials::password(password)),
            (Some(_), None) => return Err(invalid("it names a user but no password")),
            (None, None) => None,
        };
        if tls && cfg!(not(feature = "tls")) {
            return Err(BuildError::TlsNotBuilt { url: format!("rediss://{address}") });
        }
        let name: Arc<str> = format!("{address}/{database}").into();
        // The path of a socket may be percent-encoded.
        if name.contains(char::is_control) {
            return Err(invalid("it has a control character"));
        }
        Ok(Self {
            place: Place::Fixed(address),
            tls,
            #[cfg(feature = "tls")]
            certificate_name: None,
            database,
            credentials,
            name,
        })
    }

    /// Parses the part of a URL of Sentinels or of a Cluster that follows the scheme.
    fn parse_named(number: usize, scheme: Scheme, rest: &str) -> Result<Self, BuildError> {
        let invalid = |reason: &str| BuildError::InvalidUrl {
            number,
            url: String::new(),
            reason: reason.into(),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = authority
            .rsplit_once('@')
            .map_or(("", authority), |(user, hosts)| (&authority[..=user.len()], hosts));
        let (service, database) = path.split_once('/').unwrap_or((path, ""));
        let is_sentinel = matches!(scheme, Scheme::Sentinel { .. });
        if is_sentinel && (service.is_empty() || !service.chars().all(is_of_service)) {
            return Err(invalid(
                "the path after the Sentinels is not the name of a master: letters, digits, '.', '-' and '_'",
            ));
        }
        if !is_sentinel && !path.is_empty() {
            return Err(invalid("a Cluster has only one database: leave out its number"));
        }
        let plain = if scheme.is_tls() { Scheme::Tls } else { Scheme::Tcp }.as_str();
        let mut parts = Vec::new();
        for host in hosts.split(',') {
            if host.ends_with(':') {
                return Err(invalid("a host ends with a ':' but has no port"));
            }
            let port = if is_sentinel && !has_port(host) {
                format!(":{SENTINEL_PORT}")
            } else {
                String::new()
            };
            parts.push(Self::parse(number, &format!("{plain}{user}{host}{port}/{database}"))?);
        }
        let mut servers: Vec<_> = parts.iter().filter_map(|part| part.address().cloned()).collect();
        servers.sort_unstable_by_key(ToString::to_string);
        servers.dedup();
        let names = servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let Some(first) = parts.pop() else { return Err(invalid(URL_FORMS)) };
        // Whether the queried servers use TLS; the scheme decides for the node itself.
        let mut is_tls = scheme.is_tls();
        let (kind, name, credentials) = if is_sentinel {
            let kind = DirectoryKind::Sentinel { service: service.into() };
            let credentials = sentinel_credentials(number, plain, query)?;
            is_tls = match parameter(query, "sentinel_tls") {
                None => is_tls,
                Some("yes") => true,
                Some("no") => false,
                Some(_) => return Err(invalid("its sentinel_tls is neither yes nor no")),
            };
            (kind, format!("{service}@{names}/{}", first.database), credentials)
        } else {
            (DirectoryKind::Cluster, format!("cluster@{names}"), first.credentials.clone())
        };
        if is_tls && cfg!(not(feature = "tls")) {
            return Err(BuildError::TlsNotBuilt { url: format!("rediss://{names}") });
        }
        let hosts = match parameter(query, "hosts") {
            None => AllowedHosts::default(),
            Some(list) => AllowedHosts::parse(list).ok_or_else(|| {
                invalid(
                    "its hosts are not a list of host names, addresses, *.domain or 10.0.*, with commas",
                )
            })?,
        };
        let directory = Directory::new(kind, servers, is_tls, credentials, hosts);
        Ok(Self { place: Place::Named(Arc::new(directory)), name: name.into(), ..first })
    }

    /// Creates the endpoint of a server without a database or a name of its own. `certificate_name`
    /// is the host name that its address was resolved from, if any.
    pub(super) fn at(
        address: Address,
        #[cfg_attr(not(feature = "tls"), expect(unused_variables, reason = "never used"))]
        certificate_name: Option<&Address>,
        tls: bool,
        credentials: Option<Credentials>,
    ) -> Self {
        let name = address.to_string().into();
        Self {
            place: Place::Fixed(address),
            tls,
            #[cfg(feature = "tls")]
            certificate_name: certificate_name.cloned(),
            database: 0,
            credentials,
            name,
        }
    }

    /// Returns the address, unless it may change.
    pub(crate) fn address(&self) -> Option<&Address> {
        match &self.place {
            Place::Fixed(address) => Some(address),
            Place::Named(_) => None,
        }
    }

    pub(crate) fn directory(&self) -> Option<&Arc<Directory>> {
        match &self.place {
            Place::Fixed(_) => None,
            Place::Named(directory) => Some(directory),
        }
    }

    /// Returns whether the node's server, or the servers of its directory, use TLS.
    #[cfg(feature = "tls")]
    pub(super) fn uses_tls(&self) -> bool {
        self.tls || self.directory().is_some_and(|directory| directory.tls)
    }

    /// Returns the current location of the server.
    pub(super) async fn locate(&self) -> Result<Location, Reason> {
        match &self.place {
            Place::Fixed(address) => {
                Ok(Location { address: address.clone(), epoch: 0, is_fresh: true })
            }
            Place::Named(directory) => directory.locate().await,
        }
    }

    /// Waits until the server is reported at another location than this one; pending without a
    /// location.
    pub(super) async fn left(&self, location: Option<&Location>) -> Reason {
        match (&self.place, location) {
            (Place::Named(directory), Some(location)) => {
                Reason::Moved { to: directory.left(location).await.to_string().into() }
            }
            _ => std::future::pending().await,
        }
    }
}

/// Returns the value of a parameter of a URL.
fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|parameter| parameter.strip_prefix(name)?.strip_prefix('='))
}

/// Returns `sentinel_user` and `sentinel_pass`, which are percent-encoded like a user and a
/// password before an `@`.
fn sentinel_credentials(
    number: usize,
    plain: &str,
    query: &str,
) -> Result<Option<Credentials>, BuildError> {
    match (parameter(query, "sentinel_user"), parameter(query, "sentinel_pass")) {
        (None, None) => Ok(None),
        (user, password) => {
            let url = format!("{plain}{}:{}@h", user.unwrap_or(""), password.unwrap_or(""));
            Endpoint::parse(number, &url).map(|endpoint| endpoint.credentials)
        }
    }
}

/// Returns whether a character may be in the name of a master; Sentinels define the set.
fn is_of_service(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')
}

/// Returns whether a host has a port. An IPv6 address is in brackets.
fn has_port(host: &str) -> bool {
    host.rsplit_once(']').map_or(host, |(_, port)| port).contains(':')
}

#[derive(Clone, Copy, PartialEq)]
enum Scheme {
    Tcp,
    Tls,
    Unix,
    Sentinel { tls: bool },
    Cluster { tls: bool },
}

impl Scheme {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "redis" => Some(Self::Tcp),
            "rediss" => Some(Self::Tls),
            "redis+unix" => Some(Self::Unix),
            "redis+sentinel" => Some(Self::Sentinel { tls: false }),
            "rediss+sentinel" => Some(Self::Sentinel { tls: true }),
            "redis+cluster" => Some(Self::Cluster { tls: false }),
            "rediss+cluster" => Some(Self::Cluster { tls: true }),
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "redis://",
            Self::Tls => "rediss://",
            Self::Unix => "redis+unix://",
            Self::Sentinel { tls: false } => "redis+sentinel://",
            Self::Sentinel { tls: true } => "rediss+sentinel://",
            Self::Cluster { tls: false } => "redis+cluster://",
            Self::Cluster { tls: true } => "rediss+cluster://",
        }
    }

    fn without_tls(self) -> Self {
        if self == Self::Tls { Self::Tcp } else { self }
    }

    fn is_tls(self) -> bool {
        matches!(self, Self::Tls | Self::Sentinel { tls: true } | Self::Cluster { tls: true })
    }

    /// Returns whether the server's location is reported by other servers.
    fn is_named(self) -> bool {
        matches!(self, Self::Sentinel { .. } | Self::Cluster { .. })
    }

    /// The parameters that a URL may have after its `?`.
    fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::Tcp | Self::Tls => &["protocol"],
            Self::Unix => &["db", "user", "pass", "protocol"],
            Self::Sentinel { .. } => &["sentinel_user", "sentinel_pass", "sentinel_tls", "hosts"],
            Self::Cluster { .. } => &["hosts"],
        }
    }
}

/// Refuses a URL in which a parser would misread a part of the password as a host, a port, a path
/// or a parameter. These are shown or ignored.
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
    #[cfg(not(feature = "tls"))]
    fn tls_without_its_feature_is_refused() {
        let error = Endpoint::parse(1, "rediss://u:s3cret@h").unwrap_err();
        assert!(matches!(error, BuildError::TlsNotBuilt { .. }), "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
    }
}
