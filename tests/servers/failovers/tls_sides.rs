//! TLS only on the Sentinels, or only on the master.

use std::net::SocketAddr;

use tower_redlock::{Redlock, error::BuildError, node::redis::RestartGuard};

use crate::fixture::{
    Port, RedisServer, SERVICE, Sentinel, all_vote, eventually_async, guard::works, in_time,
    patient,
};

use super::down_for;
use crate::tls;

/// A server and a Sentinel that names its plain or its TLS port as the master; both have both ports.
struct Sides {
    _server: RedisServer,
    sentinel: Sentinel,
    sentinel_tls: Port,
}

impl Sides {
    fn start(is_master_tls: bool) -> Option<Self> {
        let (server, port) = tls::server("no")?;
        let master = if is_master_tls { port.addr() } else { server.addr() };
        let (sentinel, sentinel_tls) = tls::sentinel(master);
        Some(Self { _server: server, sentinel, sentinel_tls })
    }

    fn plain(&self) -> SocketAddr {
        self.sentinel.addr()
    }

    fn tls(&self) -> SocketAddr {
        self.sentinel_tls.addr()
    }
}

fn manager(scheme: &str, sentinel: SocketAddr, query: &str) -> Redlock {
    let url = format!("{scheme}+sentinel://localhost:{}/{SERVICE}{query}", sentinel.port());
    let builder = patient().named_node("locks", url).restart_guard(RestartGuard::Off);
    builder.tls(tls::trusting(tls::CA)).build().unwrap()
}

#[tokio::test]
async fn each_side_has_its_own() {
    let (Some(plain), Some(tls)) = (Sides::start(false), Sides::start(true)) else { return };

    for redlock in [
        manager("redis", plain.tls(), "?sentinel_tls=yes"),
        manager("rediss", tls.plain(), "?sentinel_tls=no"),
        manager("rediss", tls.tls(), "?sentinel_tls=yes"),
    ] {
        in_time(all_vote(&redlock)).await;
        works(&redlock).await;
    }
}

#[tokio::test]
async fn error_names_the_side() {
    let (Some(plain), Some(tls)) = (Sides::start(false), Sides::start(true)) else { return };

    for (redlock, side, words) in [
        (manager("redis", plain.plain(), "?sentinel_tls=yes"), "no Sentinel", "may not speak TLS"),
        (manager("rediss", tls.tls(), "?sentinel_tls=no"), "no Sentinel", "may speak only TLS"),
        (manager("rediss", plain.tls(), ""), "the master", "may not speak TLS"),
        (manager("redis", tls.tls(), "?sentinel_tls=yes"), "the master", "may speak only TLS"),
    ] {
        eventually_async("the node is down", async || down_for(&redlock).is_some()).await;
        let reason = down_for(&redlock).unwrap();
        let shown = reason.to_string();
        println!("{shown}");
        assert!(shown.contains(side) && shown.contains(words), "{shown}");
    }
}

#[test]
fn settings_are_checked() {
    let build = |url: &str| Redlock::builder().nodes([url]).build();
    let error = build("redis+sentinel://a/locks?sentinel_tls=s3cret").unwrap_err().to_string();
    assert!(error.contains("sentinel_tls") && !error.contains("s3cret"), "{error}");
    let options = tls::trusting(tls::CA);
    let plain = Redlock::builder().nodes(["redis+sentinel://a/locks?sentinel_tls=no"]);
    assert!(matches!(plain.tls(options).build(), Err(BuildError::Tls { .. })));
}
