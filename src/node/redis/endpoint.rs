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
     and redis+unix:///path";

impl Endpoint {
    pub(crate) fn parse(url: &str) -> Result<Self, BuildError> {
        let url = url.trim();
        let shown = without_password(url);
        let invalid = |reason: String| BuildError::InvalidUrl { url: shown.clone(), reason };
        let (scheme, rest) = url
            .split_once("://")
            .ok_or_else(|| invalid("it has no scheme; redis://host:port is one".into()))?;
        let tls = match scheme {
            "redis" | "redis+unix" => false,
            "rediss" => true,
            other => return Err(invalid(format!("unknown scheme {other}://"))),
        };
        if tls && cfg!(not(feature = "tls")) {
            return Err(BuildError::TlsNotBuilt { url: shown });
        }
        // TLS is done by our own connector, so the driver needs to know of the address only.
        let plain = if tls { format!("redis://{rest}") } else { url.to_owned() };
        let info = plain.as_str().into_connection_info().map_err(|_| invalid(FORM.into()))?;
        let address = match info.addr() {
            ConnectionAddr::Tcp(host, port) => {
                Address::Tcp { host: host.to_ascii_lowercase(), port: *port }
            }
            ConnectionAddr::Unix(path) => Address::Unix { path: path.clone() },
            _ => return Err(invalid("an address of this kind is not supported".into())),
        };
        let settings = info.redis_settings();
        let database = settings.db();
        if database < 0 {
            return Err(invalid(format!("database {database} is negative")));
        }
        let credentials = match (settings.username(), settings.password()) {
            (Some(user), Some(password)) => Some(Credentials::new(user, password)),
            (None, Some(password)) => Some(Credentials::password(password)),
            (Some(_), None) => return Err(invalid("it names a user but no password".into())),
            (None, None) => None,
        };
        let name = format!("{address}/{database}").into();
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

/// The URL without what may be a password: what stands before an `@`, in a query, or where a port
/// should be.
fn without_password(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    let (rest, query) = match rest.split_once('?') {
        Some((rest, _)) => (rest, "?***"),
        None => (rest, ""),
    };
    let shown = match rest.rsplit_once('@') {
        Some((_, host)) => format!("***@{host}"),
        None => match rest.split_once(':') {
            Some((host, port)) if !port.starts_with(|c: char| c.is_ascii_digit()) => {
                format!("{host}:***")
            }
            _ => rest.to_owned(),
        },
    };
    format!("{scheme}{shown}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_host_port_and_database_and_no_password() {
        let name = |url| Endpoint::parse(url).unwrap().name.to_string();
        assert_eq!(name("redis://10.0.0.1"), "10.0.0.1:6379/0");
        assert_eq!(name("redis://user:pw@db.example:7000/3"), "db.example:7000/3");
        assert_eq!(name("redis+unix:///run/redis.sock"), "/run/redis.sock/0");
        let endpoint = Endpoint::parse("redis://app:s3cret@h/0").unwrap();
        assert!(!format!("{endpoint:?}").contains("s3cret"));
    }

    #[test]
    fn malformed_urls_are_refused_without_showing_a_password() {
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
            let error = Endpoint::parse(url).unwrap_err().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    #[cfg(not(feature = "tls"))]
    fn tls_without_its_feature_is_refused() {
        let error = Endpoint::parse("rediss://h").unwrap_err();
        assert!(matches!(error, BuildError::TlsNotBuilt { .. }), "{error}");
    }
}
