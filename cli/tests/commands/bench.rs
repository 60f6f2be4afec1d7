//! `bench`: measures, and leaves nothing.

use rustix::process::Signal;

use crate::{
    fixture::{Running, nodes, redlock},
    support::{RedisServer, eventually},
};

fn no_key_is_left(servers: &[RedisServer]) {
    for server in servers {
        eventually("the keys are released", || server.keys("redlock:lock:*").is_empty());
    }
}

#[test]
fn measures_and_leaves_no_key() {
    let servers = RedisServer::start_n(3);
    let outcome = redlock(&servers, &["bench", "--seconds=1"]);
    outcome.is(0, &["3 of 3 nodes vote", "round trip", "TASKS  CYCLES/S", "P50", "P99"]);
    let table: Vec<_> = outcome.stdout.lines().skip_while(|l| !l.starts_with("TASKS")).collect();
    let tasks = table[1..3].iter().filter_map(|line| line.split_whitespace().next());
    assert_eq!(tasks.collect::<Vec<_>>(), ["1", "64"], "{outcome:#?}");
    outcome.never_says("first error");
    no_key_is_left(&servers);

    let json = redlock(&servers, &["bench", "--seconds=1", "--json"]).is(0, &[]).json();
    assert_eq!(json["nodes"].as_array().unwrap().len(), 3);
    assert!(json["nodes"][0]["round_trip_micros"].is_u64());
    for (run, tasks) in json["runs"].as_array().unwrap().iter().zip([1, 64]) {
        assert_eq!(run["tasks"], tasks);
        let number = |name: &str| run[name].as_f64().unwrap_or_else(|| panic!("{name}: {run}"));
        assert!(number("cycles") > 0.0 && number("cycles_per_second") > 0.0, "{run}");
        let (p50, p99) = (number("p50_micros"), number("p99_micros"));
        assert!(0.0 < p50 && p50 <= p99 && p99 <= number("max_micros"), "{run}");
        assert!(number("elapsed_ms") >= 1000.0, "{run}");
    }
    no_key_is_left(&servers);
}

#[test]
fn interrupted_it_leaves_no_key() {
    let servers = RedisServer::start_n(3);
    let bench = Running::start(&servers, &["bench", "--seconds=60"]);
    eventually("it has a lock", || !servers[0].keys("redlock:lock:*").is_empty());
    assert_eq!(bench.end(Signal::INT), Some(130));
    no_key_is_left(&servers);
}

#[test]
fn degraded_set_is_measured() {
    let mut servers = RedisServer::start_n(3);
    servers[2].kill();
    let outcome = redlock(&servers, &["bench", "--seconds=1"]);
    outcome.is(0, &["2 of 3 nodes vote", "down"]);
}

#[test]
fn needs_a_quorum() {
    let mut servers = RedisServer::start_n(3);
    servers[1].kill();
    servers[2].kill();
    let bench = ["--restart-guard=off", "--ttl=1s", "bench", "--seconds=1", "--wait=100ms"];
    let outcome = crate::program::run(&nodes(&servers), &bench);
    outcome.is(69, &["no quorum of the servers votes", "redlock doctor"]);
    redlock(&servers, &["bench", "--seconds=0"]).is(64, &["0 is not in 1..=600"]);
}
