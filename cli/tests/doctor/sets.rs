//! Findings about the whole set.

use crate::{
    program::{Doctor, name, run, urls, with_doctor},
    support::RedisServer,
};

#[test]
fn a_healthy_set() {
    let (servers, doctor) = with_doctor(3);
    let outcome = doctor.run(&[]);
    outcome.is(0, &["HEALTHY: locks work; 3 of 3 nodes vote, 2 are needed", "version", "voting"]);
    outcome.says(&[&name(&servers[0]), "no persistence", "0 lock keys", "round trip", "clock"]);
    outcome.never_says("problem");
    // The votes that it asked for were given back.
    for server in &servers {
        assert_eq!(server.keys("*:lock:*"), [""; 0]);
    }
}

#[test]
fn verdict_follows_the_servers() {
    // The number of servers, those that are down, the arguments, the exit code, and words of the report.
    type Case = (usize, &'static [usize], &'static [&'static str], i32, &'static [&'static str]);
    let cases: [Case; 5] = [
        (
            3,
            &[2],
            &[],
            1,
            &["DEGRADED: locks work", "2 of 3 nodes vote", "no further one may fail"],
        ),
        (3, &[1, 2], &[], 2, &["NO QUORUM: no locks at present; 1 of 3 nodes vote, 2 are needed"]),
        (3, &[0], &["--wait=quorum"], 1, &["2 of 3 nodes vote, waiting for 2", "DEGRADED"]),
        (4, &[], &[], 0, &["4 nodes tolerate 1 failure, the same as 3 nodes", "HEALTHY"]),
        (2, &[], &[], 0, &["with 2 nodes, the loss of one stops all locks"]),
    ];
    for (count, down, args, code, words) in cases {
        let (mut servers, doctor) = with_doctor(count);
        for server in down {
            servers[*server].kill();
        }
        let outcome = doctor.run(args);
        outcome.is(code, words);
        for server in down {
            outcome.says(&[&name(&servers[*server]), "can't be reached", "start the server"]);
        }
    }
}

#[test]
fn new_servers_need_a_probation() {
    let servers = RedisServer::start_n(3);
    let doctor = Doctor::guarded(&urls(&servers), "2s");
    let outcome = doctor.run(&[]);
    outcome.is(2, &["NO QUORUM", "in probation for another", "locks that it may have forgotten"]);
    outcome.says(&["waiting is enough", "--wait"]);

    let outcome = doctor.run(&["--wait", "--timeout", "30s", "--no-probe"]);
    outcome
        .is(0, &["0 of 3 nodes vote", "in probation for another", "3 of 3 nodes vote", "HEALTHY"]);
    outcome.says(&["no data is kept on disk", "nothing for locks", "turn appendonly on"]);
    doctor.run(&["--no-probe"]).is(0, &["HEALTHY"]);
}

#[test]
fn wait_ends_at_its_timeout() {
    let servers = RedisServer::start_n(3);
    let doctor = Doctor::guarded(&urls(&servers), "60s");
    doctor.run(&["--wait", "--timeout", "300ms"]).is(2, &["not within 300ms", "in probation"]);
}

#[test]
fn json_is_consistent() {
    let (mut servers, doctor) = with_doctor(3);
    servers[1].kill();
    let outcome = doctor.run(&["--json"]);
    let json = outcome.is(1, &[]).json();
    assert_eq!(json["verdict"], "degraded");
    assert_eq!(json["exit_code"], 1);
    assert_eq!((&json["voting"], &json["quorum"]), (&2.into(), &2.into()));
    let nodes = json["nodes"].as_array().unwrap();
    let states: Vec<_> = nodes.iter().map(|node| node["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["voting", "down", "voting"]);
    assert_eq!(nodes[0]["name"], name(&servers[0]).as_str());
    assert_eq!(nodes[0]["role"], "master");
    assert_eq!(nodes[0]["lock_keys"], 0);
    assert_eq!(nodes[0]["max_ttl_ms"], 60_000);
    assert!(nodes[0]["run_id"].is_string() && nodes[0]["version"].is_string());
    let findings = json["findings"].as_array().unwrap();
    let down = findings.iter().find(|finding| finding["code"] == "down").unwrap();
    assert_eq!(down["severity"], "problem");
    assert_eq!(down["node"], name(&servers[1]).as_str());
    assert!(!down["do"].as_str().unwrap().is_empty());
}

#[test]
fn without_nodes_nothing_is_examined() {
    run("", &["doctor"]).is(78, &["no servers", "--nodes", "REDLOCK_NODES", "--config"]);
    run("", &["doctor", "--wait", "--json"]).is(78, &["no servers"]);
    // Only the check has nodes of its own, and says that they prove little.
    run("", &["doctor", "--check"]).is(0, &["there is nothing to examine", "REDLOCK_NODES"]);
}

#[test]
fn check_over_embedded_nodes_and_servers() {
    run("", &["doctor", "--check"]).is(0, &["5 nodes, 5 vote", " 0 broken"]);
    let servers = RedisServer::start_n(3);
    // The default user, who may use the prefix of the check.
    let urls: Vec<_> = servers.iter().map(RedisServer::plain_url).collect();
    let json = run(&urls.join(","), &["doctor", "--check", "--json"]);
    let json = json.is(0, &[]).json();
    assert_eq!(json["broken"], 0);
    assert!(json["kept"].as_u64().unwrap() > 15);
    for server in &servers {
        assert_eq!(server.keys("*:lock:*"), [""; 0]);
    }
}
