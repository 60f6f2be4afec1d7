//! New sets have a probation once, and report it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tower_redlock::{Redlock, error::Reason, node::NodeState};

use crate::fixture::{
    LONG, Log, LoggedSpawner, RedisServer, all_vote,
    guard::{
        MAX_TTL, guarded, manager, meta, probation, quick, reason, refused, settled, slow, taken,
        works,
    },
    in_time, urls,
};

#[tokio::test]
async fn new_set_works_after_probation() {
    for count in [1, 2, 3, 5] {
        let servers = RedisServer::start_n(count);
        let started = Instant::now();
        let redlock = manager(&servers);
        in_time(redlock.ready()).await.unwrap();
        assert!(started.elapsed() > MAX_TTL, "{:?}", started.elapsed());
        works(&redlock).await;
    }
}

#[tokio::test]
async fn new_set_reports_its_probation() {
    let servers = RedisServer::start_n(3);
    let log = Log::new();
    let spawner = LoggedSpawner::start(&log);
    let redlock = guarded(quick(), urls(&servers)).spawner(spawner).build().unwrap();
    probation(&redlock, &[0, 1, 2]).await;
    for health in redlock.health() {
        let NodeState::Probation { remaining, since, .. } = health.state else {
            panic!("{health:?}")
        };
        assert!(remaining + since <= MAX_TTL.mul_f64(1.01) + Duration::from_millis(2) + since);
        assert!(remaining > Duration::ZERO);
        assert_eq!(health.max_ttl, Some(MAX_TTL));
    }
    let votes = refused(&redlock, "x").await;
    for node in 0..3 {
        assert!(matches!(reason(&votes, node), Reason::Probation { .. }), "{votes}");
    }
    let text = votes.to_string();
    assert!(text.contains("in probation: it may have forgotten locks, and votes in"), "{text}");
    for node in ["node=node-1", "node=node-2", "node=node-3"] {
        log.wait_for("INFO", &[node, "in probation", "votes_in=1.0"]).await;
    }
    all_vote(&redlock).await;
    for node in ["node=node-1", "node=node-2", "node=node-3"] {
        log.wait_for("INFO", &[node, "probation ended", "mode=bootstrap"]).await;
        log.wait_for("INFO", &[node, "the node may vote again"]).await;
    }
}

#[tokio::test]
async fn dead_minority_joins_new_set_later() {
    let mut servers = RedisServer::start_n(5);
    servers[1].kill();
    servers[3].kill();
    let redlock = manager(&servers);
    in_time(redlock.ready()).await.unwrap();
    works(&redlock).await;
    servers[1].restart();
    servers[3].restart();

    all_vote(&redlock).await;
}

#[tokio::test]
async fn dead_majority_keeps_new_set_unusable() {
    let mut servers = RedisServer::start_n(3);
    servers[1].kill();
    servers[2].kill();
    let redlock = manager(&servers);
    let early = tokio::time::timeout(MAX_TTL * 3, redlock.ready()).await;
    assert!(early.is_err(), "{:?}", redlock.health());
    let NodeState::Probation { remaining, .. } = redlock.health()[0].state else {
        panic!("{:?}", redlock.health())
    };
    assert_eq!(remaining, Duration::ZERO, "the node waits only for the others");
    servers[1].restart();
    in_time(redlock.ready()).await.unwrap();
}

/// A loss of all data looks like a new set: no earlier token may be granted again.
#[tokio::test]
async fn blank_set_continues_above_its_tokens() {
    let mut servers = RedisServer::start_n(3);
    let redlock = settled(&servers).await;
    let mut last = 0;
    for _ in 0..5 {
        let lock = taken(&redlock, "x").await;
        last = lock.fencing_token().get();
        lock.release().await.unwrap();
    }
    drop(redlock);
    servers.iter_mut().for_each(RedisServer::restart);
    // A client that knows no tokens, with a clock that proposes lower ones.
    let slow = guarded(quick().clock(slow()), urls(&servers)).build().unwrap();
    all_vote(&slow).await;
    let lock = taken(&slow, "x").await;
    assert!(lock.fencing_token().get() > last);
    let floors: Vec<_> = servers.iter().map(|server| meta(server)["floor"].clone()).collect();
    assert!(floors.iter().all(|floor| floor.parse::<u64>().unwrap() > last), "{floors:?}");
}

#[tokio::test]
async fn total_loss_outlasts_earlier_locks() {
    let mut servers = RedisServer::start_n(3);
    let redlock = settled(&servers).await;
    let held = Arc::new(taken(&redlock, "x").await);
    servers.iter_mut().for_each(RedisServer::restart);
    let next = in_time(async { manager(&servers).lock("x").wait(LONG).await }).await.unwrap();
    assert!(!held.is_valid(), "two clients hold the lock");
    assert!(next.fencing_token() > held.fencing_token());
}

/// Longer than any test waits.
const HOUR: Duration = Duration::from_secs(3600);

/// A manager that takes servers without a record of a vote as new. A probation would outlast the test.
fn assuming(servers: &[RedisServer]) -> Redlock {
    let builder = Redlock::builder().max_ttl(HOUR).node_timeout(Duration::from_secs(1));
    guarded(builder.assume_new_servers(), urls(servers)).build().unwrap()
}

#[tokio::test]
async fn servers_assumed_new_vote_at_once() {
    for count in [1, 2, 3, 5] {
        let servers = RedisServer::start_n(count);
        let started = Instant::now();
        let redlock = assuming(&servers);

        drop(taken(&redlock, "x").await);
        println!("{count} servers: the first lock after {:?}", started.elapsed());

        all_vote(&redlock).await;
        let floors: Vec<_> = servers.iter().map(|server| meta(server)["floor"].clone()).collect();
        assert!(floors.iter().all(|floor| floor != "0"), "each vote is recorded: {floors:?}");
        works(&guarded(Redlock::builder().max_ttl(HOUR), urls(&servers)).build().unwrap()).await;
    }
}

#[tokio::test]
async fn servers_that_voted_are_not_assumed_new() {
    let mut servers = RedisServer::start_n(3);
    let redlock = assuming(&servers);
    all_vote(&redlock).await;

    servers[1].restart();

    probation(&redlock, &[1]).await;
    let later = assuming(&servers);
    probation(&later, &[1]).await;
    drop(redlock);
    servers[0].restart();
    servers[2].kill();
    let alone = assuming(&servers);
    probation(&alone, &[0, 1]).await;
    let votes = refused(&alone, "x").await;
    assert!(matches!(reason(&votes, 0), Reason::Probation { .. }), "{votes}");
}

#[tokio::test]
async fn restarted_servers_with_data_are_not_assumed_new() {
    let mut server = [RedisServer::with(&["--appendonly", "yes"])];
    let redlock = assuming(&server);
    all_vote(&redlock).await;

    server[0].restart_keeping_data();

    probation(&redlock, &[0]).await;
    probation(&assuming(&server), &[0]).await;
    assert!(refused(&redlock, "x").await.to_string().contains("in probation"));
}

#[tokio::test]
async fn new_servers_wait_for_a_missing_one() {
    let mut servers = RedisServer::start_n(3);
    servers[2].kill();
    let redlock = assuming(&servers);
    probation(&redlock, &[0, 1]).await;
    let votes = refused(&redlock, "x").await;
    assert!(matches!(reason(&votes, 0), Reason::Probation { .. }), "{votes}");
    servers[2].restart();
    works(&redlock).await;
}

#[tokio::test]
async fn assumption_is_reported() {
    let servers = RedisServer::start_n(1);
    let log = Log::new();
    let spawner = LoggedSpawner::start(&log);
    let builder = quick().assume_new_servers();
    let build = async { guarded(builder, urls(&servers)).spawner(spawner).build().unwrap() };
    let redlock = log.during(build).await;
    works(&redlock).await;

    log.wait_for("WARN", &["assume_new_servers", "two holders"]).await;
    log.wait_for("INFO", &["probation ended", "mode=new"]).await;
}
