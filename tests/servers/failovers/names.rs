//! One host name for several Sentinels.

use std::{
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tower_redlock::{
    Redlock,
    node::redis::{Address, Connecting, Connector, LookingUp, RestartGuard, SocketConnector},
};

use crate::fixture::{
    FakeServer, Reaction, SERVICE, Sentinels, all_vote, eventually_async, guard::works, in_time,
    patient,
};

use super::{down_for, leads_to};

/// A resolver that knows the name of the Sentinels. A connection by the name leads to the first
/// address, which accepts connections.
#[derive(Clone)]
struct Names(Arc<Mutex<Vec<SocketAddr>>>);

const NAME: &str = "sentinels.test";

impl Names {
    fn of(addresses: &[SocketAddr]) -> Self {
        Self(Arc::new(Mutex::new(addresses.to_vec())))
    }

    fn set(&self, addresses: &[SocketAddr]) {
        *self.0.lock().unwrap() = addresses.to_vec();
    }

    fn found(&self, address: &Address) -> Vec<Address> {
        let tcp = |at: &SocketAddr| Address::Tcp { host: at.ip().to_string(), port: at.port() };
        match address {
            Address::Tcp { host, .. } if host == NAME => {
                self.0.lock().unwrap().iter().map(tcp).collect()
            }
            other => vec![other.clone()],
        }
    }

    fn manager(&self) -> Redlock {
        let url = format!("redis+sentinel://{NAME}/{SERVICE}");
        let builder = patient().named_node("locks", url).restart_guard(RestartGuard::Off);
        builder.connector(self.clone()).build().unwrap()
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").finish_non_exhaustive()
    }
}

impl Connector for Names {
    fn connect(&self, address: &Address) -> Connecting {
        SocketConnector::new().connect(&self.found(address)[0])
    }

    fn addresses(&self, address: &Address) -> LookingUp {
        let found = self.found(address);
        Box::pin(async move { Ok(found) })
    }
}

/// A Sentinel that accepts connections and never answers.
fn stuck() -> FakeServer {
    FakeServer::start(|_| Reaction::Silence)
}

#[tokio::test]
async fn stuck_sentinel_hides_no_other() {
    let (sentinels, stuck) = (Sentinels::start(), stuck());
    let addresses = [&[stuck.addr()][..], &sentinels.addresses()].concat();

    let redlock = Names::of(&addresses).manager();
    in_time(all_vote(&redlock)).await;

    // The client still waits for it.
    assert_eq!(stuck.connections(), 1);
    works(&redlock).await;
}

#[tokio::test]
async fn frozen_sentinel_hides_no_failover() {
    let mut sentinels = Sentinels::start();
    let redlock = Names::of(&sentinels.addresses()).manager();
    all_vote(&redlock).await;

    let _frozen = sentinels.freeze_first();
    sentinels.fail_over();

    sentinels.await_master(1);
    leads_to(&redlock, &sentinels.servers[1]).await;
    works(&redlock).await;
}

#[tokio::test]
async fn name_is_looked_up_again() {
    let (sentinels, stuck) = (Sentinels::start(), stuck());
    let names = Names::of(&[stuck.addr()]);
    let redlock = names.manager();
    eventually_async("the node is down", async || down_for(&redlock).is_some()).await;
    let reason = down_for(&redlock).unwrap().to_string();
    let both = format!("{NAME}:26379 ({})", stuck.addr());
    assert!(reason.contains(&both), "{reason}");
    names.set(&sentinels.addresses());
    all_vote(&redlock).await;
    eventually_async("the former address is left", async || stuck.open_connections() == 0).await;
}
