//! Random sequences of commands, alone and in scripts; values that pass through Lua.

use tower_redlock_sim::{redis::Reply, rng::Rng};

use super::Pair;

fn pick<'a>(rng: &mut Rng, of: &[&'a str]) -> &'a str {
    of[rng.index(of.len())]
}

/// A command, mostly a valid one.
fn command(rng: &mut Rng) -> Vec<String> {
    let key = pick(rng, &["k1", "k2", "k3", "k4"]);
    let field = pick(rng, &["f1", "f2", "f3"]);
    let value = pick(rng, &["", "x", "17", "a\nb\r\n\0c"]);
    let time =
        pick(rng, &["100000", "5000000", "0", "-1", "x", "1.5", "01", "9223372036854775807"]);
    let (member, score) = (
        pick(rng, &["m1", "m2", "m3", "\n"]),
        pick(rng, &["1", "1.5", "-3", "10", "1e3", "x", ""]),
    );
    let position = pick(rng, &["0", "1", "-1", "-2", "5", "x"]);
    let option = pick(rng, &["NX", "XX", "KEEPTTL", "nx", "FOO"]);
    let all: Vec<Vec<&str>> = vec![
        vec!["SET", key, value],
        vec!["SET", key, value, "PX", time],
        vec!["SET", key, value, option],
        vec!["SET", key, value, option, "PX", time],
        vec!["GET", key],
        vec!["GET"],
        vec!["DEL", key, "k2"],
        vec!["EXISTS", key, key],
        vec!["RENAME", key, "k2"],
        vec!["SET", key, value, "PXAT", time],
        vec!["SET", key, value, "NX", "PXAT", time],
        vec!["PEXPIRE", key, time],
        vec!["PTTL", key],
        vec!["PEXPIRETIME", key],
        vec!["HSET", key, field, value],
        vec!["HSET", key, field, value, "f9"],
        vec!["HSET", key, field, value, "f9", "y"],
        vec!["HSETNX", key, field, value],
        vec!["HGET", key, field],
        vec!["HMGET", key, field, "f9", "nothing"],
        vec!["HDEL", key, field],
        vec!["HDEL", key, field, "f9"],
        vec!["HDEL", "list", field],
        vec!["HGETALL", key],
        vec!["HLEN", key],
        vec!["TYPE", key],
        vec!["ZADD", key, score, member],
        vec!["ZADD", key, score, member, "-5", "m9"],
        vec!["ZADD", key, score, member, "7"],
        vec!["ZADD", key, "XX", "GT", "CH", score, member],
        vec!["ZADD", key, "gt", score, member],
        vec!["ZADD", key, "CH", score, member, "7", "m9"],
        vec!["ZADD", "set", "XX", "CH", score, member],
        vec!["ZADD", "set", score, member],
        vec!["ZADD", "set", score, member, "10", "m9"],
        vec!["ZCARD", key],
        vec!["ZCARD", "set"],
        vec!["ZSCORE", key, member],
        vec!["ZSCORE", "set", member],
        vec!["ZRANGE", key, position, position],
        vec!["ZRANGE", "set", "0", "-1"],
        vec!["ZRANGE", "set", position, "1", "REV", "WITHSCORES"],
        vec!["ZRANGE", "set", "0", position, "withscores"],
        vec!["ZRANGE", "set", "0", "1", option],
        vec!["ZRANGE", "set", "-inf", "(0", "BYSCORE"],
        vec!["ZRANGE", "set", score, "+inf", "BYSCORE", "WITHSCORES"],
        vec!["ZRANGE", "set", "(0", "-inf", "BYSCORE", "REV", "LIMIT", "0", "1", "WITHSCORES"],
        vec!["ZRANGE", "set", "+inf", score, "BYSCORE", "REV", "LIMIT", position, position],
        vec!["ZRANGE", key, "0", "5", "LIMIT", "0", "1"],
        vec!["ZRANGE", "set", "0", "5", "BYSCORE", "LIMIT", "0"],
        vec!["ZRANGE", "set", value, "5", "BYSCORE"],
        vec!["ZREM", key, member],
        vec!["ZREM", "set", member, "m9"],
        vec!["ZREMRANGEBYSCORE", key, "-inf", score],
        vec!["ZREMRANGEBYSCORE", "set", "-inf", score],
        vec!["ZREMRANGEBYSCORE", "set", score, "(10"],
        vec!["PEXPIREAT", "set", time],
        vec!["PEXPIREAT", key, time],
        vec!["GET", "set"],
        vec!["HGET", "set", field],
        vec!["RPUSH", "set", value],
        vec!["STRLEN", key],
        vec!["RPUSH", "list", value],
        vec!["LLEN", "list"],
        vec!["LLEN", key],
        vec!["GET", "list"],
        vec!["HGET", "list", field],
        vec!["KEYS", "k*"],
        vec!["PING"],
        vec!["PING", value],
        vec!["PUBLISH", "channel", value],
        vec!["PUBSUB", "NUMSUB", "channel", "other"],
        vec!["NONSENSE", value],
        vec!["EVALSHA", "0000000000000000000000000000000000000000", "0"],
        vec!["EVAL", "return 1", "x"],
        vec!["EVAL", "return 1", "-1"],
        vec!["EVAL", "return 1", "2", "k1"],
        vec!["SELECT", "0"],
    ];
    all[rng.index(all.len())].iter().map(ToString::to_string).collect()
}

#[test]
fn random_commands_get_equal_answers() {
    let mut pair = Pair::new();
    let mut rng = Rng::of(1, 1);
    for _ in 0..6_000 {
        pair.same(&command(&mut rng));
    }
}

#[test]
fn random_scripts_get_equal_answers() {
    const CALL: &str = "return redis.call(unpack(ARGV))";
    const PCALL: &str = "local a = redis.pcall(unpack(ARGV)) \
        if type(a) == 'table' and a.err then return {'failed', a} end return {type(a), a}";
    let mut pair = Pair::new();
    let mut rng = Rng::of(2, 1);

    for _ in 0..4_000 {
        let args = command(&mut rng);
        if ["HGETALL", "KEYS", "PTTL", "PEXPIRETIME", "EVAL", "EVALSHA"].contains(&&*args[0]) {
            continue;
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        pair.same_script(if rng.chance(50) { CALL } else { PCALL }, &[], &args);
    }
}

#[test]
fn values_convert_equally_in_lua() {
    let mut pair = Pair::new();
    pair.same(&["SET", "k", "v"]);

    for script in [
        "return 3.99",
        "return -3.99",
        "return 10000000000000000",
        "return true",
        "return false",
        "return nil",
        "return",
        "return ''",
        "return {1, 'a', nil, 3}",
        "return {1, {2, {3}}, {}}",
        "return {false, true, 1.5}",
        "return {ok = 'FINE'}",
        "return {err = 'MY words'}",
        "return {{err = 'MY words'}, 2}",
        "return redis.call('GET', 'nothing')",
        "return {redis.call('GET', 'nothing'), redis.call('GET', 'k')}",
        "return redis.call('SET', 'n', 1.5) and redis.call('GET', 'n')",
        "redis.call('SET', 'n', 3.0) return redis.call('GET', 'n')",
        "redis.call('SET', 'n', 1735689600123456) return redis.call('GET', 'n')",
        "redis.call('SET', 'n', 2^53) return redis.call('GET', 'n')",
        "return tostring(1735689600123456)",
        "return 1735689600 * 1000000 + '123456'",
        "return string.format('%.0f', 1735689600123456)",
        "return string.format('%08x', 4000000000)",
        "return string.match('abc 12', '^(%a+) (%d+)$')",
        "return {string.match('abc 12', '^(%a+) (%d+)$')}",
        "return redis.sha1hex('abc')",
        "return redis.call('HMGET', 'h', 'a', 'b')",
        "return #redis.call('TIME')",
        "return redis.call('ZADD', 'z', 32503680000123, 'm')",
        "return redis.call('ZADD', 'z', 32503680000123 + 2000, '\\n')",
        "return redis.call('ZADD', 'z', 1764413606123 + 2000 - 1e13, 'mark')",
        "return tonumber(redis.call('ZSCORE', 'z', 'mark')) + 1e13",
        "return redis.call('ZSCORE', 'z', 'mark')",
        "return redis.call('ZREMRANGEBYSCORE', 'z', '-inf', 1764413606123 + 2000 - 1e13)",
        "return type(redis.call('ZSCORE', 'z', 'm'))",
        "return type(redis.call('ZSCORE', 'z', 'none'))",
        "return redis.call('ZRANGE', 'z', 0, 0, 'REV', 'WITHSCORES')",
        "return redis.call('ZSCORE', 'z', 'm') - 32503680000000",
        "return redis.call('ZREMRANGEBYSCORE', 'z', '-inf', 32503680000123)",
        "return redis.call('ZADD', 'z', math.floor(32503680000123456 / 1000) + 4, 'm')",
        "return redis.call('PEXPIREAT', 'z', redis.call('ZSCORE', 'z', '\\n'))",
        "return redis.pcall('GET', 'z').err or 'none'",
        "return redis.pcall('ZADD', 'k', 1, 'm').err",
        "return type(redis.call('SET', 'k', 'w', 'NX'))",
        "return redis.call('SET', 'k', 'w').ok",
        "return redis.pcall('HGET', 'k', 'f').err",
        "return redis.call('HGET', 'k', 'f')",
        "return redis.call('nonsense')",
        "return redis.call('GET')",
        "return #KEYS + #ARGV",
        "return {KEYS[1] or 'none', ARGV[1] or 'none'}",
        "return tonumber('0x10')",
        "return tonumber('12abc') or 'no number'",
        "return math.floor(-1.5)",
        "this is no script",
    ] {
        pair.same_script(script, &["key"], &["arg"]);
    }
}

/// Reads all pages, and returns their elements.
fn pages(mut ask: impl FnMut(&str) -> Reply) -> (usize, Vec<String>) {
    let (mut cursor, mut found, mut pages) = (String::from("0"), Vec::new(), 0);
    loop {
        let Reply::Array(page) = ask(&cursor) else { panic!("no page") };
        let [Reply::Bulk(next), Reply::Array(items)] = &page[..] else { panic!("{page:?}") };
        found.extend(items.iter().map(|item| format!("{item:?}")));
        cursor = String::from_utf8_lossy(next).into_owned();
        pages += 1;
        if cursor == "0" {
            found.sort_unstable();
            found.dedup();
            return (pages, found);
        }
    }
}

#[test]
fn pages_have_everything_on_both() {
    let mut pair = Pair::new();
    for number in 0..1_500 {
        pair.same(&["SET", &format!("done:{number}"), "d"]);
        pair.same(&["HSET", "marks", &format!("field {number}"), "v"]);
        pair.same(&["HSET", &format!("hash:{number}"), "field", "v"]);
    }
    let options = [
        ["COUNT", "250"],
        ["MATCH", "done:1*"],
        ["TYPE", "string"],
        ["TYPE", "HASH"],
        ["TYPE", "?"],
    ];
    for option in options {
        let command = ["SCAN", "", option[0], option[1]];
        let ask = |cursor: &str| {
            let mut args = command.map(|arg| arg.as_bytes().to_vec());
            args[1] = cursor.into();
            args
        };
        let real = pages(|cursor| pair.real.ask(&ask(cursor)));
        let ours = pages(|cursor| pair.simulated.run(1, super::now(), &ask(cursor)).remove(0));
        assert_eq!(ours.1, real.1);
        assert!(ours.0 > 1 && real.0 > 1, "several pages");
    }
    let ask = |cursor: &str| {
        ["HSCAN", "marks", cursor, "COUNT", "100"].map(|arg| arg.as_bytes().to_vec())
    };
    let real = pages(|cursor| pair.real.ask(&ask(cursor)));

    let ours = pages(|cursor| pair.simulated.run(1, super::now(), &ask(cursor)).remove(0));

    assert_eq!(ours.1, real.1);

    pair.same(&["SCAN", "x"]);
    pair.same(&["SCAN", "0", "COUNT", "0"]);
    pair.same(&["SCAN", "0", "COUNT"]);
    pair.same(&["HSCAN", "marks", "0", "TYPE", "string"]);
    pair.same(&["HSCAN", "done:1", "0"]);
}

#[test]
fn pages_keep_keys_that_stay() {
    let mut pair = Pair::new();
    for number in 0..1_000 {
        pair.same(&["SET", &format!("k{number}"), "v"]);
    }
    let mut gone = 0;
    let ours = pages(|cursor| {
        for _ in 0..20 {
            // Each odd key is deleted, some before their page and some after it.
            let key = format!("k{}", 2 * gone + 1);
            pair.simulated.run(1, super::now(), &[b"DEL".to_vec(), key.into_bytes()]);
            gone += 1;
        }
        let args = ["SCAN", cursor, "COUNT", "50"].map(|arg| arg.as_bytes().to_vec());
        pair.simulated.run(1, super::now(), &args).remove(0)
    });

    for number in (0..1_000).step_by(2) {
        let item = format!("{:?}", Reply::text(format!("k{number}")));
        assert!(ours.1.contains(&item), "k{number} is in no page");
    }
}
