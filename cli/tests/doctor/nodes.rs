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
fn a_replica() {
    let (servers, doctor) = with_doctor(3);
    let master = RedisServer::start();
    servers[1].replica_of(&master);
    let outcome = doctor.run(&[]);
    outcome.is(1, &[&format!("{}: the server is a replica", name(&servers[1]))]);
    outcome.says(&["replicas do not vote", "REPLICAOF NO ONE"]);
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

/// Also for a server that has forgotten all.
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
