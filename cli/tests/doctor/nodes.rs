//! Findings about one node.

use crate::{
    program::{Doctor, name, urls, with_doctor},
    support::{RedisServer, acl},
};

/// The permissions that doctor lists.
const RULES: [&str; 35] = [
    "ACL",
    "SETUSER",
    "app",
    "on",
    ">s3cret",
    "~redlock:*",
    "-@all",
    "+eval",
    "+evalsha",
    "+script|load",
    "+time",
    "+info",
    "+hmget",
    "+hget",
    "+hset",
    "+rename",
    "+hdel",
    "+hlen",
    "+hgetall",
    "+get",
    "+set",
    "+del",
    "+pttl",
    "+pexpire",
    "+pexpireat",
    "+type",
    "+zadd",
    "+zcard",
    "+zrange",
    "+zrem",
    "+zremrangebyscore",
    "+zscore",
    "+scan",
    "+hscan",
    "+config|get",
];

#[test]
fn a_frozen_server() {
    let (servers, doctor) = with_doctor(3);
    servers[0].freeze();
    let outcome = doctor.run(&[]);
    servers[0].thaw();
    outcome.is(1, &[&name(&servers[0]), "does not answer", "check whether the server hangs"]);
}

#[test]
fn a_replica() {
    let (servers, doctor) = with_doctor(3);
    let master = RedisServer::start();
    servers[1].replica_of(&master);
    let outcome = doctor.run(&[]);
    outcome.is(1, &[&format!("{}: the server is a replica", name(&servers[1]))]);
    outcome.says(&["replicas do not vote", "REPLICAOF NO ONE"]);
}

#[test]
fn one_server_by_two_names() {
    let servers = RedisServer::start_n(2);
    let nodes = [servers[0].url(), servers[1].url(), servers[1].url_by_name()];
    let outcome = Doctor::over(&nodes).run(&[]);
    outcome.is(2, &["NO QUORUM", "is the same server as localhost:", "would vote twice"]);
    outcome.says(&["replace one of the two with an independent server"]);
}

#[test]
fn a_server_that_evicts() {
    let mut servers = RedisServer::start_n(2);
    let limits = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    servers.push(RedisServer::with(&limits));
    let doctor = Doctor::over(&urls(&servers));
    let outcome = doctor.run(&[]);
    outcome.is(1, &["DEGRADED", "it may evict locks", "allkeys-lru"]);
    outcome.says(&["CONFIG SET maxmemory-policy noeviction", "memory limit 100 MiB"]);
}

#[test]
fn a_full_server() {
    let mut servers = RedisServer::start_n(2);
    servers.push(RedisServer::with(&["--maxmemory", "10mb"]));
    let doctor = Doctor::over(&urls(&servers));
    doctor.run(&[]).is(0, &["HEALTHY"]);
    servers[2].fill_memory();
    doctor.run(&[]).is(1, &["at maxmemory", "free memory or raise maxmemory"]);
}

#[test]
fn belongs_to_another_set() {
    let servers = RedisServer::start_n(3);
    Doctor::over(&urls(&servers)).run(&[]).is(0, &[]);
    let named: Vec<_> = servers
        .iter()
        .zip(["a", "b", "c"])
        .map(|(server, name)| format!("{name}={}", server.url()))
        .collect();
    let outcome = Doctor::over(&named).run(&[]);
    outcome.is(2, &["NO QUORUM", "belongs to another set of nodes", "(a, b, c)"]);
    outcome.says(&[
        &name(&servers[0]),
        "same nodes, names, prefix and guards everywhere",
        "redlock adopt --from",
    ]);
}

#[test]
fn server_clock_is_wrong() {
    let mut servers = RedisServer::start_n(2);
    servers.push(RedisServer::with_clock(&[]));
    let doctor = Doctor::over(&urls(&servers));
    servers[2].set_clock_offset(20.0);
    doctor.run(&[]).is(0, &["hint", "s ahead of ours", "NTP"]);
    servers[2].set_clock_offset(-90.0);
    let outcome = doctor.run(&[]);
    outcome.is(
        1,
        &["problem", "s behind the clocks of a quorum of servers", "get NTP running on the server"],
    );
}

#[test]
fn own_clock_is_wrong() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::with_clock(&[])).collect();
    let doctor = Doctor::over(&urls(&servers));
    for server in &servers {
        server.set_clock_offset(-90.0);
    }
    let outcome = doctor.run(&[]);
    outcome.is(1, &["problem", "this process's wall clock is", "NTP running on this machine"]);
    outcome.never_says("behind ours");
}

#[test]
fn a_wrong_password() {
    let mut servers = RedisServer::start_n(2);
    let secret = RedisServer::with(&["--requirepass", "right-s3cret"]);
    let mut nodes = urls(&servers);
    nodes.push(format!("redis://:wrong-s3cret@{}", secret.addr()));
    servers.push(secret);
    let outcome = Doctor::over(&nodes).run(&[]);
    outcome.is(1, &["authentication failed", "correct the user and the password"]);
    outcome.never_says("wrong-s3cret").never_says("right-s3cret");
}

#[test]
fn a_permission_that_is_missing() {
    let servers = RedisServer::start_n(3);
    servers[2].cli(&RULES);
    servers[2].cli(&["ACL", "SETUSER", "app", "-set"]);
    let mut nodes = urls(&servers);
    nodes[2] = format!("redis://app:s3cret@{}", servers[2].addr());
    let doctor = Doctor::over(&nodes);
    let outcome = doctor.run(&[]);
    outcome.is(1, &["permission denied", "compare the user's rules"]).never_says("s3cret");
    // Not every version names the command that it refused to a script: the README's rules are shown.
    let rules = acl::rules().into_iter().filter(|rule| *rule != "on" && !rule.starts_with('>'));
    rules.chain(acl::further_rules()).for_each(|rule| {
        outcome.says(&[rule]);
    });
    // The list that it shows is enough.
    servers[2].cli(&["ACL", "SETUSER", "app", "+set"]);
    // Wake-ups need more than locks do.
    let outcome = doctor.run(&[]);
    outcome.is(0, &["HEALTHY", "its user is denied ", "publish", "if that is on purpose"]);
    servers[2].cli(&["ACL", "SETUSER", "app", "&redlock:free:*", "+subscribe", "+unsubscribe"]);
    servers[2].cli(&["ACL", "SETUSER", "app", "+ping", "+publish", "+pubsub|numsub"]);
    doctor.run(&[]).is(0, &["HEALTHY"]).never_says("denied");
    // Counting needs more than locks do.
    servers[2].cli(&["ACL", "SETUSER", "app", "-scan"]);
    doctor.run(&[]).is(0, &["HEALTHY", "lacks +scan"]);
    servers[2].cli(&["ACL", "SETUSER", "app", "resetkeys", "~other:*"]);
    doctor.run(&[]).is(1, &["add ~redlock:*, and compare the user's rules"]);
    servers[2].cli(&["ACL", "SETUSER", "app", "resetkeys", "~redlock:*", "-eval"]);
    // Only a change of what the node stores of its membership needs it.
    doctor.run(&[]).is(0, &["HEALTHY", "its user is denied eval\n"]);
    servers[2].cli(&["ACL", "SETUSER", "app", "-evalsha"]);
    doctor.run(&[]).is(1, &["add +evalsha, and"]);
}

#[test]
fn listed_permissions_are_enough() {
    let servers = RedisServer::start_n(3);
    let mut nodes = Vec::new();
    for server in &servers {
        server.cli(&RULES);
        nodes.push(format!("redis://app:s3cret@{}", server.addr()));
    }
    let doctor = Doctor::guarded(&nodes, "1s");
    doctor.run(&["--wait", "--no-probe"]).is(0, &["HEALTHY"]);
    servers[0].cli(&["FLUSHALL"]);
    doctor.run(&["--no-probe"]).is(1, &["DEGRADED", "in probation for another"]);
    doctor.run(&["--wait", "--no-probe"]).is(0, &["HEALTHY", "no persistence"]);
}
