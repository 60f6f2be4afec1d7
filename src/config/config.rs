//! Settings of a manager from a file.

use std::{fmt, path::PathBuf, time::Duration};

use serde::{Deserialize, Deserializer};

use super::{Buffered, NamedUrl, NodeUrl, SetNodes, node_list};
use crate::{
    error::BuildError,
    lock::{LockOptions, Overrun, Redlock, RedlockBuilder},
    node::redis::{Credentials, EvictionGuard, RestartGuard, TlsOptions},
};

/// The settings of a manager, from a file: any format that serde reads and that describes itself.
///
/// Durations are written as `"10s"` or `"250ms"`. Unknown keys are refused, so that a misspelt key
/// is not ignored. All keys except `nodes` are optional. The defaults and the meaning of the keys
/// are those of [`RedlockBuilder`]:
///
/// | key | form | default |
/// |---|---|---|
/// | `nodes` | list of URLs, or of `{ name = text, url = URL }`; or a text `URL,name=URL,…`, as in a variable of the environment | |
/// | `sets` | in place of `nodes`, the nodes of each set of [`Redlock::sharded`]: a list of such lists or texts, or a text `URL,URL;URL,URL` | none |
/// | `ttl` | duration | `"10s"` |
/// | `max_ttl` | duration | the TTL |
/// | `wait` | duration | `"0s"`: one attempt |
/// | `max_hold` | duration | `"5m"` |
/// | `linger` | duration | `"0s"`: released at once |
/// | `node_timeout` | duration | `"50ms"` |
/// | `drift_factor` | number from 0 to below 1 | `0.01` |
/// | `retry_delay` | `{ min = duration, max = duration }` | 5 to 40 ms |
/// | `wakeups` | boolean | `true` |
/// | `wait_without_quorum` | boolean | `false` for layers, `true` for other requests |
/// | `max_attempts` | number | no limit but the wait |
/// | `auto_extend` | boolean | `true` |
/// | `max_retry_after` | duration | `"30s"` |
/// | `owner` | text | `program@host:pid` |
/// | `key_prefix` | text | `redlock` |
/// | `fencing` | boolean | `true` |
/// | `restart_guard` | `"probation"` or `"off"` | `"probation"` |
/// | `assume_new_servers` | boolean; see [`RedlockBuilder::assume_new_servers`](crate::RedlockBuilder::assume_new_servers) | `false` |
/// | `accept_few_servers` | boolean: one or two servers are intended | `false`: a WARN |
/// | `eviction_guard` | `"warn"` or `"refuse"` | `"warn"` |
/// | `stop_margin` | duration | a tenth of the validity |
/// | `overrun` | `"warn"` or `"abort"` | `"warn"` |
/// | `max_waiters` | number | 1,000 |
/// | `max_waiters_in_total` | number | 10,000 |
/// | `handoff_limit` | number; 0: never | 20 |
/// | `max_waiting_body_bytes` | number | 67,108,864: 64 MiB |
/// | `max_records` | number | 4 million, by the servers' memory |
/// | `max_stored_response_bytes` | number; 0: no answers | 64 MiB, by the servers' memory |
/// | `username`, `password` | text | none; credentials in a URL go first |
/// | `password_file` | path of a file that is read again at every connect, in place of `password` | |
/// | `tls` | `{ ca, client_cert, client_key }`: paths of PEM files, which are read again at every connect; `server_name`: text | the system's certificates, the URL's host |
///
/// ```
/// use tower_redlock::{Config, Redlock};
///
/// let config: Config = toml::from_str(
///     r#"
///     nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]
///     ttl = "10s"
///     wait = "2s"
///     "#,
/// )?;
/// let redlock = Redlock::from_config(config)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// `figment`, `config` and other crates that merge files with variables of the environment read it as
/// a part of a service's settings. `figment` takes a variable of digits for a number: put a password of
/// digits in quotes (`APP_REDLOCK__PASSWORD='"007"'`).
///
/// A text from the environment is also read as the number or the boolean that it contains.
///
/// Errors about a `Config` name the setting and repeat no value. An error of the format's syntax is that of
/// its crate, which may repeat a line with a password: of `toml`'s error, show only `message()`.
#[derive(Clone, Default, Deserialize)]
// Derives a function `deserialize` of this type, which `Deserialize` calls.
#[serde(remote = "Self", default, deny_unknown_fields)]
pub struct Config {
    #[serde(deserialize_with = "node_list::read")]
    nodes: Vec<NodeUrl>,
    #[serde(deserialize_with = "node_list::read_sets")]
    sets: Vec<SetNodes>,
    #[serde(with = "humantime_serde")]
    ttl: Option<Duration>,
    #[serde(with = "humantime_serde")]
    max_ttl: Option<Duration>,
    #[serde(with = "humantime_serde")]
    wait: Option<Duration>,
    #[serde(with = "humantime_serde")]
    max_hold: Option<Duration>,
    #[serde(with = "humantime_serde")]
    linger: Option<Duration>,
    #[serde(with = "humantime_serde")]
    node_timeout: Option<Duration>,
    drift_factor: Option<f64>,
    retry_delay: Option<DelayRange>,
    wakeups: Option<bool>,
    wait_without_quorum: Option<bool>,
    max_attempts: Option<u32>,
    auto_extend: Option<bool>,
    #[serde(with = "humantime_serde")]
    max_retry_after: Option<Duration>,
    owner: Option<String>,
    key_prefix: Option<String>,
    fencing: Option<bool>,
    restart_guard: Option<RestartGuard>,
    assume_new_servers: Option<bool>,
    accept_few_servers: Option<bool>,
    eviction_guard: Option<EvictionGuard>,
    #[serde(with = "humantime_serde")]
    stop_margin: Option<Duration>,
    overrun: Option<Overrun>,
    max_waiters: Option<usize>,
    max_waiters_in_total: Option<usize>,
    handoff_limit: Option<u32>,
    max_waiting_body_bytes: Option<usize>,
    max_records: Option<usize>,
    max_stored_response_bytes: Option<usize>,
    username: Option<String>,
    password: Option<String>,
    password_file: Option<PathBuf>,
    tls: Option<TlsFiles>,
}

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(Buffered(deserializer))
    }
}

/// `{ min = "5ms", max = "40ms" }`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DelayRange {
    #[serde(with = "humantime_serde")]
    min: Duration,
    #[serde(with = "humantime_serde")]
    max: Duration,
}

/// Files in PEM form.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TlsFiles {
    ca: Option<PathBuf>,
    client_cert: Option<PathBuf>,
    client_key: Option<PathBuf>,
    server_name: Option<String>,
}

impl Redlock {
    /// Builds a manager as a [`Config`] describes it.
    ///
    /// # Errors
    ///
    /// [`BuildError`] for anything that [`RedlockBuilder::build`] refuses.
    pub fn from_config(config: Config) -> Result<Self, BuildError> {
        if config.sets.is_empty() {
            return config.into_builder()?.build();
        }
        Self::sharded(config.into_builders()?)
    }
}

impl Config {
    /// Returns the builder that this configuration describes, for settings that a file can't
    /// contain.
    ///
    /// # Errors
    ///
    /// [`BuildError::InvalidSetting`] for `sets`, which have a builder each
    /// ([`into_builders`](Self::into_builders)), for a user name without a password, and for a password
    /// that is given twice. Files are read by [`build`](RedlockBuilder::build).
    pub fn into_builder(self) -> Result<RedlockBuilder, BuildError> {
        // Without `..`: a setting that is left out below does not compile.
        let Self {
            nodes,
            sets,
            ttl,
            max_ttl,
            wait,
            max_hold,
            linger,
            node_timeout,
            drift_factor,
            retry_delay,
            wakeups,
            wait_without_quorum,
            max_attempts,
            auto_extend,
            max_retry_after,
            owner,
            key_prefix,
            fencing,
            restart_guard,
            assume_new_servers,
            accept_few_servers,
            eviction_guard,
            stop_margin,
            overrun,
            max_waiters,
            max_waiters_in_total,
            handoff_limit,
            max_waiting_body_bytes,
            max_records,
            max_stored_response_bytes,
            username,
            password,
            password_file,
            tls,
        } = self;
        if !sets.is_empty() {
            return Err(BuildError::setting("sets", "one manager over one set cannot have them"));
        }
        let mut builder = Redlock::builder();
        for node in nodes {
            builder = match node {
                NodeUrl::Plain(url) => builder.nodes([url]),
                NodeUrl::Named(NamedUrl { name, url }) => builder.named_node(name, url),
            };
        }
        macro_rules! set {
            ($($setting:ident),*) => {$(
                if let Some(value) = $setting {
                    builder = builder.$setting(value);
                }
            )*};
        }
        set!(ttl, max_ttl, wait, max_hold, linger, node_timeout, drift_factor);
        set!(wait_without_quorum);
        set!(max_attempts, owner, key_prefix, fencing, restart_guard, eviction_guard);
        set!(max_records, max_stored_response_bytes, max_waiting_body_bytes);
        set!(stop_margin, overrun, max_waiters, max_waiters_in_total, handoff_limit, wakeups);
        if assume_new_servers == Some(true) {
            builder = builder.assume_new_servers();
        }
        if accept_few_servers == Some(true) {
            builder = builder.accept_few_servers();
        }
        builder =
            builder.options(LockOptions { auto_extend, max_retry_after, ..LockOptions::new() });
        if let Some(DelayRange { min, max }) = retry_delay {
            builder = builder.retry_delay(min..=max);
        }
        let credentials = match (username, password, password_file) {
            (_, Some(_), Some(_)) => {
                let reason = "it conflicts with password_file: set only one of them";
                return Err(BuildError::setting("password", reason));
            }
            (Some(_), None, None) => {
                return Err(BuildError::setting("username", "it is given without a password"));
            }
            (Some(user), Some(password), None) => Some(Credentials::new(user, password)),
            (None, Some(password), None) => Some(Credentials::password(password)),
            (Some(user), None, Some(path)) => Some(Credentials::from_file(user, path)),
            (None, None, Some(path)) => Some(Credentials::password_from_file(path)),
            (None, None, None) => None,
        };
        if let Some(credentials) = credentials {
            builder = builder.credentials(credentials);
        }
        if let Some(TlsFiles { ca, client_cert, client_key, server_name }) = tls {
            let mut options = TlsOptions::new();
            (options.ca_file, options.server_name) = (ca, server_name);
            (options.client_cert_file, options.client_key_file) = (client_cert, client_key);
            builder = builder.tls(options);
        }
        Ok(builder)
    }
}

impl Config {
    /// Returns a builder for each of the `sets`, for [`Redlock::sharded`]; without `sets`, the one of
    /// [`into_builder`](Self::into_builder).
    ///
    /// # Errors
    ///
    /// [`BuildError::InvalidSetting`] for `sets` beside `nodes`, and the errors of
    /// [`into_builder`](Self::into_builder).
    pub fn into_builders(mut self) -> Result<Vec<RedlockBuilder>, BuildError> {
        let sets = std::mem::take(&mut self.sets);
        if sets.is_empty() {
            return Ok(vec![self.into_builder()?]);
        }
        if !self.nodes.is_empty() {
            return Err(BuildError::setting(
                "sets",
                "it conflicts with nodes: set only one of them",
            ));
        }
        let of_set = |SetNodes(nodes)| Self { nodes, ..self.clone() }.into_builder();
        sets.into_iter().map(of_set).collect()
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // URLs may contain passwords, so only their number is shown.
        f.debug_struct("Config")
            .field("nodes", &self.nodes.len())
            .field("sets", &self.sets.len())
            .field("ttl", &self.ttl)
            .field("wait", &self.wait)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
