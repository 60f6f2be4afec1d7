//! One name that repeatedly changes between two servers, with the restart guard.

use std::time::Duration;

use tower_redlock::node::redis::RestartGuard;

use super::scene::Unstable;
use crate::support::{Breaker, Breaks, RedisServer};

/// Maximum number of scripts that each of the other servers runs in a second, locks apart.
const MOST_CHANGES: usize = 10;

/// Number of scripts that were sent by their text: changes of the record, and learning of nodes.
fn texts(server: &RedisServer) -> usize {
    usize::try_from(server.calls("eval")).expect("few calls")
}

#[tokio::test]
async fn other_servers_are_left_alone() {
    let (both, others) = (RedisServer::start_n(2), RedisServer::start_n(2));
    let breaks = Breaks::After(Duration::from_millis(200));
    let proxy = Breaker::start(both.iter().map(RedisServer::addr), breaks);
    let urls = [proxy.url(), others[0].url(), others[1].url()];
    let unstable = Unstable::with(urls, |builder| {
        builder.ttl(Duration::from_secs(1)).restart_guard(RestartGuard::Probation)
    });

    let rate = unstable.rate(|| texts(&others[0]).max(texts(&others[1]))).await;

    assert!(rate <= MOST_CHANGES, "{rate} changes per second");

    unstable.logs_little();
}
