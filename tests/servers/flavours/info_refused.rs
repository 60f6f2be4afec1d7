//! Servers that refuse INFO in scripts, as proxies of services do: real ones, whose scripts are altered
//! on the way to them.

use tower_redlock::{
    Redlock,
    error::Reason,
    node::{Finding, NodeHealth, NodeState, redis::RestartGuard},
};

use super::altered::Altered;
use crate::{
    guards::scene::{
        all_vote, fences, forgets, guarded, in_time, quick, refused, tag, taken, urls,
    },
    support::{RedisServer, Resp, eventually_async, over},
};

async fn settled_by(servers: &[RedisServer], connector: Altered) -> Redlock {
    let redlock = guarded(quick(), urls(servers)).connector(connector).build().unwrap();
    all_vote(&redlock).await;
    redlock
}

async fn settled(servers: &[RedisServer]) -> Redlock {
    settled_by(servers, Altered::refusing_info()).await
}

fn run_id(server: &RedisServer) -> String {
    let text = match server.cli(&["INFO", "server"]) {
        Resp::Bulk(Some(bytes)) => String::from_utf8(bytes).unwrap(),
        other => panic!("{other:?}"),
    };
    let line = text.lines().find_map(|line| line.strip_prefix("run_id:"));
    line.expect("a run id").to_owned()
}

#[tokio::test]
async fn set_begins_and_locks() {
    let servers = RedisServer::start_n(3);
    let redlock = settled(&servers).await;
    let lock = taken(&redlock, "x").await;
    let other = guarded(quick(), urls(&servers)).build().unwrap();
    all_vote(&other).await;
    assert!(in_time(async { other.lock("x").await }).await.is_err(), "two clients hold the lock");
    drop(lock);
    drop(taken(&other, "x").await);
    for (mine, others) in redlock.health().iter().zip(other.health()) {
        assert_eq!(mine.findings, [Finding::NoInfoInScripts]);
        assert_eq!(others.findings, []);
        assert!(mine.kind.is_some());
        assert_eq!((mine.kind, &mine.version), (others.kind, &others.version));
        assert_eq!(mine.incarnation, others.incarnation);
    }
}

#[tokio::test]
async fn blank_server_enters_probation() {
    let mut servers = RedisServer::start_n(3);
    let redlock = settled(&servers).await;
    drop(taken(&redlock, "x").await);
    forgets(&redlock, 1, || servers[1].restart()).await;
    assert_eq!(fences(&servers[1]), fences(&servers[0]));
    drop(taken(&redlock, "x").await);
}

#[tokio::test]
async fn server_with_data_enters_probation() {
    let mut servers = RedisServer::start_n(2);
    let keeps = ["--appendonly", "yes", "--appendfsync", "always"];
    servers.insert(1, RedisServer::with(&keeps));
    let redlock = settled(&servers).await;
    let before = tag(&servers[1]);
    forgets(&redlock, 1, || servers[1].restart_keeping_data()).await;
    assert_ne!(tag(&servers[1]), before);
}

#[tokio::test]
async fn server_flushed_enters_probation() {
    let servers = RedisServer::start_n(3);
    let redlock = settled(&servers).await;
    forgets(&redlock, 1, || drop(servers[1].cli(&["FLUSHALL"]))).await;
}

#[tokio::test]
async fn replica_of_other_node_enters_probation() {
    let servers = RedisServer::start_n(3);
    let redlock = settled(&servers).await;
    forgets(&redlock, 1, || {
        servers[1].replica_of(&servers[0]);
        servers[1].promote();
    })
    .await;
    all_vote(&redlock).await;
}

#[tokio::test]
async fn replica_gives_no_vote() {
    let servers = RedisServer::start_n(3);
    let redlock = settled(&servers).await;
    servers[1].replica_of(&servers[0]);
    eventually_async("the replica is detected", async || {
        matches!(redlock.health()[1].state, NodeState::Down { reason: Reason::ReadOnly, .. })
    })
    .await;
}

/// The connection stays, and leads to another server.
#[tokio::test]
async fn failover_behind_connection_enters_probation() {
    let servers = RedisServer::start_n(3);
    let connector = Altered::refusing_info();
    let redlock = settled_by(&servers, connector.clone()).await;
    let before = tag(&servers[1]);
    forgets(&redlock, 1, || connector.change_read(&run_id(&servers[1]), &"7".repeat(40))).await;
    assert_ne!(tag(&servers[1]), before);
    assert_eq!(redlock.health()[1].run_id.as_deref(), Some(&*"7".repeat(40)));
}

#[tokio::test]
async fn full_blank_server_is_not_enrolled() {
    let servers = [RedisServer::with(&["--maxmemory", "1"])];
    let redlock = guarded(quick(), urls(&servers)).connector(Altered::refusing_info());
    let redlock = redlock.build().unwrap();
    eventually_async("the server is reported as full", async || {
        matches!(redlock.health()[0].state, NodeState::Refusing { reason: Reason::OutOfMemory, .. })
    })
    .await;
    assert_eq!(tag(&servers[0]), "");
}

#[tokio::test]
async fn ids_of_other_forms_are_hashed() {
    let servers = RedisServer::start_n(3);
    let mut connector = Altered::refusing_info();
    for (number, server) in servers.iter().enumerate() {
        let id = run_id(server);
        let other = match number {
            0 => format!("{}-{}", &id[..8], &id[9..]),
            // An id of 10 digits, and another line.
            1 => format!("{}\r\nrest:{}", &id[..10], "0".repeat(23)),
            _ => id.to_uppercase(),
        };
        connector = connector.read(&id, &other);
    }
    let redlock = settled_by(&servers, connector).await;
    drop(taken(&redlock, "x").await);
    for health in redlock.health() {
        let incarnation = health.incarnation.expect("an incarnation");
        assert!(incarnation.len() == 32 && incarnation.bytes().all(|b| b.is_ascii_hexdigit()));
    }
}

#[tokio::test]
async fn servers_without_run_id_are_unfit() {
    let servers = RedisServer::start_n(3);
    let connector = || Altered::refusing_info().read("run_id:", "run_no:");
    let redlock = guarded(quick(), urls(&servers)).connector(connector()).build().unwrap();
    eventually_async("the servers are found unfit", async || {
        let unfit = |health: NodeHealth| health.state.to_string().contains("INFO has no run_id");
        redlock.health().into_iter().all(unfit)
    })
    .await;
    refused(&redlock, "x").await;
    assert!(servers.iter().all(|server| tag(server).is_empty()));

    let unguarded = over(quick(), urls(&servers)).restart_guard(RestartGuard::Off);
    let redlock = unguarded.connector(connector()).build().unwrap();
    all_vote(&redlock).await;
    drop(taken(&redlock, "x").await);
    for health in redlock.health() {
        assert_eq!(health.findings, [Finding::NoRunId, Finding::NoInfoInScripts]);
        assert_eq!(health.run_id, None);
    }
}
