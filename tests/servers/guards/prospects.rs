//! The prospects of a set whose servers do not vote, by the reason: whether waiting ends, and the
//! advice of a diagnosis.

use std::net::ToSocketAddrs;

use tower_redlock::{
    Redlock,
    diagnosis::Severity,
    error::{Reason, UnfitServer},
    node::{
        NodeState,
        redis::{Credentials, EvictionGuard},
    },
};

use super::scene::{MAX_TTL, guarded, in_time, quick};
use crate::{
    failures::refusing::{old_server, replica_of},
    support::{FakeServer, HANG_GUARD, RedisServer, Resp, Sentinels, over},
};
#[cfg(feature = "tls")]
use crate::{
    support::{Feature, has},
    tls,
};

/// The expectations for a set of nodes that all do not vote for the same reason.
struct Row {
    urls: Vec<String>,
    is_reason: fn(&Reason) -> bool,
    code: &'static str,
    heals: bool,
}

impl Row {
    /// Waits for the set, until it votes or several `max_ttl` have passed, and diagnoses it.
    async fn check(self, redlock: &Redlock) {
        let Self { urls, is_reason, code, heals } = self;
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
        let redlock = guarded(quick(), self.urls.clone()).build().unwrap();
        self.check(&redlock).await;
    }
}

fn of(servers: &[RedisServer], url: impl Fn(&RedisServer) -> String) -> Vec<String> {
    servers.iter().map(url).collect()
}

#[tokio::test]
async fn needless_password_is_permanent() {
    let servers = RedisServer::start_n(3);
    let urls = of(&servers, |server| format!("redis://:s3cret@{}", server.addr()));
    let is_reason = |reason: &Reason| matches!(reason, Reason::Auth(_));
    Row { urls, is_reason, code: "auth", heals: false }.holds().await;
}

#[tokio::test]
async fn missing_database_lasts() {
    let servers = RedisServer::start_n(3);
    let urls = of(&servers, |server| format!("redis://{}/99", server.addr()));
    let is_reason = |reason: &Reason| {
        matches!(reason, Reason::Unfit(_)) && reason.to_string().contains("database")
    };
    Row { urls, is_reason, code: "unfit-server", heals: false }.holds().await;
}

#[tokio::test]
async fn missing_permissions_last() {
    let servers = RedisServer::start_n(3);
    for server in &servers {
        let rules = ["on", ">s3cret", "~*", "&*", "+@all", "-@scripting"];
        let answer = server.cli(&[&["ACL", "SETUSER", "app"], &rules[..]].concat());
        assert_eq!(answer, Resp::Simple("OK".into()));
    }
    let urls = of(&servers, |server| format!("redis://app:s3cret@{}", server.addr()));
    let is_reason = |reason: &Reason| matches!(reason, Reason::NoPermission(_));
    Row { urls, is_reason, code: "permission", heals: false }.holds().await;
}

#[tokio::test]
async fn eviction_lasts() {
    let limits = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    let servers = [(); 3].map(|()| RedisServer::with(&limits));
    let urls = of(&servers, RedisServer::plain_url);
    let is_reason = |reason: &Reason| matches!(reason, Reason::Evicts { .. });
    let row = Row { urls: urls.clone(), is_reason, code: "evicts", heals: false };
    let builder = guarded(quick(), urls).eviction_guard(EvictionGuard::Refuse);
    row.check(&builder.build().unwrap()).await;
}

#[tokio::test]
async fn sentinels_as_nodes_last() {
    let sentinels = Sentinels::start();
    let urls = sentinels.addresses().iter().map(|at| format!("redis://{at}")).collect();
    let is_reason = |reason: &Reason| *reason == Reason::Unfit(UnfitServer::Sentinel);
    Row { urls, is_reason, code: "unfit-server", heals: false }.holds().await;
}

#[tokio::test]
async fn missing_credentials_last() {
    let servers = RedisServer::start_n(3);
    let urls = of(&servers, RedisServer::plain_url);
    let none = || async { Err("no identity for this machine".into()) };
    let builder = guarded(quick(), urls.clone()).credentials(Credentials::callback(none));
    let is_reason = |reason: &Reason| matches!(reason, Reason::Auth(_));
    let row = Row { urls, is_reason, code: "no-credentials", heals: false };
    row.check(&builder.build().unwrap()).await;
}

#[tokio::test]
async fn old_servers_last() {
    let servers = [old_server(), old_server(), old_server()];
    let urls = servers.iter().map(FakeServer::url).collect();
    let is_reason = |reason: &Reason| reason.to_string().contains("too old");
    Row { urls, is_reason, code: "version", heals: false }.holds().await;
}

#[tokio::test]
async fn missing_replicas_heal() {
    let servers = RedisServer::start_n(3);
    for server in &servers {
        server.set_config("min-replicas-to-write", "1");
    }
    let urls = of(&servers, RedisServer::plain_url);
    let redlock = guarded(quick(), urls.clone()).build().unwrap();
    let is_reason = |reason: &Reason| *reason == Reason::NoReplicas;
    Row { urls, is_reason, code: "no-replicas", heals: true }.check(&redlock).await;

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
    let is_reason = |reason: &Reason| *reason == Reason::ReadOnly;
    Row { urls, is_reason, code: "replica", heals: true }.check(&redlock).await;

    for replica in &replicas {
        replica.promote();
    }
    in_time(redlock.ready()).await.unwrap();
}

#[tokio::test]
async fn refusing_sentinels_last() {
    let sentinels = Sentinels::with(Some("s3cret"));
    let urls = vec![Sentinels::url_over(sentinels.addresses())];
    let is_reason = |reason: &Reason| matches!(reason, Reason::NotLocated(_));
    Row { urls, is_reason, code: "not-located", heals: false }.holds().await;
}

#[tokio::test]
async fn unknown_masters_last() {
    let sentinels = Sentinels::start();
    let url = sentinels.url();
    let urls = vec![format!("{}-x", url)];
    let is_reason = |reason: &Reason| {
        matches!(reason, Reason::NotLocated(_)) && reason.to_string().contains("no master")
    };
    Row { urls, is_reason, code: "not-located", heals: false }.holds().await;
}

/// If no resolver answers, the name may still have an address.
#[tokio::test]
async fn unknown_hosts_last() {
    const HOST: &str = "host.invalid:6379";
    let error = HOST.to_socket_addrs().unwrap_err().to_string();
    let is_reason = |reason: &Reason| {
        matches!(reason, Reason::NotLocated(_))
            || matches!(reason, Reason::NotConnected(text) if text.contains("emporary"))
    };
    let (code, heals) =
        if error.contains("emporary") { ("down", true) } else { ("not-located", false) };

    Row { urls: vec![format!("redis://{HOST}")], is_reason, code, heals }.holds().await;
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn unknown_authorities_last() {
    if !has(&[Feature::Tls]) {
        return;
    }
    let (_server, port) = tls::server("no");
    let urls = vec![format!("rediss://localhost:{}", port.number())];
    let redlock = over(quick(), urls.clone()).tls(tls::trusting(tls::STRANGER_CA)).build();
    let is_reason = |reason: &Reason| matches!(reason, Reason::Tls(_));
    Row { urls, is_reason, code: "tls", heals: false }.check(&redlock.unwrap()).await;
}

/// The server waits for the end of a command, like a server that hangs.
#[cfg(feature = "tls")]
#[tokio::test]
async fn servers_without_tls_are_silent() {
    let server = RedisServer::start();
    let urls = vec![format!("rediss://{}", server.addr())];
    let redlock = over(quick(), urls.clone()).tls(tls::trusting(tls::CA)).build().unwrap();
    let is_reason = |reason: &Reason| reason.to_string().contains("may not speak TLS");
    Row { urls, is_reason, code: "hung", heals: true }.check(&redlock).await;
}
