//! Servers that are full when they restart with their data.

use std::time::Duration;

use tower_redlock::{Lock, LockError, Redlock};

use crate::fixture::{
    Feature, RedisServer, all_vote, eventually_async,
    guard::{enrolment, guarded, in_probation, quick, taken},
    in_time, is_lacking, urls,
};

const DATA: [&str; 2] = ["--appendonly", "yes"];
/// A lock outlasts a few attempts whose answers are late on a busy machine.
const TTL: Duration = Duration::from_secs(3);

fn manager(servers: &[RedisServer]) -> Redlock {
    guarded(quick().ttl(TTL).node_timeout(TTL / 10), urls(servers)).build().unwrap()
}

/// Renews the lock, again if too few answers are in time.
async fn extend(held: &Lock) {
    in_time(async {
        while let Err(error) = held.extend().await {
            assert!(!matches!(error, LockError::Lost { .. }), "{error}");
        }
    })
    .await;
}

#[tokio::test]
async fn enrolled_and_renewing_after_restart() {
    let mut servers: Vec<_> = (0..3).map(|_| RedisServer::with(&DATA)).collect();
    let redlock = manager(&servers);
    all_vote(&redlock).await;
    let held = taken(&redlock, "x").await;
    let before = enrolment(&servers[0]);
    servers[0].restart_keeping_data();
    servers[0].set_config("maxmemory", "1");
    if is_lacking(Feature::ScriptFlags) {
        eventually_async("the server is reported as full", async || {
            redlock.health()[0].state.to_string().contains("out of memory")
        })
        .await;
        assert!(!redlock.health()[0].is_voting());
        return;
    }
    eventually_async("the server is enrolled anew", async || {
        in_probation(&redlock.health()[0]) && enrolment(&servers[0]) != before
    })
    .await;
    // The other server of the majority is gone, so the lock depends on renewals of the full one.
    eventually_async("the server renews again", async || !in_probation(&redlock.health()[0])).await;
    extend(&held).await;
    servers[2].kill();
    for _ in 0..5 {
        extend(&held).await;
    }
    eventually_async("the key remains", async || {
        servers[0].pttl("redlock:lock:x") > 0 && held.is_valid()
    })
    .await;
}
