//! Servers that are restarted blank, one after the other.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use tower_redlock::{LockError, Redlock};

use crate::{
    program::{Doctor, connected, name, run, urls},
    support::{RedisServer, eventually_async},
};

const TTL: Duration = Duration::from_secs(3);

/// Maximum wait for a lock: less than a probation, so that a set that is stopped by one is found.
const MAX_WAIT: Duration = Duration::from_secs(2);

async fn fleet(servers: &[RedisServer]) -> Redlock {
    let timeout = Duration::from_millis(300);
    connected(Redlock::builder().nodes(urls(servers)).ttl(TTL).node_timeout(timeout)).await
}

/// Takes and releases locks until it is stopped, and counts them.
async fn takes(
    redlock: Redlock,
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU32>,
) -> Result<(), LockError> {
    while !stop.load(Ordering::Relaxed) {
        let lock = redlock.lock("x").wait(MAX_WAIT).await?;
        let _ = lock.release().await;
        count.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paced_restarts_never_stop_the_set() {
    let mut servers = RedisServer::start_n(3);
    let redlock = fleet(&servers).await;
    let doctor = Doctor::guarded(&urls(&servers), "3s");
    let (stop, count) = (Arc::<AtomicBool>::default(), Arc::<AtomicU32>::default());
    let taking = tokio::spawn(takes(redlock.clone(), Arc::clone(&stop), Arc::clone(&count)));
    for server in &mut servers {
        server.restart();
        let outcome = doctor.run(&["--wait", &server.addr().to_string()]);
        outcome.is(0, &["another server may be restarted", "3 of 3 nodes vote", "in probation"]);
        outcome.says(&[&format!("{} votes again", name(server))]);
        let before = count.load(Ordering::Relaxed);
        eventually_async("locks are granted", async || count.load(Ordering::Relaxed) > before)
            .await;
    }
    stop.store(true, Ordering::Relaxed);
    taking.await.unwrap().unwrap();
    redlock.shutdown().await;
}

#[test]
fn further_restart_waits_for_other_nodes() {
    let mut servers = RedisServer::start_n(3);
    let doctor = Doctor::guarded(&urls(&servers), "1s");
    doctor.run(&["--wait", "--no-probe"]).is(0, &["HEALTHY"]);
    servers[2].kill();
    let node = name(&servers[0]);
    let outcome = doctor.run(&["--wait", &node]);
    outcome.is(1, &["votes again; 2 of 3 nodes vote, 2 are needed: do not restart another"]);
    outcome.says(&[&format!("{}: down", name(&servers[2]))]);
    let json = doctor.run(&["--json", "--wait", &node]).is(1, &[]).json();
    assert_eq!((&json["votes"], &json["may_restart_another"]), (&true.into(), &false.into()));
    let json = doctor.run(&["--json", "--timeout=300ms", "--wait", &name(&servers[2])]);
    assert_eq!(json.is(1, &["not within 300ms"]).json()["votes"], false);
}

#[test]
fn unknown_node_is_bad_usage() {
    let servers = RedisServer::start_n(1);
    let url = format!("redis://:s3cret@{}", servers[0].addr());
    let outcome = Doctor::guarded(&urls(&servers), "60s").run(&["--wait", &url]);
    outcome.is(64, &["no node has that name; they are: ", &name(&servers[0])]).never_says("s3cret");
    let json = run(&urls(&servers).join(","), &["doctor", "--wait", "some", "--json"]);
    json.is(64, &["no node has that name"]);
}
