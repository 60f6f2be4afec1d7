//! Servers of a layout that no client uses any more.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tower_redlock::{LockError, Redlock, error::Reason};

use super::scene::{MAX_TTL, all_vote, guarded, quick, refusal, tag, taken};
use crate::{
    failures::log::{Log, LoggedSpawner},
    support::{HANG_GUARD, RedisServer},
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

#[tokio::test]
async fn named_single_server_has_any_host_name() {
    let server = RedisServer::start();
    let named = |url| quick().named_node("locks", url).build().unwrap();
    let by_address = named(server.url());
    all_vote(&by_address).await;

    let by_name = named(server.url_by_name());

    by_name.ready_within(HANG_GUARD).await.expect("it is the same set");
    let lock = by_address.lock("x").await.unwrap();
    assert!(matches!(by_name.lock("x").await, Err(LockError::Held { .. })));
    drop(lock);
}

#[tokio::test]
async fn first_start_with_two_of_three() {
    taken_over(2, 3).await;
}

#[tokio::test]
async fn first_start_with_one_of_three() {
    taken_over(1, 3).await;
}

#[tokio::test]
async fn larger_set_follows_a_smaller_one() {
    taken_over(3, 5).await;
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

/// The data that a client of the former form stored: its fences and the tag, which has another
/// layout.
fn store_former_form(server: &RedisServer, token: u64) {
    let run = |section, field| server.info(section, field).expect("an id")[..16].to_owned();
    let run = run("server", "run_id") + &run("replication", "master_replid");
    let tag = format!("a {run} 00112233aabbccdd 0102030405060708 00000001 1122334455667788");
    let fences = (0..1_024).flat_map(|stripe| [format!("f{stripe}"), token.to_string()]);
    let layout = "3 nodes (node-1, node-2, node-3), prefix redlock, restart guard on";
    let fields =
        [["tag", &tag], ["layout", layout], ["max_ttl", "1000"], ["size", "3"], ["seen", "7"]];
    let command = ["HSET", "redlock:meta"].map(str::to_owned).into_iter().chain(fences);
    let fields = fields.concat().into_iter().map(str::to_owned);
    server.cli(&command.chain(fields).collect::<Vec<_>>());
}

/// A client of the former form never votes on the same servers as a client of the present form: its
/// servers belong to another set, until no client uses that set.
#[tokio::test]
async fn former_form_is_taken_over() {
    let servers = RedisServer::start_n(3);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let token = u64::try_from(now.as_micros()).unwrap();
    for server in &servers {
        store_former_form(server, token);
    }
    let log = Log::new();

    let redlock = list(&servers, &log);

    let Reason::OtherLayout { ours, .. } = refusal(&redlock, 0).await else { panic!("it votes") };
    // The text that a client of the former form reports when the servers are taken over.
    assert!(ours.contains("upgrade"), "{ours}");
    assert!(matches!(redlock.lock("x").await, Err(LockError::NoQuorum { .. })));

    let lock = redlock.lock("x").wait(HANG_GUARD * 12).await.unwrap();
    assert!(lock.fencing_token().get() > token);
    assert!(servers.iter().all(|server| tag(server)[35..51] != *"00112233aabbccdd"));
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
    }

    assert!(!log.text().contains("no client uses"), "{}", log.text());
}
