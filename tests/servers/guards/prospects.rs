//! The prospects of a set whose servers do not vote, by the reason: whether waiting ends, and the
//! advice of a diagnosis.

use std::net::ToSocketAddrs;

use futures_util::future::join_all;
use tower_redlock::{
    Redlock, RedlockBuilder,
    diagnosis::Severity,
    error::{Reason, UnfitServer},
    node::{
        NodeState,
        redis::{Credentials, EvictionGuard},
    },
};

#[cfg(feature = "tls")]
use crate::tls;
use crate::{
    failures::refusing::{old_server, replica_of},
    fixture::{
        FakeServer, HANG_GUARD, RedisServer, Resp, Sentinels,
        guard::{MAX_TTL, guarded, quick},
        in_time, over,
    },
};

/// The expectations for a set of nodes that all do not vote for the same reason.
struct Row {
    urls: Vec<String>,
    set: fn(RedlockBuilder) -> RedlockBuilder,
    is_reason: fn(&Reason) -> bool,
    code: &'static str,
    heals: bool,
}

impl Row {
    /// A set that never votes.
    fn lasting(urls: Vec<String>, code: &'static str, is_reason: fn(&Reason) -> bool) -> Self {
        Self { urls, set: |builder| builder, is_reason, code, heals: false }
    }

    /// Waits for the set, until it votes or several `max_ttl` have passed, and diagnoses it.
    async fn check(self, redlock: &Redlock) {
        let Self { urls, is_reason, code, heals, .. } = self;
        let why = if heals {
            in_time(redlock.ready_within(3 * MAX_TTL)).await.unwrap_err()
        } else {
            // Has no limit, as the test checks that it ends.
            tokio::time::timeout(12 * HANG_GUARD, redlock.ready()).await.unwrap().unwrap_err()
        };
        assert_eq!(why.heals, heals, "{urls:?}: {why}");
        for node in &why.nodes {
            let (NodeState::Down { reason, .. } | NodeState::Refusing { reason, .. }) = &node.state
            else {
                panic!("{node:?}");
            };
            assert!(is_reason(reason), "{reason:?}");
        }
        assert_eq!(why.to_string().matches("(do: ").count(), 1, "{why}");
        assert_eq!(why.to_string().contains("waiting does not help"), !heals, "{why}");
        let diagnosis = redlock.diagnosis().await;
        let of_nodes = diagnosis
            .advice
            .iter()
            .filter(|advice| advice.node.is_some() && advice.severity == Severity::Problem);
        let codes: Vec<_> = of_nodes.map(|advice| advice.code).collect();
        assert_eq!(codes, vec![code; why.nodes.len()], "{:?}", diagnosis.advice);
        for secret in ["s3cret", "wr0ng"] {
            assert!(!why.to_string().contains(secret), "{why}");
        }
    }

    async fn holds(self) {
        let redlock = (self.set)(guarded(quick(), self.urls.clone())).build().unwrap();
        self.check(&redlock).await;
    }
}

fn of(servers: &[RedisServer], url: impl Fn(&RedisServer) -> String) -> Vec<String> {
    servers.iter().map(url).collect()
}

#[tokio::test]
async fn wrong_settings_last() {
    let servers = RedisServer::start_n(3);
    for server in &servers {
        let rules = ["on", ">s3cret", "~*", "&*", "+@all", "-@scripting"];
        let answer = server.cli(&[&["ACL", "SETUSER", "app"], &rules[..]].concat());
        assert_eq!(answer, Resp::Simple("OK".into()));
    }
    let limits = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    let evicting = [(); 3].map(|()| RedisServer::with(&limits));
    let old = [old_server(), old_server(), old_server()];
    // If no resolver answers, the name of a host may still have an address.
    let host = "host.invalid:6379";
    let is_resolver_up = !host.to_socket_addrs().unwrap_err().to_string().contains("emporary");
    let needless_password = of(&servers, |server| format!("redis://:s3cret@{}", server.addr()));
    let no_database = of(&servers, |server| format!("redis://{}/99", server.addr()));
    let denied = of(&servers, |server| format!("redis://app:s3cret@{}", server.addr()));
    let mut rows = vec![
        Row::lasting(needless_password, "auth", |it| matches!(it, Reason::Auth(_))),
        Row::lasting(no_database, "unfit-server", |it| {
            matches!(it, Reason::Unfit(_)) && it.to_string().contains("database")
        }),
        Row::lasting(denied, "permission", |it| matches!(it, Reason::NoPermission(_))),
        Row {
            set: |builder| builder.eviction_guard(EvictionGuard::Refuse),
            ..Row::lasting(of(&evicting, RedisServer::plain_url), "evicts", |it| {
                matches!(it, Reason::Evicts { .. })
            })
        },
        Row {
            set: |builder| {
                let none = || async { Err("no identity for this machine".into()) };
                builder.credentials(Credentials::callback(none))
            },
            ..Row::lasting(of(&servers, RedisServer::plain_url), "no-credentials", |it| {
                matches!(it, Reason::Auth(_))
            })
        },
        Row::lasting(old.iter().map(FakeServer::url).collect(), "version", |it| {
            it.to_string().contains("too old")
        }),
    ];
    if is_resolver_up {
        let urls = vec![format!("redis://{host}")];
        rows.push(Row::lasting(urls, "not-located", |it| matches!(it, Reason::NotLocated(_))));
    }
    join_all(rows.into_iter().map(Row::holds)).await;
}

#[tokio::test]
async fn wrong_sentinels_last() {
    let (sentinels, refusing) = (Sentinels::start(), Sentinels::with(Some("s3cret")));
    let as_nodes = sentinels.addresses().iter().map(|at| format!("redis://{at}")).collect();
    let without_password = vec![Sentinels::url_over(refusing.addresses())];
    let rows = [
        Row::lasting(as_nodes, "unfit-server", |it| *it == Reason::Unfit(UnfitServer::Sentinel)),
        Row::lasting(without_password, "not-located", |it| matches!(it, Reason::NotLocated(_))),
        Row::lasting(vec![format!("{}-x", sentinels.url())], "not-located", |it| {
            matches!(it, Reason::NotLocated(_)) && it.to_string().contains("no master")
        }),
    ];
    join_all(rows.map(Row::holds)).await;
}

#[tokio::test]
async fn missing_replicas_heal() {
    let servers = RedisServer::start_n(3);
    for server in &servers {
        server.set_config("min-replicas-to-write", "1");
    }
    let urls = of(&servers, RedisServer::plain_url);
    let redlock = guarded(quick(), urls.clone()).build().unwrap();
    let row = Row::lasting(urls, "no-replicas", |it| *it == Reason::NoReplicas);
    Row { heals: true, ..row }.check(&redlock).await;

    for server in &servers {
        server.set_config("min-replicas-to-write", "0");
    }
    in_time(redlock.ready()).await.unwrap();
}

#[tokio::test]
async fn replicas_heal_by_promotion() {
    let masters = RedisServer::start_n(3);
    let replicas: Vec<_> = masters.iter().map(replica_of).collect();
    let urls = of(&replicas, RedisServer::plain_url);
    let redlock = guarded(quick(), urls.clone()).build().unwrap();
    let row = Row::lasting(urls, "replica", |it| *it == Reason::ReadOnly);
    Row { heals: true, ..row }.check(&redlock).await;

    for replica in &replicas {
        replica.promote();
    }
    in_time(redlock.ready()).await.unwrap();
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn unknown_authorities_last() {
    let Some((_server, port)) = tls::server("no") else { return };
    let urls = vec![format!("rediss://localhost:{}", port.number())];
    let redlock = over(quick(), urls.clone()).tls(tls::trusting(tls::STRANGER_CA)).build();
    let row = Row::lasting(urls, "tls", |it| matches!(it, Reason::Tls(_)));
    row.check(&redlock.unwrap()).await;
}

/// The server waits for the end of a command, like a server that hangs.
#[cfg(feature = "tls")]
#[tokio::test]
async fn servers_without_tls_are_silent() {
    let server = RedisServer::start();
    let urls = vec![format!("rediss://{}", server.addr())];
    let redlock = over(quick(), urls.clone()).tls(tls::trusting(tls::CA)).build().unwrap();
    let row = Row::lasting(urls, "hung", |it| it.to_string().contains("may not speak TLS"));
    Row { heals: true, ..row }.check(&redlock).await;
}
