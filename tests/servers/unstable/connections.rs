//! Connections that end early, or transfer hardly any data.

use std::time::Duration;

use super::scene::Unstable;
use crate::support::{Breaker, Breaks, RedisServer};

/// Words in the possible reasons of a broken connection, and in the advice on them.
const BROKEN: &[&str] = &["connection lost", "not connected", "can't be reached"];

/// Checks a proxy in front of a server, which breaks connections like this.
async fn costs_little(breaks: Breaks, reasons: &[&str]) {
    let server = RedisServer::start();
    let proxy = Breaker::start([server.addr()], breaks);
    let unstable = Unstable::new(proxy.url());
    unstable.costs_little(|| proxy.connections(), reasons).await;
}

#[tokio::test]
async fn closed_at_once() {
    costs_little(Breaks::AtOnce, BROKEN).await;
}

#[tokio::test]
async fn closed_within_the_greeting() {
    costs_little(Breaks::AfterBytes(100), BROKEN).await;
}

#[tokio::test]
async fn closed_within_the_first_check() {
    costs_little(Breaks::AfterBytes(6_000), BROKEN).await;
}

#[tokio::test]
async fn closed_right_after_the_greeting() {
    costs_little(Breaks::After(Duration::from_millis(50)), BROKEN).await;
}

#[tokio::test]
async fn closed_each_half_second() {
    costs_little(Breaks::After(Duration::from_millis(500)), BROKEN).await;
}

#[tokio::test]
async fn closed_each_second_and_more() {
    costs_little(Breaks::After(Duration::from_millis(1_100)), BROKEN).await;
}

#[tokio::test]
async fn closed_when_idle_for_moment() {
    // Locks are acquired continuously, so no timeout is shorter than a pause of this test.
    costs_little(Breaks::Idle(Duration::from_millis(1)), BROKEN).await;
}

#[tokio::test]
async fn answered_byte_by_byte() {
    costs_little(Breaks::Dripping(Duration::from_millis(5)), &["no greeting", "timed out"]).await;
}

#[tokio::test]
async fn silent_from_the_beginning() {
    costs_little(Breaks::Silent, &["no greeting"]).await;
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn handshake_of_tls_never_ends() {
    let proxy = Breaker::start([], Breaks::Silent);
    let unstable = Unstable::new(proxy.url().replace("redis://", "rediss://"));
    unstable.costs_little(|| proxy.connections(), &["the port may not speak TLS"]).await;
}

#[tokio::test]
async fn all_servers_at_once() {
    let servers = RedisServer::start_n(3);
    let breaks = Breaks::After(Duration::from_millis(50));
    let proxies: Vec<_> =
        servers.iter().map(|server| Breaker::start([server.addr()], breaks)).collect();
    let unstable = Unstable::over(proxies.iter().map(Breaker::url));
    let most = || proxies.iter().map(Breaker::connections).max().unwrap();
    unstable.costs_little(most, BROKEN).await;
}

#[tokio::test]
async fn alternating_servers() {
    let servers = RedisServer::start_n(2);
    let breaks = Breaks::After(Duration::from_millis(200));
    let proxy = Breaker::start(servers.iter().map(RedisServer::addr), breaks);
    let unstable = Unstable::new(proxy.url());
    unstable.costs_little(|| proxy.connections(), BROKEN).await;
}

#[tokio::test]
async fn clients_killed_again_and_again() {
    let server = RedisServer::start();
    let unstable = Unstable::new(server.url());
    let connections = || {
        let count = server.info("stats", "total_connections_received").unwrap();
        count.trim().parse().unwrap()
    };
    let own = std::sync::atomic::AtomicUsize::new(0);
    // Each command of this test is a connection.
    let connections = || {
        let own = own.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
        let all: usize = connections();
        all - own
    };
    let killing = async {
        loop {
            own.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };

    tokio::select! {
        () = unstable.costs_little(connections, BROKEN) => {}
        () = killing => {}
    }
}
