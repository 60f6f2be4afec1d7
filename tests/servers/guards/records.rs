//! Claims and records, which must not be lost with a server.

use std::{collections::BTreeMap, sync::Arc};

use crate::fixture::{
    Log, LoggedSpawner, RedisServer, Resp, acl, all_vote, eventually_async,
    guard::{
        all_copied, copy_state, forgets, guarded, hash, pairs, probation, quick, settled, tag,
        votes, works,
    },
    intercept::Interceptor,
    urls,
};

const MARKS: &str = "redlock:marks";

fn marks(server: &RedisServer, marks: &[(&str, &str)]) {
    for (name, value) in marks {
        server.cli(&["HSET", MARKS, name, value]);
    }
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test]
async fn blank_node_learns_the_highest_marks() {
    let mut servers = RedisServer::start_n(3);
    let redlock = settled(&servers).await;
    marks(
        &servers[0],
        &[
            ("a", "5 x"),
            ("b", "7"),
            ("c", "10 of node 1"),
            ("big", "9007199254740991"),
            ("claim:first", "7 1 1 1 0 0 0 0 0 #9 0 0 0 o"),
            ("claim:last", "7 1 1 1 0 0 0 0 0 #10 0 0 0 o"),
            ("claim:old", "7 1 1 1 0 0 0 0 0 o"),
        ],
    );
    marks(
        &servers[2],
        &[
            ("a", "9 y"),
            ("c", "9 of node 3"),
            ("d", "0"),
            ("odd name\n%", "3 a b c"),
            ("claim:first", "7 0 1 1 0 0 0 0 0 #10 0 0 0 o"),
            ("claim:last", "7 0 1 1 0 0 0 0 0 #9 0 0 0 o"),
            ("claim:old", "7 0 1 1 0 0 0 0 0 #1 0 0 0 o"),
        ],
    );
    servers[1].restart();
    probation(&redlock, &[1]).await;
    assert!(hash(&servers[1], MARKS).is_empty());
    let look = "return {redis.call('HGET', KEYS[1], 'tag'), redis.call('HGETALL', KEYS[2])}";
    let mut found = Vec::new();
    eventually_async("the node is active", async || {
        found = servers[1].cli(&["EVAL", look, "2", "redlock:meta", MARKS]).items();
        found[0].clone().text().starts_with("a ")
    })
    .await;
    let expected = [
        ("a", "9 y"),
        ("b", "7"),
        ("c", "10 of node 1"),
        ("big", "9007199254740991"),
        ("d", "0"),
        ("odd name\n%", "3 a b c"),
        // The last one of the claims with the same token.
        ("claim:first", "7 0 1 1 0 0 0 0 0 #10 0 0 0 o"),
        ("claim:last", "7 1 1 1 0 0 0 0 0 #10 0 0 0 o"),
        ("claim:old", "7 0 1 1 0 0 0 0 0 #1 0 0 0 o"),
        ("promise:first", "7"),
        ("promise:last", "7"),
        ("promise:old", "7"),
    ];
    assert_eq!(pairs(found.pop().unwrap()), map(&expected));
    votes(&redlock, 1).await;
    // The others are unchanged.
    assert_eq!(hash(&servers[0], MARKS).len(), 7);
}

#[tokio::test]
async fn outdated_node_keeps_its_higher_marks() {
    let mut servers = RedisServer::start_n(3);
    let redlock = settled(&servers).await;
    marks(&servers[1], &[("a", "1"), ("b", "20 own"), ("c", "3 own")]);
    let old = servers[1].save_snapshot();
    marks(&servers[0], &[("a", "2 new"), ("b", "19")]);
    forgets(&redlock, 1, || servers[1].restart_from(&old)).await;
    assert_eq!(hash(&servers[1], MARKS), map(&[("a", "2 new"), ("b", "20 own"), ("c", "3 own")]));
}

const RECORDS: usize = 1_500;

/// Stores records on one server: with a TTL of a minute, and every tenth without a TTL.
fn record(server: &RedisServer) {
    let fill = "for i = 1, ARGV[1] do \
                  local key, value = 'redlock:done:' .. i, 'value ' .. i .. string.char(0, 255) \
                  if i % 10 == 0 then redis.call('SET', key, value) \
                  else redis.call('SET', key, value, 'PX', 60000) end \
                end return redis.status_reply('OK')";
    let answer = server.cli(&["EVAL", fill, "0", &RECORDS.to_string()]);
    assert_eq!(answer, Resp::Simple("OK".into()));
    server.set("redlock:other:1", "not a record");
}

#[track_caller]
fn assert_recorded(server: &RedisServer) {
    assert_eq!(server.keys("redlock:done:*").len(), RECORDS);
    for i in [1, 7, 777, 1_499] {
        let key = format!("redlock:done:{i}");
        let value = [format!("value {i}").as_bytes(), &[0, 255]].concat();
        assert_eq!(server.get(&key), Some(value));
        let left = server.pttl(&key);
        assert!((30_000..=60_000).contains(&left), "{key}: {left} ms");
    }
    let all = "local n = 0 for i = 1, ARGV[1] do \
               if redis.call('PTTL', 'redlock:done:' .. i) == -1 then n = n + 1 end end return n";
    assert_eq!(server.cli(&["EVAL", all, "0", &RECORDS.to_string()]), Resp::Int(150));
}

/// The state names the probation.
fn is_copying(server: &RedisServer) -> bool {
    copy_state(server).is_some_and(|state| state.starts_with("copying "))
}

#[tokio::test]
async fn records_are_copied_after_activation() {
    let mut servers = RedisServer::start_n(3);
    let redlock = settled(&servers).await;
    all_copied(&servers).await;
    record(&servers[0]);
    record(&servers[2]);
    // The records of node 3 cannot be read for now.
    servers[2].cli(&["ACL", "SETUSER", acl::USER, "-scan"]);
    servers[1].restart();
    probation(&redlock, &[1]).await;
    votes(&redlock, 1).await;
    assert!(tag(&servers[1]).starts_with("a "));
    eventually_async("the records of node 1 are copied", async || {
        servers[1].keys("redlock:done:*").len() == RECORDS
    })
    .await;
    assert!(is_copying(&servers[1]), "node 3 may have more");
    works(&redlock).await;
    servers[2].cli(&["SET", "redlock:done:of node 3", "late", "PX", "60000"]);
    servers[2].cli(&["ACL", "SETUSER", acl::USER, "+scan"]);
    all_copied(&servers[1..2]).await;
    assert!(servers[1].exists("redlock:done:of node 3"));
    servers[1].cli(&["DEL", "redlock:done:of node 3"]);
    assert_recorded(&servers[1]);
    assert!(!servers[1].exists("redlock:other:1"));
}

/// A source may state any TTL.
#[tokio::test]
async fn greatest_ttl_is_copied() {
    let servers = RedisServer::start_n(3);
    let redlock = settled(&servers).await;
    let key = "redlock:done:kept";
    servers[0].cli(&["SET", key, "d value", "PX", "9000000000000000000"]);
    forgets(&redlock, 1, || drop(servers[1].cli(&["FLUSHALL"]))).await;
    all_copied(&servers[1..2]).await;
    assert_eq!(servers[1].get(key), Some(b"d value".to_vec()));
    let century = 100 * 365 * 24 * 3_600_000;
    assert!(servers[1].pttl(key) > century);
}

/// Nodes 1 and 2 forget one after the other: they are a quorum, but not a new set.
#[tokio::test]
async fn copying_quorum_awaits_the_records() {
    let mut servers = RedisServer::start_n(3);
    let log = Log::new();
    let settings = quick().spawner(LoggedSpawner::start(&log));
    let redlock = guarded(settings, servers.iter().map(RedisServer::url)).build().unwrap();
    all_vote(&redlock).await;
    record(&servers[2]);
    servers[2].cli(&["ACL", "SETUSER", acl::USER, "-scan"]);
    for node in [0, 1] {
        servers[node].restart();
        probation(&redlock, &[node]).await;
        votes(&redlock, node).await;
    }
    let tries = |node: &str| {
        let is_try = |line: &&str| line.contains("long-lived") && line.contains(node);
        log.text().lines().filter(is_try).count()
    };
    let before = ["node=node-1", "node=node-2"].map(tries);
    // The second copy of each begins while both lack records.
    eventually_async("an end was attempted", async || {
        let now = ["node=node-1", "node=node-2"].map(tries);
        let again = (0..2).all(|node| now[node] > before[node] + 1);
        again || !servers[..2].iter().all(is_copying)
    })
    .await;
    assert!(servers[..2].iter().all(is_copying), "{}", log.text());
    servers[2].cli(&["ACL", "SETUSER", acl::USER, "+scan"]);
    all_copied(&servers[..2]).await;
    for server in &servers[..2] {
        assert_recorded(server);
    }
}

#[tokio::test]
async fn bootstrapped_quorum_needs_no_others() {
    let mut servers = RedisServer::start_n(3);
    let redlock = settled(&servers).await;
    servers[2].cli(&["ACL", "SETUSER", acl::USER, "-scan"]);
    servers[0].restart();
    servers[1].restart();
    probation(&redlock, &[0, 1]).await;
    all_vote(&redlock).await;

    all_copied(&servers[..2]).await;
}

#[tokio::test]
async fn node_flushed_while_copying_restarts_copy() {
    let servers = RedisServer::start_n(3);
    let redlock = settled(&servers).await;
    record(&servers[0]);
    record(&servers[2]);
    for _ in 0..2 {
        forgets(&redlock, 1, || drop(servers[1].cli(&["FLUSHALL"]))).await;
    }
    all_copied(&servers[1..2]).await;
    assert_recorded(&servers[1]);
}

#[tokio::test]
async fn survivor_restores_marks_and_records() {
    let mut servers = RedisServer::start_n(3);
    let redlock = settled(&servers).await;
    record(&servers[2]);
    marks(&servers[2], &[("a", "5 x")]);
    let old = servers[2].save_snapshot();
    servers[0].restart();
    servers[1].restart();
    servers[2].restart_from(&old);
    probation(&redlock, &[0, 1, 2]).await;
    all_vote(&redlock).await;

    for server in &servers[..2] {
        assert_eq!(hash(server, MARKS), map(&[("a", "5 x")]));
        all_copied(std::slice::from_ref(server)).await;
        assert_recorded(server);
    }
}

/// Another client may end the probation of a node while its marks are read.
#[tokio::test]
async fn marks_of_activated_survivor_are_learnt() {
    let servers = Arc::new(RedisServer::start_n(3));
    marks(&servers[2], &[("a", "5 x")]);
    let of_connector = Arc::clone(&servers);
    let connector = Interceptor::new(servers[2].addr().to_string(), move || {
        let servers = Arc::clone(&of_connector);
        Box::new(move |command| {
            if command[0] == b"HSCAN" {
                let activate = "local tag = 'a' .. string.sub(redis.call('HGET', 'redlock:meta', 'tag'), 2) \
                    redis.pcall('RENAME', 'redlock:fences', 'redlock:fences:' .. string.sub(tag, 79)) \
                    return redis.call('HSET', 'redlock:meta', 'tag', tag)";
                servers[2].cli(&["EVAL", activate, "0"]);
            }
            None
        })
    });
    let redlock = guarded(quick().connector(connector), urls(&servers)).build().unwrap();

    all_vote(&redlock).await;

    for server in &servers[..2] {
        assert_eq!(hash(server, MARKS), map(&[("a", "5 x")]));
    }
}

/// All keys may be deleted while records are copied; the next activation then has the same tag.
#[test]
fn stale_copy_completes_nothing() {
    const COPIED: &str = include_str!("../../../src/node/redis/scripts/copied.lua");
    let server = RedisServer::start();
    let tag = "a 0123456789abcdef0123456789abcdef 0123456789abcdef";
    let completes = |once: &str| server.cli(&["EVAL", COPIED, "1", "meta", tag, once]).int();

    server.cli(&["HSET", "meta", "tag", tag, "once", "copying of the second"]);

    assert_eq!(completes("copying of the first"), 0);
    assert_eq!(server.cli(&["HGET", "meta", "once"]).text(), "copying of the second");
    assert_eq!(completes("copying of the second"), 1);
    assert_eq!(server.cli(&["HGET", "meta", "once"]).text(), "");
}
