//! `rediss://` nodes: real servers that speak TLS, with the certificates that README.md describes.

use std::net::SocketAddr;

use redis::ConnectionAddr;
use tower_redlock::node::redis::{Address, Connecting, Connector, NodeAddress, SocketConnector};
use tower_redlock::{
    LockError, Redlock, RedlockBuilder,
    error::{BuildError, Reason, VoteOutcome},
    node::redis::TlsOptions,
};

use crate::fixture::{
    Feature, HANG_GUARD, Port, RedisServer, Sentinel, TempDir, eventually_async, has, over,
    unused_port,
};

pub(crate) const CA: &str = include_str!("ca.pem");
pub(crate) const STRANGER_CA: &str = include_str!("stranger-ca.pem");
const CLIENT_CERT: &str = include_str!("client.pem");
const CLIENT_KEY: &str = include_str!("client.key");

/// A TLS server on its own port, which may require client certificates; `None` if servers lack TLS.
pub(crate) fn server(auth_clients: &str) -> Option<(RedisServer, Port)> {
    if !has(&[Feature::Tls]) {
        return None;
    }
    let port = unused_port();
    let server = RedisServer::with(&[
        "--tls-port",
        &port.number().to_string(),
        "--tls-cert-file",
        &path("server.pem"),
        "--tls-key-file",
        &path("server.key"),
        "--tls-ca-cert-file",
        &path("ca.pem"),
        "--tls-auth-clients",
        auth_clients,
    ]);
    Some((server, port))
}

/// The path of a file beside this one.
fn path(file: &str) -> String {
    format!("{}/tests/servers/tls/{file}", env!("CARGO_MANIFEST_DIR"))
}

/// A Sentinel with a TLS port, which asks its master over TLS.
pub(crate) fn sentinel(master: SocketAddr) -> (Sentinel, Port) {
    let port = unused_port();
    let lines = format!(
        "tls-port {}\ntls-cert-file {}\ntls-key-file {}\ntls-ca-cert-file {}\n\
         tls-auth-clients no\ntls-replication yes\n",
        port.number(),
        path("server.pem"),
        path("server.key"),
        path("ca.pem"),
    );
    (Sentinel::start(master, None, &lines), port)
}

pub(crate) fn trusting(ca: &str) -> TlsOptions {
    TlsOptions::new().ca(ca)
}

/// A manager with a long timeout for each answer, so that only answers decide.
fn patient<A: Into<NodeAddress>>(urls: impl IntoIterator<Item = A>) -> RedlockBuilder {
    over(Redlock::builder(), urls).ttl(6 * HANG_GUARD).node_timeout(HANG_GUARD / 2)
}

fn manager(port: &Port, host: &str, options: TlsOptions) -> Redlock {
    let url = format!("rediss://{host}:{}", port.number());
    patient([url]).tls(options).build().unwrap()
}

async fn ready(redlock: &Redlock) {
    let ready = tokio::time::timeout(HANG_GUARD, redlock.ready()).await;
    assert!(matches!(ready, Ok(Ok(()))), "{:?}", redlock.health());
}

#[tokio::test]
async fn name_and_address_both_work() {
    let Some((server, port)) = server("no") else { return };

    for host in ["localhost", "127.0.0.1"] {
        let redlock = manager(&port, host, trusting(CA));
        ready(&redlock).await;
        let lock = redlock.lock("a").await.unwrap();
        assert!(server.exists("redlock:lock:a"));
        lock.release().await.unwrap();
    }
}

#[tokio::test]
async fn tls_address_is_verified_like_url() {
    let Some((server, port)) = server("no") else { return };
    let address = || ConnectionAddr::TcpTls {
        host: "localhost".into(),
        port: port.number(),
        insecure: false,
        tls_params: None,
    };
    let redlock = patient([address()]).tls(trusting(CA)).build().unwrap();

    ready(&redlock).await;
    let lock = redlock.lock("a").await.unwrap();

    assert!(server.exists("redlock:lock:a"));
    lock.release().await.unwrap();
    let stranger = patient([address()]).tls(trusting(STRANGER_CA)).build().unwrap();
    assert!(stranger.lock("a").await.is_err());
}

#[cfg(feature = "http")]
#[tokio::test]
async fn store_speaks_tls_like_nodes() {
    use tower_redlock::once::{RedisStore, ResponseStore};
    let Some((_server, port)) = server("no") else { return };
    let store = |ca| {
        let builder = RedisStore::builder(format!("rediss://localhost:{}", port.number()));
        builder.timeout(HANG_GUARD).tls(trusting(ca)).build().unwrap()
    };
    assert!(store(CA).get("a").await.unwrap().is_none());
    let error = store(STRANGER_CA).get("a").await.unwrap_err();
    let text = std::error::Error::source(&error).unwrap().to_string().to_lowercase();
    assert!(text.contains("certificate"), "{text}");
}

#[tokio::test]
async fn client_certificate_is_sent_on_request() {
    let Some((_server, port)) = server("yes") else { return };
    let options = trusting(CA).client(CLIENT_CERT, CLIENT_KEY);
    let redlock = manager(&port, "localhost", options);
    ready(&redlock).await;
    redlock.lock("a").await.unwrap().release().await.unwrap();

    let without = manager(&port, "localhost", trusting(CA));
    assert_not_connected(&without).await;
}

#[tokio::test]
async fn unknown_authority_does_not_vote() {
    let Some((_server, port)) = server("no") else { return };
    let redlock = manager(&port, "localhost", trusting(STRANGER_CA));
    let text = assert_not_connected(&redlock).await;
    assert!(text.to_lowercase().contains("certificate"), "{text}");
}

async fn assert_not_connected(redlock: &Redlock) -> String {
    let mut text = String::new();
    eventually_async("the node is known to be down", async || {
        let Err(LockError::NoQuorum { votes }) = redlock.lock("a").await else {
            panic!("a server that was not verified must not vote");
        };
        match &votes[0].outcome {
            VoteOutcome::NotCounted(Reason::Tls(reason)) => {
                text = reason.to_string();
                true
            }
            _ => false,
        }
    })
    .await;
    text
}

#[tokio::test]
async fn files_are_read_at_every_connect() {
    let Some((server, port)) = server("yes") else { return };
    let directory = TempDir::new();
    let file = |name: &str| directory.path().join(name);
    let write = |name: &str, pem: &str| std::fs::write(file(name), pem).unwrap();
    write("ca", CA);
    write("cert", CLIENT_CERT);
    write("key", CLIENT_KEY);
    let options = TlsOptions::new().ca_file(file("ca")).client_files(file("cert"), file("key"));
    let redlock = manager(&port, "localhost", options);
    ready(&redlock).await;
    // An open connection is not affected.
    write("ca", STRANGER_CA);
    redlock.lock("a").await.unwrap().release().await.unwrap();
    disconnect(&server);
    assert!(assert_not_connected(&redlock).await.to_lowercase().contains("certificate"));
    std::fs::remove_file(file("ca")).unwrap();
    let gone = file("ca").display().to_string();
    eventually_async("the file is the reason", async || {
        assert_not_connected(&redlock).await.contains(&gone)
    })
    .await;
    write("ca", CA);
    ready(&redlock).await;
    write("key", "no key");
    disconnect(&server);
    let text = assert_not_connected(&redlock).await;
    assert!(text.contains("client_key") && !text.contains("no key"), "{text}");
    write("key", CLIENT_KEY);
    ready(&redlock).await;
    redlock.lock("a").await.unwrap().release().await.unwrap();
}

fn disconnect(server: &RedisServer) {
    server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
}

#[tokio::test]
async fn a_server_name_replaces_the_host() {
    let Some((_server, port)) = server("no") else { return };
    let redlock = |name: &str| {
        let url = format!("rediss://redis.invalid:{}", port.number());
        let builder = patient([url]).connector(Loopback);
        builder.tls(trusting(CA).server_name(name)).build().unwrap()
    };
    ready(&redlock("localhost")).await;
    let text = assert_not_connected(&redlock("redis.invalid")).await;
    assert!(text.to_lowercase().contains("certificate"), "{text}");
    let built =
        Redlock::builder().nodes(["rediss://a"]).tls(trusting(CA).server_name("a b")).build();
    assert!(built.unwrap_err().to_string().contains("server_name"));
}

/// Resolves every host to this machine.
#[derive(Debug)]
struct Loopback;

impl Connector for Loopback {
    fn connect(&self, address: &Address) -> Connecting {
        let Address::Tcp { port, .. } = address else { panic!("{address}") };
        SocketConnector::new().connect(&Address::Tcp { host: "127.0.0.1".into(), port: *port })
    }
}

#[test]
fn plain_nodes_are_refused() {
    let mixtures: [&[&str]; 3] =
        [&["redis://localhost"], &["rediss://a", "redis://b"], &["redis+unix:///s", "redis://b"]];
    for urls in mixtures {
        let built = Redlock::builder().nodes(urls.iter().copied()).tls(trusting(CA)).build();
        let error = built.unwrap_err();
        assert!(matches!(error, BuildError::Tls { .. }), "{error:?}");
        assert!(error.to_string().contains("rediss://"), "{error}");
    }
    let encrypted = ["rediss://a", "redis+unix:///s"];
    over(Redlock::builder(), encrypted.map(String::from)).tls(trusting(CA)).build().unwrap();
}

#[test]
fn unusable_certificates_are_refused_early() {
    let build = |options| {
        let error = Redlock::builder().nodes(["rediss://localhost"]).tls(options).build();
        match error.unwrap_err() {
            BuildError::Tls { reason } => reason,
            other => panic!("{other}"),
        }
    };
    assert!(build(TlsOptions::new().ca("not a certificate")).contains("ca"));
    assert!(build(trusting(CA).client("x", "y")).contains("client_cert"));
}
