//! Copies of large or many records to a node that forgot them.

use std::time::{Duration, Instant};

use tower_redlock::{
    Redlock,
    node::{CopyProgress, NodeState},
};

use super::scene::{all_vote, forgets, guarded, meta, probation, quick, settled, votes, works};
use crate::{
    failures::log::{Log, LoggedSpawner},
    support::{HANG_GUARD, Proxy, RedisServer, Resp, eventually_async},
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

fn is_complete(server: &RedisServer) -> bool {
    meta(server).get("once").is_some_and(String::is_empty)
}

/// Waits for the first copies of a new set, which would also copy the records that are stored next.
async fn all_complete(servers: &[RedisServer]) {
    eventually_async("a new set has no records", async || servers.iter().all(is_complete)).await;
}

/// Polls until the node has all records, and calls `look` with the progress.
async fn watch(
    redlock: &Redlock,
    server: &RedisServer,
    mut look: impl AsyncFnMut(Option<CopyProgress>),
) {
    let started = Instant::now();
    while !is_complete(server) {
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

/// Bytes that the first and the last server have sent.
fn sent(servers: &[RedisServer]) -> usize {
    let sent = |server: &RedisServer| server.info("stats", "total_net_output_bytes").unwrap();
    [&servers[0], &servers[2]].map(|server| sent(server).parse::<usize>().unwrap()).iter().sum()
}

#[tokio::test]
async fn a_second_carries_ten_megabytes() {
    const RECORDS: usize = 500;
    let mut servers = RedisServer::start_n(3);
    let redlock = settled(&servers).await;
    all_complete(&servers).await;
    for server in [&servers[0], &servers[2]] {
        record(server, RECORDS);
    }
    let before = sent(&servers);
    servers[1].restart();
    probation(&redlock, &[1]).await;
    let started = Instant::now();
    votes(&redlock, 1).await;
    watch(&redlock, &servers[1], async |_| {}).await;
    let took = started.elapsed();

    let least = Duration::from_micros((RECORDS * RECORD) as u64 * 1_000_000 / RATE);

    assert!(took > least, "{took:?} instead of {least:?}");
    assert_recorded(&servers[1], RECORDS);

    // Each record is read from one node.
    let sent = sent(&servers) - before;
    assert!(sent < RECORDS * RECORD * 21 / 20, "{sent} bytes");
}

/// Pages of the two sources overlap.
#[tokio::test]
async fn small_records_are_read_once() {
    const RECORDS: usize = 1_500;
    let mut servers = RedisServer::start_n(3);
    let log = Log::new();
    let settings = quick().spawner(LoggedSpawner::start(&log));
    let redlock = guarded(settings, servers.iter().map(RedisServer::url)).build().unwrap();
    all_vote(&redlock).await;
    all_complete(&servers).await;
    for server in [&servers[0], &servers[2]] {
        fill(server, RECORDS, "'d ' .. i");
    }
    servers[1].restart();
    probation(&redlock, &[1]).await;
    watch(&redlock, &servers[1], async |_| {}).await;
    let copied = format!("node=node-2 records={RECORDS} ");

    eventually_async("each record was read once", async || log.text().contains(&copied)).await;
}

/// Each source knows for half of the work that it is done, and for the rest that it was begun.
#[tokio::test]
async fn done_records_of_all_are_copied() {
    const RECORDS: usize = 1_500;
    let servers = RedisServer::start_n(3);
    let redlock = settled(&servers).await;
    all_complete(&servers).await;
    fill(&servers[0], RECORDS, "(i % 2 == 0 and 'd ' or 'u ') .. i");
    fill(&servers[2], RECORDS, "(i % 2 == 0 and 'u ' or 'd ') .. i");
    forgets(&redlock, 1, || drop(servers[1].cli(&["FLUSHALL"]))).await;
    watch(&redlock, &servers[1], async |_| {}).await;
    let count = "local n = 0 for i = 1, ARGV[1] do \
                   if redis.call('GET', 'redlock:done:' .. i) == 'd ' .. i then n = n + 1 end \
                 end return n";

    let done = servers[1].cli(&["EVAL", count, "0", &RECORDS.to_string()]);

    assert_eq!(done, Resp::Int(i64::try_from(RECORDS).unwrap()));
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
        assert!(!is_complete(&servers[1]), "the progress is not shown");
        rest.health()[1].copying.is_some_and(|progress| progress.records > 0)
    })
    .await;

    assert!(!is_complete(&servers[1]), "{:?}", rest.health());

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
    all_complete(&servers).await;
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

    assert!(!is_complete(&servers[1]), "{}", log.text());

    servers[4].cli(&["ACL", "SETUSER", "default", "+scan"]);
    eventually_async("all records are copied", async || is_complete(&servers[1])).await;
}

#[tokio::test]
async fn needed_source_is_read_on() {
    const RECORDS: usize = 20;
    let mut servers = RedisServer::start_n(5);
    let proxies: Vec<_> = servers.iter().map(|server| Proxy::start(server.addr())).collect();
    let log = Log::new();
    let settings = quick().spawner(LoggedSpawner::start(&log));
    let redlock = guarded(settings, proxies.iter().map(Proxy::url)).build().unwrap();
    all_vote(&redlock).await;
    all_complete(&servers).await;
    // It fails at once; the other three nodes are the minimum that suffices.
    servers[4].kill();
    record(&servers[0], RECORDS);
    // The other sources are read at once, and this one in about five seconds.
    proxies[0].set_rate((RECORDS * RECORD) as u64 / 5);
    servers[1].restart();
    votes(&redlock, 1).await;

    watch(&redlock, &servers[1], async |_| {}).await;

    assert_recorded(&servers[1], RECORDS);

    let copied = format!("node=node-2 records={RECORDS} ");
    assert!(log.text().contains(&copied), "in one attempt: {}", log.text());
}
