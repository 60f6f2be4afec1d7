//! How a worker builds its client.

use std::fs;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tower_redlock::Redlock;
use tower_redlock::node::redis::{Credentials, RestartGuard, TlsOptions};
use tower_redlock_verify::locks::Locks;
use tower_redlock_verify::plain::{Plain, PlainOptions, Url};

use super::hosts::Hosts;
use super::options::WorkerOptions;
use crate::cell::{Client, NODE_TIMEOUT, PREFIX, SERVERS, TTL};
use crate::server::{USER, certificate};

/// Short, so that there are requests after servers have forgotten a lock and before its holder has
/// renewed it.
const RETRY_DELAY: RangeInclusive<Duration> = Duration::from_millis(5)..=Duration::from_millis(20);

/// The name in the servers' certificates.
const TLS_NAME: &str = "redis.test";

pub(super) fn locks(options: &WorkerOptions) -> Result<Locks, String> {
    match options.client {
        Client::Plain => Ok(Locks::Plain(Arc::new(plain(options)))),
        _ => redlock(options).map(Locks::Redlock),
    }
}

fn redlock(options: &WorkerOptions) -> Result<Redlock, String> {
    let scheme = if options.tls { "rediss" } else { "redis" };
    let mut builder = Redlock::builder()
        .nodes((0..SERVERS).map(|server| format!("{scheme}://node-{server}")))
        .connector(Hosts::new(&options.hosts))
        .credentials(Credentials::from_file(USER, &options.password))
        .ttl(TTL)
        .max_ttl(TTL)
        .node_timeout(NODE_TIMEOUT)
        .retry_delay(RETRY_DELAY)
        .key_prefix(PREFIX)
        .owner(format!("worker {}", options.worker));
    if options.client == Client::Unguarded {
        builder = builder.restart_guard(RestartGuard::Off);
    }
    if options.tls {
        builder =
            builder.tls(TlsOptions::new().ca_file(certificate("ca.pem")).server_name(TLS_NAME));
    }
    builder.build().map_err(|error| error.to_string())
}

fn plain(options: &WorkerOptions) -> Plain {
    let url = |server: usize| {
        let (hosts, file) = (Hosts::new(&options.hosts), options.password.clone());
        Box::new(move || {
            let address = hosts.resolve(&format!("node-{server}"));
            let address = address.map_err(|error| error.to_string())?;
            let password = fs::read_to_string(&file).map_err(|error| error.to_string())?;
            Ok(format!("redis://{USER}:{password}@{address}"))
        }) as Url
    };
    let seed = u64::try_from(options.worker).expect("a small number");
    let plain =
        PlainOptions { ttl: TTL, node_timeout: NODE_TIMEOUT, prefix: PREFIX, lifetime: None, seed };
    Plain::new((0..SERVERS).map(url), plain)
}
