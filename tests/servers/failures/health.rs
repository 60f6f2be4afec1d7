//! Health of a server without faults, and events about nodes.

use std::time::Duration;

use tokio::sync::broadcast::Receiver;
use tower_redlock::{
    Redlock,
    error::Reason,
    lock::{LockEvent, LockEventKind},
    node::{NodeHealth, Role, ServerKind},
};

use crate::fixture::{
    Feature, RedisServer, all_vote, eventually_async, faults::patient, has, in_time, urls,
};

fn only(redlock: &Redlock) -> NodeHealth {
    redlock.health().pop().expect("a node")
}

async fn of(server: &RedisServer) -> Redlock {
    let redlock = patient([server.url()]).build().unwrap();
    all_vote(&redlock).await;
    redlock
}

#[tokio::test]
async fn health_describes_the_server() {
    let server = RedisServer::start();
    let builder = Redlock::builder().named_node("one", server.url());
    let redlock = builder.ttl(Duration::from_secs(1)).max_ttl(Duration::from_secs(3)).build();
    let redlock = redlock.unwrap();
    all_vote(&redlock).await;
    let health = only(&redlock);
    let info = |section, field| server.info(section, field).map(|text| text.trim().to_owned());
    assert_eq!(&*health.name, "one");
    assert_eq!(health.role(), Some(Role::Master));
    // Valkey reports the Redis version that it is compatible with in this field.
    let valkey = info("server", "valkey_version");
    let kind = if valkey.is_some() { ServerKind::Valkey } else { ServerKind::Redis };
    let version = valkey.or_else(|| info("server", "redis_version"));
    assert_eq!((health.kind, health.version.as_deref()), (Some(kind), version.as_deref()));
    let run_id = info("server", "run_id").expect("a run id");
    assert_eq!(health.run_id.as_deref(), Some(&*run_id));
    let history = info("replication", "master_replid").expect("a replication id");
    let incarnation = format!("{}{}", &run_id[..16], &history[..16]);
    assert_eq!(health.incarnation.as_deref(), Some(&*incarnation));
    assert_eq!(health.max_ttl, Some(Duration::from_secs(3)));
    let memory = health.memory.expect("INFO reports it");
    assert_eq!((memory.limit, &*memory.policy, memory.evicts()), (0, "noeviction", false));
    let trip = health.round_trip.expect("the round trip was measured");
    assert!(!trip.is_zero() && trip < Duration::from_secs(5), "{trip:?}");
    assert_eq!((health.in_flight, health.unacknowledged), (0, 0));
}

#[tokio::test]
async fn a_restarted_server_is_another_run() {
    let mut server = RedisServer::start();
    let redlock = of(&server).await;
    let before = only(&redlock).run_id.expect("a run id");
    server.restart();

    eventually_async("the new run is detected", async || {
        let health = only(&redlock);
        health.is_voting() && health.run_id.is_some_and(|now| now != before)
    })
    .await;
}

#[tokio::test]
async fn servers_clock_is_compared_with_ours() {
    if !has(&[Feature::Clock]) {
        return;
    }
    let server = RedisServer::with_clock(&[]);
    let redlock = of(&server).await;

    for offset in [0, 120, -45] {
        server.set_clock_offset(f64::from(offset));
        let wanted = i64::from(offset) * 1_000_000;
        eventually_async("the offset is detected", async || {
            let clock = only(&redlock).clock.expect("the clocks were compared");
            let wrong = i64::try_from(clock.uncertainty.as_micros()).unwrap() + 2;
            (clock.ahead_micros - wanted).abs() <= wrong
        })
        .await;
    }
}

#[tokio::test]
async fn health_shows_persistence() {
    let none = RedisServer::start();
    let aof = RedisServer::with(&["--appendonly", "yes"]);
    let snapshots = RedisServer::with(&["--save", "900", "1"]);
    let both = RedisServer::with(&["--appendonly", "yes", "--save", "900", "1"]);
    let cases =
        [(none, false, false), (aof, true, false), (snapshots, false, true), (both, true, true)];

    for (server, aof, snapshots) in cases {
        let persistence = only(&of(&server).await).persistence.expect("INFO reports it");
        assert_eq!((persistence.aof, persistence.snapshots), (aof, Some(snapshots)));
    }
}

/// Waits for the next event about a node.
async fn of_node(events: &mut Receiver<LockEvent>, wanted: &str) -> LockEventKind {
    loop {
        let event = in_time(events.recv()).await.expect("the sender is there").kind;
        match &event {
            LockEventKind::NodeOut { node, .. } | LockEventKind::NodeBack { node }
                if &**node == wanted =>
            {
                return event;
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn outages_and_returns_are_reported() {
    let mut servers = RedisServer::start_n(3);
    let redlock = patient(urls(&servers)).build().unwrap();
    all_vote(&redlock).await;
    let mut events = redlock.events();
    servers[1].kill();
    let out = of_node(&mut events, "node-2").await;
    assert!(matches!(out, LockEventKind::NodeOut { .. }), "{out:?}");
    servers[1].restart();
    while !matches!(of_node(&mut events, "node-2").await, LockEventKind::NodeBack { .. }) {}
    all_vote(&redlock).await;
    servers[2].replica_of(&servers[0]);
    let refuses = |event: &LockEventKind| {
        matches!(event, LockEventKind::NodeOut { reason: Reason::ReadOnly, .. })
    };
    while !refuses(&of_node(&mut events, "node-3").await) {
        let _ = redlock.lock("a").await;
    }
}
