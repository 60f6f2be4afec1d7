//! How a worker builds its client.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tower_redlock::Redlock;
use tower_redlock::node::redis::{Credentials, RestartGuard, TlsOptions};
use tower_redlock_verify::locks::{Locks, NODE_TIMEOUT, TTL, builder};
use tower_redlock_verify::plain::{Plain, PlainOptions, Url};
use tower_redlock_verify::worker;

use crate::cell::{Client, PREFIX, SERVERS};
use crate::fixture::{USER, certificate};
use crate::hosts::Hosts;

/// The name in the servers' certificates.
const TLS_NAME: &str = "redis.test";

/// What a worker needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientOptions {
    pub(crate) client: Client,
    /// File of the servers' names and addresses.
    pub(crate) hosts: PathBuf,
    /// File of the password.
    pub(crate) password: PathBuf,
    pub(crate) tls: bool,
}

impl ClientOptions {
    pub(crate) fn to_words(&self) -> Vec<String> {
        let (hosts, password) = (self.hosts.display(), self.password.display());
        let words = [self.client.name(), &hosts.to_string(), &password.to_string()];
        words.into_iter().map(str::to_owned).chain([self.tls.to_string()]).collect()
    }

    fn from_words(words: &[String]) -> Option<Self> {
        let [client, hosts, password, tls] = words else { return None };
        let client = Client::of_name(client)?;
        let tls = tls.parse().ok()?;
        Some(Self { client, hosts: hosts.into(), password: password.into(), tls })
    }
}

pub(crate) fn connect(worker: usize, words: &[String]) -> Result<worker::Client, String> {
    let options = ClientOptions::from_words(words).ok_or("invalid options of a client")?;
    let locks = match options.client {
        Client::Plain => Locks::Plain(Arc::new(plain(worker, &options))),
        _ => Locks::Redlock(redlock(worker, &options)?),
    };
    Ok(worker::Client { locks, manner: options.client.manner(worker) })
}

fn redlock(worker: usize, options: &ClientOptions) -> Result<Redlock, String> {
    let scheme = if options.tls { "rediss" } else { "redis" };
    let mut builder = builder(worker, PREFIX)
        .nodes((0..SERVERS).map(|server| format!("{scheme}://node-{server}")))
        .connector(Hosts::new(&options.hosts))
        .credentials(Credentials::from_file(USER, &options.password));
    if options.client == Client::Unguarded {
        builder = builder.restart_guard(RestartGuard::Off);
    }
    if options.tls {
        builder =
            builder.tls(TlsOptions::new().ca_file(certificate("ca.pem")).server_name(TLS_NAME));
    }
    builder.build().map_err(|error| error.to_string())
}

fn plain(worker: usize, options: &ClientOptions) -> Plain {
    let url = |server: usize| {
        let (hosts, file) = (Hosts::new(&options.hosts), options.password.clone());
        Box::new(move || url(&hosts, &file, server)) as Url
    };
    let seed = u64::try_from(worker).expect("a small number");
    let plain =
        PlainOptions { ttl: TTL, node_timeout: NODE_TIMEOUT, prefix: PREFIX, lifetime: None, seed };
    Plain::new((0..SERVERS).map(url), plain)
}

fn url(hosts: &Hosts, password: &Path, server: usize) -> Result<String, String> {
    let address = hosts.resolve(&format!("node-{server}"));
    let address: SocketAddr = address.map_err(|error| error.to_string())?;
    let password = fs::read_to_string(password).map_err(|error| error.to_string())?;
    Ok(format!("redis://{USER}:{password}@{address}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_round_trip() {
        for client in Client::ALL {
            let (hosts, password) = ("/a/hosts".into(), "/a/password".into());
            let options = ClientOptions { client, hosts, password, tls: true };
            assert_eq!(ClientOptions::from_words(&options.to_words()), Some(options));
        }
    }
}
