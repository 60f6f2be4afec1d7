//! Settings that all nodes of a manager share: guards, credentials, timeouts.

use std::{fmt, sync::Arc, time::Duration};

use super::{Connector, Credentials, Endpoint, SocketConnector, TlsOptions};
use crate::{error::BuildError, events::Events, time::Clock};

/// Settings shared by all nodes of a set.
#[derive(Clone, Debug)]
pub(crate) struct RedisSettings {
    pub(crate) prefix: Arc<str>,
    pub(crate) guards: Guards,
    pub(crate) max_ttl: Duration,
    pub(crate) drift_factor: f64,
    pub(crate) node_timeout: Duration,
    pub(crate) access: Access,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) events: Arc<Events>,
}

/// The means to open a connection.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// Credentials for servers whose URL has none.
    pub(crate) credentials: Option<Credentials>,
    pub(crate) connector: Arc<dyn Connector>,
    #[cfg(feature = "tls")]
    pub(crate) tls: super::tls::TlsConfig,
}

/// The connection settings of a builder, before they are checked.
pub(crate) struct AccessOptions {
    pub(crate) credentials: Option<Credentials>,
    pub(crate) tls: Option<TlsOptions>,
    pub(crate) connector: Arc<dyn Connector>,
}

impl Default for AccessOptions {
    fn default() -> Self {
        Self { credentials: None, tls: None, connector: Arc::new(SocketConnector::new()) }
    }
}

impl AccessOptions {
    /// # Errors
    ///
    /// [`BuildError`] for credentials that cannot be used, and for TLS options that are invalid or need the
    /// feature `tls`.
    #[cfg_attr(not(feature = "tls"), expect(unused_variables, reason = "only TLS depends on them"))]
    pub(crate) fn check(self, endpoints: &[Endpoint]) -> Result<Access, BuildError> {
        if let Some(Err(reason)) = self.credentials.as_ref().map(Credentials::check) {
            return Err(BuildError::setting("credentials", &*reason));
        }
        #[cfg(not(feature = "tls"))]
        if self.tls.is_some() {
            let reason = "enable the feature `tls` of tower-redlock to use TLS options".into();
            return Err(BuildError::Tls { reason });
        }
        Ok(Access {
            #[cfg(feature = "tls")]
            tls: super::tls_config(self.tls.as_ref(), endpoints)?,
            credentials: self.credentials,
            connector: self.connector,
        })
    }
}

/// How servers that restart, lose their data or return to older data are handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum RestartGuard {
    /// Such a server does not vote until every lock that it may have forgotten has expired: after
    /// `max_ttl` and the drift allowance, counted by each client separately. A new set waits once
    /// as well, as it cannot be distinguished from a set that lost everything.
    #[default]
    Probation,
    /// Servers vote at once, even if they forgot locks. For disposable servers and tests.
    Off,
}

/// How servers that may evict keys are handled: servers with a memory limit and a policy other than
/// `noeviction`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "config", derive(serde::Deserialize), serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum EvictionGuard {
    /// They vote, and are reported at WARN and in [`NodeHealth`](crate::node::NodeHealth).
    #[default]
    Warn,
    /// They don't vote.
    Refuse,
}

/// The guards of a manager; all of its nodes have the same.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Guards {
    pub(crate) restart: RestartGuard,
    pub(crate) eviction: EvictionGuard,
    /// Whether servers without a record of a vote are taken as new.
    pub(crate) assumes_new_servers: bool,
    /// Whether one or two servers are intended.
    pub(crate) accepts_few_servers: bool,
}

impl fmt::Display for RestartGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Probation => "on",
            Self::Off => "off",
        })
    }
}
