//! Sentinels and Clusters that report another server each time.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
};

use tower_redlock::node::redis::{Address, Connecting, Connector, SocketConnector};

use super::scene::Unstable;
use crate::{
    failures::fake,
    support::{FakeServer, Reaction, SERVICE},
};

/// Words in the reasons for which a node is down when its server has moved again.
const MOVED: &[&str] = &["another server has its keys", "connection lost", "not connected"];

/// A Sentinel that reports these masters in turn, each with a greater epoch.
fn sentinel(masters: Vec<SocketAddr>) -> FakeServer {
    let asked = AtomicUsize::new(0);
    FakeServer::start(move |command| {
        if command[1] != b"MASTER" {
            let number = asked.fetch_add(1, Ordering::SeqCst) + 1;
            let at = masters[number % masters.len()];
            let parts = [at.ip().to_string(), at.port().to_string()];
            return Reaction::array(&parts.map(|part| Reaction::bulk(&part)));
        }
        let epoch = asked.load(Ordering::SeqCst).to_string();
        Reaction::array(&["config-epoch", &epoch].map(Reaction::bulk))
    })
}

/// Checks the cost of a connection to two fake servers, which are the master in turn.
#[tokio::test]
async fn sentinels_flap_between_masters() {
    let masters = [fake::greeting(fake::granted), fake::greeting(fake::granted)];
    let addresses: Vec<_> = masters.iter().map(FakeServer::addr).collect();
    let sentinels = [(); 3].map(|()| sentinel(addresses.clone()));
    let hosts: Vec<_> = sentinels.iter().map(|it| it.addr().to_string()).collect();
    let unstable = Unstable::new(format!("redis+sentinel://{}/{SERVICE}", hosts.join(",")));
    let connections = || masters.iter().map(FakeServer::connections).sum();

    unstable.costs_little(connections, MOVED).await;

    // Each Sentinel is queried over one connection.
    assert!(sentinels.iter().all(|sentinel| sentinel.connections() == 1));
}

/// A Sentinel that accepts connections and closes them.
#[tokio::test]
async fn sentinel_closes_each_connection() {
    let sentinel = FakeServer::start(|_| Reaction::Close);
    let unstable = Unstable::new(format!("redis+sentinel://{}/{SERVICE}", sentinel.addr()));
    unstable.costs_little(|| sentinel.connections(), &["no Sentinel reported its address"]).await;
}

/// A connector that opens all connections to one server, regardless of the address.
#[derive(Debug)]
struct Everywhere(SocketAddr);

impl Connector for Everywhere {
    fn connect(&self, _: &Address) -> Connecting {
        let Self(at) = self;
        SocketConnector::new().connect(&Address::Tcp { host: at.ip().to_string(), port: at.port() })
    }
}

/// A Cluster that reports one more server in each of its answers.
#[tokio::test]
async fn cluster_grows_without_end() {
    let epoch = AtomicUsize::new(0);
    let cluster = FakeServer::start(move |_| {
        let epoch = epoch.fetch_add(1, Ordering::SeqCst);
        let replicas = (epoch..epoch + 6).rev();
        let replica = |number| format!("r{number} h{number}:1@1 slave m 0 0 {epoch} connected\n");
        let replicas: String = replicas.map(replica).collect();
        Reaction::bulk(&format!("m m:1@1 master - 0 0 {epoch} connected 0-16383\n{replicas}"))
    });
    let unstable = Unstable::with(["redis+cluster://first".into()], |builder| {
        builder.key_prefix("{redlock}").connector(Everywhere(cluster.addr()))
    });

    let rate = unstable.rate(|| cluster.count("CLUSTER")).await;

    // Ten servers, each two to four times a second, and some that are no longer reported.
    assert!(rate <= 50, "{rate} questions per second");
}
