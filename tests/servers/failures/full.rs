//! Servers at their memory limit.

use std::{future::poll_fn, pin::pin, task::Poll};

use tower_redlock::{Redlock, error::Reason, lock::Released, node::NodeState};

use crate::fixture::{
    Log, LoggedSpawner, RedisServer, Resp, all_vote, eventually_async,
    faults::{assert_refused, manager, only_a_majority_matters, patient, works},
    in_time, urls,
};

fn is_out_of_memory(reason: &Reason) -> bool {
    *reason == Reason::OutOfMemory
}

fn limit(servers: &[RedisServer], maxmemory: &str) {
    for server in servers {
        server.set_config("maxmemory", maxmemory);
    }
}

#[tokio::test]
async fn server_filled_up_reports_it() {
    let args = ["--maxmemory", "3mb", "--maxmemory-policy", "noeviction"];
    let servers = [RedisServer::with(&args), RedisServer::with(&args)];
    servers.iter().for_each(RedisServer::fill_memory);
    let urls = servers.each_ref().map(RedisServer::url);
    only_a_majority_matters(urls, manager, is_out_of_memory).await;
}

#[tokio::test]
async fn full_servers_extend_and_release() {
    let servers = RedisServer::start_n(3);
    let redlock = manager(urls(&servers));
    all_vote(&redlock).await;
    let (one, pair) = (redlock.lock("one").await.unwrap(), redlock.lock(["a", "b"]).await.unwrap());
    let reader = redlock.lock("read").shared().await.unwrap();
    limit(&servers[..2], "1");
    assert_refused(&redlock, &[0, 1], is_out_of_memory).await;
    limit(&servers, "1");
    for lock in [&one, &pair, &reader] {
        let valid = lock.extend().await.unwrap();
        assert!(valid > lock.remaining() / 2);
    }
    assert!(matches!(one.release().await.unwrap(), Released::Released));
    assert!(matches!(pair.release().await.unwrap(), Released::Released));
    assert!(matches!(reader.release().await.unwrap(), Released::Released));
    for server in &servers {
        assert_eq!(server.keys("redlock:lock:*"), Vec::<String>::new());
    }
    limit(&servers, "0");
    works(&redlock).await;
}

#[tokio::test]
async fn full_server_renews_the_ttl() {
    let servers = RedisServer::start_n(3);
    let redlock = manager(urls(&servers));
    all_vote(&redlock).await;
    let lock = redlock.lock("a").await.unwrap();
    limit(&servers, "1");
    for server in &servers {
        assert_eq!(server.cli(&["PEXPIRE", "redlock:lock:a", "30000"]), Resp::Int(1));
    }
    lock.extend().await.unwrap();
    eventually_async("all three keys are renewed", async || {
        servers.iter().all(|server| server.pttl("redlock:lock:a") > 30_000)
    })
    .await;
}

#[tokio::test]
async fn others_keep_what_full_server_lost() {
    let servers = RedisServer::start_n(3);
    let redlock = manager(urls(&servers));
    all_vote(&redlock).await;
    let lock = redlock.lock("a").await.unwrap();
    limit(&servers, "1");
    servers[0].cli(&["DEL", "redlock:lock:a"]);
    lock.extend().await.unwrap();
    servers[1].cli(&["DEL", "redlock:lock:a"]);
    let error = lock.extend().await.unwrap_err().to_string();
    assert!(error.contains("out of memory"), "{error}");
    assert!(lock.is_valid(), "a failed extension ended a valid lock");
}

/// Waits until the health of these nodes is refusing.
async fn refusing(redlock: &Redlock, nodes: &[usize]) {
    let refuses = |node: usize| {
        let health = &redlock.health()[node];
        assert!(health.is_voting() == (health.state == NodeState::Voting), "{health}");
        matches!(&health.state, NodeState::Refusing { reason, .. } if is_out_of_memory(reason))
    };
    eventually_async("the nodes refuse", async || nodes.iter().all(|node| refuses(*node))).await;
}

async fn is_ready(redlock: &Redlock) -> bool {
    let mut ready = pin!(redlock.ready());
    poll_fn(|cx| Poll::Ready(ready.as_mut().poll(cx).is_ready())).await
}

/// Waits for two more health checks of each server.
async fn looked_at(servers: &[RedisServer]) {
    let looks = |server: &RedisServer| -> u64 {
        let stats = server.cli(&["INFO", "commandstats"]).text();
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_time:calls="));
        let count = line.and_then(|rest| rest.split(',').next());
        count.expect("TIME was asked").parse().expect("a number")
    };
    let before: Vec<_> = servers.iter().map(looks).collect();
    eventually_async("every server is checked", async || {
        servers.iter().zip(&before).all(|(server, before)| looks(server) >= before + 2)
    })
    .await;
}

#[tokio::test]
async fn full_node_shows_as_refusing() {
    let log = Log::new();
    let servers = RedisServer::start_n(3);
    let builder = patient(urls(&servers)).spawner(LoggedSpawner::start(&log));
    let redlock = builder.build().unwrap();
    all_vote(&redlock).await;
    limit(&servers, "1");
    assert!(is_ready(&redlock).await, "ready before the first request");
    assert_refused(&redlock, &[], is_out_of_memory).await;
    refusing(&redlock, &[0, 1, 2]).await;
    assert!(!is_ready(&redlock).await);
    for node in ["node-1", "node-2", "node-3"] {
        log.wait_for("WARN", &["node refuses", node, "out of memory"]).await;
    }
    looked_at(&servers).await;
    refusing(&redlock, &[0, 1, 2]).await;
    assert!(!is_ready(&redlock).await);
    assert_eq!(log.count("WARN"), 3, "{}", log.text());
    // Health checks run without requests.
    limit(&servers[..1], "0");
    eventually_async("the node votes again", async || redlock.health()[0].is_voting()).await;
    log.wait_for("INFO", &["node no longer refuses", "node-1"]).await;
    refusing(&redlock, &[1, 2]).await;
    assert!(!is_ready(&redlock).await, "one of three votes is no quorum");
    limit(&servers, "0");
    in_time(redlock.ready()).await.unwrap();
    all_vote(&redlock).await;
    works(&redlock).await;
}

#[tokio::test]
async fn node_full_from_start_shows_refusing() {
    let servers = [RedisServer::with(&["--maxmemory", "1"])];
    let redlock = manager(urls(&servers));
    refusing(&redlock, &[0]).await;
    assert!(!is_ready(&redlock).await);
    limit(&servers, "0");
    in_time(redlock.ready()).await.unwrap();
    works(&redlock).await;
}
