//! `rediss://` nodes: real servers that speak TLS, certificates made on the spot.

use std::{fs, path::PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tower_redlock::{BuildError, LockError, Reason, Redlock, TlsOptions, VoteOutcome};

use crate::support::{HANG_GUARD, Port, RedisServer, eventually_async, unused_port};

/// An authority, a certificate of the server, and one of the client.
struct Certificates {
    folder: PathBuf,
    ca: String,
    client_cert: String,
    client_key: String,
}

impl Certificates {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("tower-redlock-tls-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // OpenSSL takes a certificate whose issuer has the subject's name for self-signed.
        authority.distinguished_name.push(DnType::CommonName, "tower-redlock test authority");
        let authority =
            CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let sign = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(ToString::to_string).collect();
            let key = KeyPair::generate().unwrap();
            let cert = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
            (cert.pem(), key.serialize_pem())
        };
        let (server_cert, server_key) = sign(&["localhost", "127.0.0.1"]);
        let (client_cert, client_key) = sign(&["client"]);
        fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
        fs::write(folder.join("server.pem"), server_cert).unwrap();
        fs::write(folder.join("server.key"), server_key).unwrap();
        Self { ca: authority.pem(), folder, client_cert, client_key }
    }

    /// A server that speaks TLS on a port of its own, and whether it wants client certificates.
    fn server(&self, auth_clients: &str) -> (RedisServer, Port) {
        let port = unused_port();
        let path = |file: &str| self.folder.join(file).display().to_string();
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
        (server, port)
    }

    fn trusted(&self) -> TlsOptions {
        TlsOptions::new().ca(self.ca.as_str())
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn manager(port: &Port, host: &str, options: TlsOptions) -> Redlock {
    let url = format!("rediss://{host}:{}", port.number());
    Redlock::builder().nodes([url]).tls(options).build().unwrap()
}

async fn ready(redlock: &Redlock) {
    let ready = tokio::time::timeout(HANG_GUARD, redlock.ready()).await;
    assert!(ready.is_ok(), "{:?}", redlock.health());
}

#[tokio::test]
async fn locks_work_over_tls_by_name_and_by_address() {
    let certificates = Certificates::new("plain");
    let (server, port) = certificates.server("no");
    for host in ["localhost", "127.0.0.1"] {
        let redlock = manager(&port, host, certificates.trusted());
        ready(&redlock).await;
        let lock = redlock.lock("a").await.unwrap();
        assert!(server.exists("redlock:lock:a"));
        lock.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_client_certificate_is_shown_to_servers_that_want_one() {
    let certificates = Certificates::new("mutual");
    let (_server, port) = certificates.server("yes");
    let options = certificates
        .trusted()
        .client(certificates.client_cert.as_str(), certificates.client_key.as_str());
    let redlock = manager(&port, "localhost", options);
    ready(&redlock).await;
    redlock.lock("a").await.unwrap().release().await.unwrap();

    let without = manager(&port, "localhost", certificates.trusted());
    assert_not_connected(&without).await;
}

#[tokio::test]
async fn a_server_of_an_unknown_authority_does_not_vote() {
    let certificates = Certificates::new("known");
    let (_server, port) = certificates.server("no");
    let stranger = Certificates::new("stranger");
    let redlock = manager(&port, "localhost", stranger.trusted());
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
            VoteOutcome::NotCounted(Reason::NotConnected(reason)) => {
                text = reason.to_string();
                true
            }
            _ => false,
        }
    })
    .await;
    text
}

#[test]
fn unusable_certificates_are_refused_before_anything_is_sent() {
    let build = |options| {
        let error = Redlock::builder().nodes(["rediss://localhost"]).tls(options).build();
        match error.unwrap_err() {
            BuildError::Tls { reason } => reason,
            other => panic!("{other}"),
        }
    };
    assert!(build(TlsOptions::new().ca("not a certificate")).contains("ca"));
    let mut options = TlsOptions::new();
    options.client_cert = Some(b"x".to_vec());
    assert!(build(options.ca(Certificates::new("half").ca.as_str())).contains("client_key"));
}
