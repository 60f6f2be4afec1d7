//! Errors of a configuration.

use std::{fmt, io, sync::Arc, time::Duration};

/// An invalid configuration. Nothing was sent to any server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// No node was configured.
    NoNodes,
    /// A server was configured twice, so it would vote twice.
    DuplicateNode {
        /// Its name, `host:port`.
        node: String,
    },
    /// A URL has none of the forms that [`RedlockBuilder::nodes`](crate::RedlockBuilder::nodes)
    /// accepts, or an address that was given in place of one can't be used.
    InvalidUrl {
        /// Its position among the URLs, from 1.
        number: usize,
        /// Its scheme, if it is one of those; any other part may be the password. `given as an
        /// address` if there is no URL.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A `rediss://` URL needs the feature `tls` of this crate.
    TlsNotBuilt {
        /// The URL without user and password.
        url: String,
    },
    /// The certificates or the key of the TLS options are unusable.
    Tls {
        /// What is wrong with them.
        reason: String,
    },
    /// A setting is out of its range.
    InvalidSetting {
        /// The setting's name.
        setting: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The TTL is not longer than what is set aside for clocks, so no lease would ever be valid.
    TtlUnderDrift {
        /// The TTL.
        ttl: Duration,
        /// What is set aside: `drift_factor` × the longer of the TTL and 3 s, + 2 ms; without servers
        /// × the TTL.
        drift: Duration,
    },
    /// The operating system failed to provide a thread or random numbers.
    System(Arc<io::Error>),
}

impl BuildError {
    pub(crate) fn setting(setting: &'static str, reason: impl Into<String>) -> Self {
        Self::InvalidSetting { setting, reason: reason.into() }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNodes => f.write_str("no nodes: configure at least one server, or three or five to tolerate one or two failures"),
            Self::DuplicateNode { node } => {
                write!(f, "node {node} is configured twice; one server must not vote twice")
            }
            Self::InvalidUrl { number, url, reason } => {
                write!(f, "node URL {number} ({url}) is not usable: {reason}")
            }
            Self::TlsNotBuilt { url } => {
                write!(f, "{url} needs TLS: enable the feature `tls` of tower-redlock")
            }
            Self::Tls { reason } => write!(f, "unusable TLS options: {reason}"),
            Self::InvalidSetting { setting, reason } => write!(f, "{setting}: {reason}"),
            Self::TtlUnderDrift { ttl, drift } => write!(
                f,
                "ttl: {ttl:?} is not longer than the {drift:?} set aside for clock drift"
            ),
            Self::System(error) => write!(f, "the operating system refused: {error}"),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System(error) => Some(&**error),
            _ => None,
        }
    }
}
