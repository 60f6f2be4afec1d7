//! The ends of TTLs; servers that are full, replicas or busy; subscriptions.

use std::io::{Read, Write};

use tower_redlock_sim::redis::{Condition, Reply, Role, Server};

use super::{
    Pair, now,
    real::{RealServer, encode},
};

/// The properties of an expiring key in a script: its time, whether it exists, its TTL, its expiry.
const END: &str = "local t = redis.call('TIME') \
    return {math.floor(t[1] * 1000 + t[2] / 1000), redis.call('EXISTS', KEYS[1]), \
    redis.call('PTTL', KEYS[1]), redis.call('PEXPIRETIME', KEYS[1])}";

fn numbers(reply: &Reply) -> Vec<i64> {
    let Reply::Array(items) = reply else { panic!("{reply:?}") };
    let number = |item: &Reply| match item {
        Reply::Int(number) => *number,
        other => panic!("{other:?}"),
    };
    items.iter().map(number).collect()
}

#[test]
fn keys_end_in_the_same_millisecond() {
    let mut pair = Pair::new();
    let mut seen_at_end = [false; 2];

    for _ in 0..40 {
        for (number, seen) in seen_at_end.iter_mut().enumerate() {
            let mut ask = |args: &[&str]| {
                let args: Vec<_> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
                if number == 0 { pair.real.ask(&args) } else { pair.ours(&args) }
            };
            ask(&["SET", "k", "v", "PX", "3"]);
            let first = numbers(&ask(&["EVAL", END, "1", "k"]));
            let ends = first[3];
            assert!(first[1] == 0 || ends - first[0] <= 3, "{first:?}");
            let mut is_there = first[1];
            while is_there == 1 {
                let before = i64::try_from(now() / 1_000).expect("before the year 294,000");
                let seen_now = numbers(&ask(&["EVAL", END, "1", "k"]));
                let [time, there, left, _] = seen_now[..] else { panic!("{seen_now:?}") };
                is_there = there;
                // The key exists in the millisecond of its expiry, with a TTL of zero. The result
                // depends on a reading between the test's reading and TIME.
                let is_possible =
                    if is_there == 1 { before <= ends && left >= 0 } else { time > ends };
                assert!(is_possible, "server {number}: {seen_now:?} ends {ends}");
                *seen |= is_there == 1 && left == 0;
            }
        }
    }

    assert_eq!(seen_at_end, [true, true], "the last millisecond was met");
}

#[test]
fn full_servers_refuse_equally() {
    let mut pair = Pair::new();
    pair.same(&["SET", "k", "v"]);
    pair.same(&["HSET", "h", "f", "v"]);
    pair.same(&["ZADD", "z", "1", "m"]);
    pair.same(&["CONFIG", "SET", "maxmemory", "1"]);
    for command in [
        &["SET", "k", "w"][..],
        &["SET", "k", "w", "NX"],
        &["HSET", "h", "f", "w"],
        &["HSETNX", "h", "g", "w"],
        &["ZADD", "z", "2", "n"],
        &["ZSCORE", "z", "m"],
        &["ZREM", "z", "m"],
        &["PEXPIREAT", "k", "32503680000000"],
        &["GET", "k"],
        &["PEXPIRE", "k", "100000"],
        &["PUBLISH", "c", "m"],
        &["TYPE", "k"],
    ] {
        pair.same(command);
    }
    for script in [
        "return redis.call('SET', 'k', 'x')",
        "return redis.pcall('SET', 'k', 'x')",
        "return {redis.pcall('HSET', 'h', 'f', 'x'), redis.call('GET', 'k')}",
        "return redis.call('PEXPIRE', 'k', 50000)",
        "#!lua flags=allow-oom\nreturn redis.call('SET', 'k', 'y')",
        "#!lua\nreturn redis.call('GET', 'k')",
        "redis.call('DEL', 'gone') return redis.call('SET', 'k', 'z')",
        "redis.call('PEXPIRE', 'k', 60000) return redis.call('SET', 'k', 'z')",
    ] {
        pair.same_script(script, &[], &[]);
    }

    pair.same(&["GET", "k"]);
}

#[test]
fn replicas_refuse_equally() {
    let mut pair = Pair::new();
    pair.same(&["SET", "k", "v"]);
    pair.real.ask(&["REPLICAOF", "127.0.0.1", "1"].map(|arg| arg.as_bytes().to_vec()));
    pair.simulated.role = Role::Replica;
    for command in [&["SET", "k", "w"][..], &["GET", "k"], &["DEL", "k"], &["PEXPIRE", "k", "1000"]]
    {
        pair.same(command);
    }

    for script in [
        "return redis.call('GET', 'k')",
        "return redis.call('SET', 'k', 'w')",
        "return redis.pcall('SET', 'k', 'w')",
        "#!lua flags=allow-oom\nreturn 1",
        "#!lua flags=no-writes\nreturn 1",
        "return string.match(redis.call('INFO', 'replication'), 'role:(%a+)')",
    ] {
        pair.same_script(script, &[], &[]);
    }
}

#[test]
fn busy_servers_refuse_equally() {
    let mut pair = Pair::new();
    pair.same(&["SET", "k", "v"]);
    let limit = ["CONFIG", "SET", "busy-reply-threshold", "1"].map(|arg| arg.as_bytes().to_vec());
    pair.real.ask(&limit);
    let endless = ["EVAL", "while true do end", "0"].map(|arg| arg.as_bytes().to_vec());
    pair.real.connect().write_all(&encode(&endless)).unwrap();
    // Waits until the server has detected it.
    let ping = [b"PING".to_vec()];
    while !matches!(pair.real.ask(&ping), Reply::Error(_)) {}
    pair.simulated.condition = Condition::Busy;

    for command in
        [&["GET", "k"][..], &["SET", "k", "w"], &["EVAL", "return 1", "0"], &["INFO", "server"]]
    {
        pair.same(command);
    }
}

#[test]
fn loading_servers_refuse_equally() {
    let mut pair = Pair { real: RealServer::loading(), ..Pair::new() };
    pair.simulated.condition = Condition::Loading;
    for command in [
        &["GET", "k"][..],
        &["SET", "k", "w"],
        &["HMGET", "h", "f"],
        &["EVAL", "return 1", "0"],
        &["SCRIPT", "LOAD", "return 1"],
        &["SCAN", "0"],
        &["DBSIZE"],
        &["FLUSHALL"],
        &["PING"],
        &["SELECT", "0"],
        &["PUBLISH", "c", "m"],
        &["PUBSUB", "NUMSUB", "c"],
        &["CONFIG", "SET", "maxmemory", "0"],
    ] {
        pair.same(command);
    }

    let mut both = |args: &[&str]| {
        let args: Vec<_> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
        [pair.real.ask(&args), pair.ours(&args)]
    };

    // Answers that differ between servers.
    assert!(both(&["TIME"]).iter().all(|reply| matches!(reply, Reply::Array(_))));

    for reply in both(&["INFO", "persistence"]) {
        let Reply::Bulk(text) = reply else { panic!("{reply:?}") };
        assert!(String::from_utf8_lossy(&text).contains("loading:1"));
    }
    for command in [&["AUTH", "none is set"][..], &["CLIENT", "SETNAME", "a"], &["ACL", "WHOAMI"]] {
        for reply in both(command) {
            assert!(!format!("{reply:?}").contains("LOADING"), "{command:?}: {reply:?}");
        }
    }
    // It still loads.
    pair.same(&["GET", "k"]);
}

#[test]
fn listeners_get_equal_messages() {
    let mut pair = Pair::new();
    let mut listener = pair.real.connect();
    let mut server = Server::new("a".repeat(40), "b".repeat(40));
    let mut ours = Vec::new();
    let mut expected = Vec::new();

    for (who, command) in [
        (1, &["SUBSCRIBE", "a", "b"][..]),
        (1, &["SUBSCRIBE", "a"]),
        (1, &["PING"]),
        (2, &["PUBLISH", "a", "hello"]),
        (2, &["PUBLISH", "c", "nobody"]),
        (2, &["PUBSUB", "NUMSUB", "a", "b", "c"]),
        (1, &["UNSUBSCRIBE", "b"]),
        (1, &["UNSUBSCRIBE", "b"]),
        (2, &["PUBLISH", "b", "nobody"]),
        (1, &["UNSUBSCRIBE"]),
        (1, &["UNSUBSCRIBE"]),
        (1, &["PING"]),
    ] {
        let args: Vec<_> = command.iter().map(|arg| arg.as_bytes().to_vec()).collect();
        let before = ours.len();
        let replies = server.run(who, now(), &args);
        for (to, message) in server.take_pushed() {
            assert_eq!(to, 1);
            message.write_to(&mut ours);
        }
        if who == 2 {
            assert_eq!(replies, [pair.real.ask(&args)], "{command:?}");
        } else {
            for reply in &replies {
                reply.write_to(&mut ours);
            }
            listener.write_all(&encode(&args)).unwrap();
        }
        let mut buffer = vec![0; ours.len() - before];
        listener.read_exact(&mut buffer).unwrap();
        expected.extend_from_slice(&buffer);
        assert_eq!(
            String::from_utf8_lossy(&ours),
            String::from_utf8_lossy(&expected),
            "{command:?}"
        );
    }
}
