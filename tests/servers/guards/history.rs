//! Servers that lose data, or return to older data, in different ways.

use std::thread;

use tower_redlock::{Redlock, error::Reason};

use crate::fixture::{
    RedisServer, Snapshot, all_vote, eventually,
    guard::{MAX_TTL, forgets, manager, probation, reason, refused, settled, tag, taken, votes},
    in_time, runtime,
};

/// Two servers, and the forgetful one between them.
fn three_with(forgetful: RedisServer) -> Vec<RedisServer> {
    let mut servers = RedisServer::start_n(2);
    servers.insert(1, forgetful);
    servers
}

async fn take_some(redlock: &Redlock) {
    for name in ["a", "b"] {
        // On a busy machine, an acknowledgement may be late.
        let _ = taken(redlock, name).await.release().await;
    }
}

#[tokio::test]
async fn flushed_server_loses_vote_at_once() {
    let servers = RedisServer::start_n(3);
    let redlock = settled(&servers).await;
    servers[1].cli(&["FLUSHALL"]);
    servers[2].cli(&["FLUSHALL"]);
    // No health check has run yet: the servers themselves refuse.
    let votes = refused(&redlock, "x").await;

    for node in [1, 2] {
        let why = reason(&votes, node);
        // On a busy machine an answer may be too late, which is no vote either.
        let found_out =
            matches!(why, Reason::WrongTag { .. } | Reason::Probation { .. } | Reason::TimedOut);
        assert!(found_out, "{votes}");
    }
}

/// Makes the server of node 1 lose data; also gets a snapshot of it from before the last locks.
type Loss = fn(&mut [RedisServer], &Snapshot);

const LOSSES: [Loss; 6] = [
    |servers, _| drop(servers[1].cli(&["FLUSHALL"])),
    |servers, _| drop(servers[1].cli(&["FLUSHDB"])),
    |servers, old| servers[1].restart_from(old),
    |servers, _| {
        let foreign = servers[0].save_snapshot();
        servers[1].restart_from(&foreign);
    },
    |servers, _| {
        let stranger = RedisServer::start();
        servers[1].replica_of(&stranger);
        servers[1].promote();
    },
    |servers, _| {
        servers[1].replica_of(&servers[0]);
        servers[1].promote();
    },
];

#[test]
fn server_that_lost_data_enters_probation() {
    let enters_probation = async |loss: Loss| {
        let mut servers = RedisServer::start_n(3);
        let redlock = settled(&servers).await;
        let old = servers[1].save_snapshot();
        take_some(&redlock).await;
        forgets(&redlock, 1, || loss(&mut servers, &old)).await;
        all_vote(&redlock).await;
    };
    thread::scope(|scope| {
        for loss in LOSSES {
            scope.spawn(move || runtime().block_on(enters_probation(loss)));
        }
    });
}

#[tokio::test]
async fn server_with_data_enters_probation() {
    let mut servers =
        three_with(RedisServer::with(&["--appendonly", "yes", "--appendfsync", "always"]));
    let redlock = settled(&servers).await;
    take_some(&redlock).await;
    let before = tag(&servers[1]);
    forgets(&redlock, 1, || servers[1].restart_keeping_data()).await;
    assert_ne!(tag(&servers[1]), before);
}

/// The least visible change: the same process and the same tag. Only the history differs.
#[tokio::test]
async fn server_synced_backwards_enters_probation() {
    let servers = RedisServer::start_n(3);
    let replica = RedisServer::start();
    // Done before the set begins: a server's first replica gives it another history, which causes a
    // probation.
    replica.replica_of(&servers[1]);
    let redlock = settled(&servers).await;
    let before = tag(&servers[1]);
    eventually("the replica has the tag", || tag(&replica) == before);
    replica.promote();
    take_some(&redlock).await;
    forgets(&redlock, 1, || {
        servers[1].replica_of(&replica);
        // Once it is a master again, the next health check of a manager changes it.
        assert_eq!(tag(&servers[1]), before);
        servers[1].promote();
    })
    .await;
}

#[tokio::test]
async fn promoted_replica_enters_probation() {
    let mut servers = RedisServer::start_n(3);
    let redlock = settled(&servers).await;
    let replica = RedisServer::start();
    replica.replica_of(&servers[1]);
    take_some(&redlock).await;
    replica.promote();
    let its_data = replica.save_snapshot();
    forgets(&redlock, 1, || servers[1].restart_from(&its_data)).await;
}

#[tokio::test]
async fn late_client_detects_the_loss() {
    let mut servers = RedisServer::start_n(3);
    let first = settled(&servers).await;
    take_some(&first).await;
    drop(first);
    servers[1].restart();
    let started = std::time::Instant::now();
    let redlock = manager(&servers);
    probation(&redlock, &[1]).await;
    in_time(async { redlock.ready().await }).await.unwrap();

    votes(&redlock, 1).await;

    assert!(started.elapsed() > MAX_TTL);
}
