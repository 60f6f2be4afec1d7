//! Copies of large or many records to a node that forgot them.

use std::time::{Duration, Instant};

use tower_redlock::{
    Redlock,
    node::{CopyProgress, NodeState},
};

use crate::fixture::{
    HANG_GUARD, Log, LoggedSpawner, Proxy, RedisServer, Resp, all_vote, eventually_async,
    guard::{all_copied, guarded, has_all_records, probation, quick, settled, votes, works},
};

const RECORD: usize = 60_000;

/// Bytes that a node copies per second.
const RATE: u64 = 10_000_000;

/// Stores a number of large records on a server, for an hour.
fn record(server: &RedisServer, records: usize) {
    fill(server, records, &format!("string.rep('x', {RECORD}) .. i"));
}

/// Stores records with values that an expression of their number `i` gives, for an hour.
fn fill(server: &RedisServer, records: usize, value: &str) {
    let fill = format!(
        "for i = 1, ARGV[1] do \
           redis.call('SET', 'redlock:done:' .. i, {value}, 'PX', 3600000) \
         end return redis.status_reply('OK')"
    );
    let answer = server.cli(&["EVAL", &fill, "0", &records.to_string()]);
    assert_eq!(answer, Resp::Simple("OK".into()));
}

#[track_caller]
fn assert_recorded(server: &RedisServer, records: usize) {
    assert_eq!(server.keys("redlock:done:*").len(), records);
    for i in [1, records / 2, records] {
        let value = server.get(&format!("redlock:done:{i}")).expect("a copied record");
        assert_eq!(value.len(), RECORD + i.to_string().len());
        assert!(value.ends_with(i.to_string().as_bytes()));
    }
}

/// Polls until the node has all records, and calls `look` with the progress.
async fn watch(
    redlock: &Redlock,
    server: &RedisServer,
    mut look: impl AsyncFnMut(Option<CopyProgress>),
) {
    let started = Instant::now();
    while !has_all_records(server) {
        assert!(started.elapsed() < 10 * HANG_GUARD, "{:?}", redlock.health());
        look(redlock.health()[1].copying).await;
        // Sampling interval of the progress.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn down(redlock: &Redlock) -> Vec<NodeState> {
    let states = redlock.health().into_iter().map(|health| health.state);
    states.filter(|state| matches!(state, NodeState::Down { .. })).collect()
}

#[tokio::test]
async fn slow_links_carry_large_records() {
    const RECORDS: usize = 520;
    let mut servers = RedisServer::start_n(3);
    let proxies = [Proxy::start(servers[0].addr()), Proxy::start(servers[2].addr())];
    let nodes = [proxies[0].url(), servers[1].url(), proxies[1].url()];
    let log = Log::new();
    let settings = Redlock::builder()
        .ttl(Duration::from_secs(3))
        .node_timeout(Duration::from_millis(300))
        .spawner(LoggedSpawner::start(&log));
    let redlock = guarded(settings, nodes).build().unwrap();
    all_vote(&redlock).await;
    for server in [&servers[0], &servers[2]] {
        record(server, RECORDS);
    }
    servers[1].restart();
    probation(&redlock, &[1]).await;
    votes(&redlock, 1).await;
    let connections = || proxies.each_ref().map(Proxy::connections);
    let before = connections();
    for proxy in &proxies {
        proxy.set_rate(RATE);
    }
    let mut seen = Vec::new();
    watch(&redlock, &servers[1], async |progress| {
        assert_eq!(down(&redlock), [], "the connections that vote stay open");
        seen.extend(progress);
        works(&redlock).await;
    })
    .await;
    assert_recorded(&servers[1], RECORDS);
    let bytes: Vec<u64> = seen.iter().map(|progress| progress.bytes).collect();
    assert!(bytes.is_sorted() && seen.is_sorted_by_key(|progress| progress.records), "{seen:?}");
    let steps = bytes.chunk_by(|a, b| a == b).count();
    assert!(steps > 10, "{bytes:?}");
    // At most one connection of each kind, and none that was replaced.
    let more = [0, 1].map(|node| connections()[node] - before[node]);
    assert!(more.iter().all(|more| *more <= 1), "{more:?}\n{}", log.text());
    for server in [&servers[0], &servers[2]] {
        let longest = server.info("clients", "client_recent_max_output_buffer").unwrap();
        assert!(longest.parse::<usize>().unwrap() < 2_000_000, "{longest} bytes in one answer");
    }
    eventually_async("the copy has ended", async || redlock.health()[1].copying.is_none()).await;
}

#[tokio::test]
async fn others_show_and_finish_it() {
    const RECORDS: usize = 500;
    let mut servers = RedisServer::start_n(3);
    let mut clients = vec![settled(&servers).await, settled(&servers).await];
    for server in [&servers[0], &servers[2]] {
        record(server, RECORDS);
    }
    servers[1].restart();
    for client in &clients {
        probation(client, &[1]).await;
    }
    let has_copied =
        |client: &Redlock| client.health()[1].copying.is_some_and(|progress| progress.records > 20);
    let mut copier = None;
    eventually_async("a client copies records", async || {
        copier = clients.iter().position(has_copied);
        copier.is_some()
    })
    .await;
    let first = clients.remove(copier.expect("a client that copies"));
    let rest = &clients[0];
    eventually_async("another client shows the progress", async || {
        assert!(!has_all_records(&servers[1]), "the progress is not shown");
        rest.health()[1].copying.is_some_and(|progress| progress.records > 0)
    })
    .await;
    assert!(!has_all_records(&servers[1]), "{:?}", rest.health());
    drop(first);
    watch(rest, &servers[1], async |_| {}).await;
    assert_recorded(&servers[1], RECORDS);
}

#[tokio::test]
async fn a_source_that_forgets_is_incomplete() {
    const RECORDS: usize = 200;
    let mut servers = RedisServer::start_n(5);
    let log = Log::new();
    let settings = quick().spawner(LoggedSpawner::start(&log));
    // Changes the permissions of the default user.
    let urls = servers.iter().map(RedisServer::plain_url);
    let redlock = guarded(settings, urls).build().unwrap();
    all_vote(&redlock).await;
    all_copied(&servers).await;
    record(&servers[0], RECORDS);
    // Three of the four others have to be complete.
    servers[4].cli(&["ACL", "SETUSER", "default", "-scan"]);
    let ends = || {
        let is_end = |line: &&str| line.contains("long-lived") && line.contains("node=node-2");
        log.text().lines().filter(is_end).count()
    };
    let before = ends();
    servers[1].restart();
    probation(&redlock, &[1]).await;
    eventually_async("the copy is under way", async || {
        redlock.health()[1].copying.is_some_and(|progress| progress.records > 0)
    })
    .await;
    servers[0].cli(&["FLUSHALL"]);
    eventually_async("an end was attempted", async || ends() > before).await;
    assert!(!has_all_records(&servers[1]), "{}", log.text());
    servers[4].cli(&["ACL", "SETUSER", "default", "+scan"]);
    eventually_async("all records are copied", async || has_all_records(&servers[1])).await;
}
