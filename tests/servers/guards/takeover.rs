//! Servers of a layout that no client uses any more.

use std::time::{Duration, Instant};

use tower_redlock::{LockError, Redlock, error::Reason};

use crate::fixture::{
    HANG_GUARD, Log, LoggedSpawner, RedisServer, all_vote,
    guard::{MAX_TTL, guarded, quick, refusal, tag, taken},
};

/// From the first connection until a set that no client uses votes for another one: 1.25 times
/// `max_ttl` and 10 s, a probation, and the drift of both.
const TAKEOVER: Duration = Duration::from_millis(11_262 + 1_012);
/// Maximum time for connections and health checks on a busy machine.
const SLACK: Duration = Duration::from_secs(10);

/// Longer than the time after which a set counts as unused: 1.25 times `max_ttl`, its drift, and 10
/// s.
const WATCHED: Duration = Duration::from_secs(13);

fn list(servers: &[RedisServer], log: &Log) -> Redlock {
    let builder = quick().spawner(LoggedSpawner::start(log));
    guarded(builder, servers.iter().map(RedisServer::url)).build().unwrap()
}

async fn taken_over(first: usize, all: usize) {
    let servers = RedisServer::start_n(all);
    let log = Log::new();
    let wrong = list(&servers[..first], &log);
    all_vote(&wrong).await;
    let lock = taken(&wrong, "x").await;
    let token = lock.fencing_token();
    drop((lock, wrong));
    let begun = Instant::now();
    let right = list(&servers, &log);
    assert!(matches!(refusal(&right, 0).await, Reason::OtherLayout { .. }));
    right.ready_within(TAKEOVER + SLACK).await.expect("the set is taken over in time");
    assert!(begun.elapsed() > TAKEOVER, "its former clients may return: {:?}", begun.elapsed());
    let next = right.lock("x").wait(HANG_GUARD * 12).await.unwrap();
    assert!(next.fencing_token() > token);
    all_vote(&right).await;
    let lists = [format!("former={first} nodes (node-1"), format!("ours={all} nodes (node-1")];
    log.wait_for("WARN", &["no client uses", "redlock adopt", &lists[0], &lists[1]]).await;
}

#[tokio::test]
async fn larger_set_follows_a_smaller_one() {
    tokio::join!(taken_over(1, 3), taken_over(3, 5));
}

/// Builds a manager over a single server.
fn single(url: String, log: &Log) -> Redlock {
    quick().nodes([url]).spawner(LoggedSpawner::start(log)).build().unwrap()
}

/// The name of a node is made of its URL.
#[tokio::test]
async fn single_server_by_another_host_name_is_another_set() {
    let server = RedisServer::start();
    let log = Log::new();
    let by_address = single(server.url(), &log);
    all_vote(&by_address).await;
    drop(by_address);

    let by_name = single(server.url_by_name(), &log);

    let why = refusal(&by_name, 0).await;
    assert!(matches!(why, Reason::OtherLayout { .. }), "{why}");
    let todo = by_name.readiness().unwrap_err().to_string();
    assert!(todo.contains("give a name to a node that programs reach by different"), "{todo}");
    by_name.ready_within(TAKEOVER + SLACK).await.expect("it is taken over");
    let text = log.text();
    let warning = text.lines().find(|line| line.contains("no client uses")).expect("a warning");
    let former = format!("former=1 nodes (127.0.0.1:{}", server.port());
    let ours = format!("ours=1 nodes (localhost:{}", server.port());
    for part in ["WARN", &former, &ours, "give names to nodes", "redlock adopt"] {
        assert!(warning.contains(part), "{part}: {warning}");
    }
    assert!(matches!(refusal(&single(server.url(), &log), 0).await, Reason::OtherLayout { .. }));
}

/// The other nodes are taken over before it, and the new set needs it as well.
#[tokio::test]
async fn node_with_later_mark_follows() {
    let servers = RedisServer::start_n(5);
    let log = Log::new();
    let wrong = list(&servers[..3], &log);
    all_vote(&wrong).await;
    drop(wrong);
    let layout = |server: &RedisServer| tag(server)[35..51].to_owned();
    let old = layout(&servers[0]);
    let right = list(&servers, &log);
    assert!(matches!(refusal(&right, 2).await, Reason::OtherLayout { .. }));
    let is_moved = |server: &RedisServer| layout(server) != old;
    let started = Instant::now();
    while !servers[..2].iter().all(is_moved) {
        assert!(started.elapsed() < 6 * HANG_GUARD, "the others are not taken over");
        servers[2].cli(&["HINCRBY", "redlock:meta", "seen", "1"]);
        // Interval between the marks of a client.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(!is_moved(&servers[2]));
    drop(right.lock("x").wait(HANG_GUARD * 12).await.unwrap());
    all_vote(&right).await;
}

#[tokio::test]
async fn set_in_use_is_left_alone() {
    let servers = RedisServer::start_n(3);
    let log = Log::new();
    let used = list(&servers[..2], &log);
    all_vote(&used).await;
    let other = list(&servers, &log);
    assert!(matches!(refusal(&other, 0).await, Reason::OtherLayout { .. }));
    let until = Instant::now() + WATCHED;
    while Instant::now() < until {
        let lock = used.lock("x").wait(MAX_TTL * 5).await.expect("its set continues");
        assert!(matches!(other.lock("x").await, Err(LockError::NoQuorum { .. })));
        // A slow acknowledgement is not a loss.
        let _ = lock.release().await;
        // Clients of a set in use lock far less often than they could.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!log.text().contains("no client uses"), "{}", log.text());
}
