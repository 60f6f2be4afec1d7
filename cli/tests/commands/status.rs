//! `status`, printed once.

use crate::{
    fixture::{enrolled, redlock, store},
    program::name,
    support::RedisServer,
};

#[test]
fn shows_servers_and_locks() {
    let servers = RedisServer::start_n(3);
    redlock(&servers, &["status"])
        .is(0, &["HEALTHY", "under the prefix \"redlock\": 0", "no locks"]);
    store(&servers, "invoice:42", "night-shift", 17);
    let outcome = redlock(&servers, &["status"]);
    outcome.is(0, &["HEALTHY: locks work; 3 of 3 nodes vote, 2 are needed", "1 lock\n"]);
    outcome.says(&["invoice:42", "night-shift", "3/3", "under the prefix \"redlock\": 1"]);
    for server in &servers {
        outcome.says(&[&name(server)]);
    }
    let json = redlock(&servers, &["status", "--json"]).is(0, &[]).json();
    assert_eq!((&json["verdict"], &json["voting"]), (&"healthy".into(), &3.into()));
    assert_eq!((&json["lock_keys"], &json["prefix"]), (&1.into(), &"redlock".into()));
    assert_eq!(json["locks"]["locks"][0]["name"], "invoice:42");
    assert_eq!((&json["locks"]["more"], json["locks"]["error"].is_null()), (&false.into(), true));
    assert_eq!(json["nodes"].as_array().unwrap().len(), 3);
}

#[test]
fn shows_only_the_first_locks() {
    let servers = enrolled(1);
    for i in 0..12 {
        store(&servers, &format!("n{i}"), "me", 1);
    }
    redlock(&servers, &["status"]).is(0, &["more than 10 locks", "`redlock ls`"]);
    redlock(&servers, &["status", "--locks=3"]).is(0, &["more than 3 locks"]);
    redlock(&servers, &["status", "--locks=12"]).is(0, &["\n12 locks\n"]);
    let json = redlock(&servers, &["status", "--locks=3", "--json"]).is(0, &[]).json();
    assert_eq!(json["locks"]["locks"].as_array().unwrap().len(), 3);
    assert_eq!(json["locks"]["more"], true);
}

#[test]
fn says_why_nodes_do_not_vote() {
    let mut servers = enrolled(3);
    store(&servers, "a", "me", 1);
    servers[2].kill();
    redlock(&servers, &["status"]).is(0, &["DEGRADED", "2 of 3 nodes vote", "down", "2/3"]);
    servers[1].kill();
    redlock(&servers, &["status"])
        .is(69, &["NO QUORUM", "locks or jobs may be missing: too few votes count"]);
    let json = redlock(&servers, &["status", "--json"]).is(69, &[]).json();
    assert_eq!((&json["verdict"], &json["voting"]), (&"no quorum".into(), &1.into()));
    assert!(json["locks"]["error"].is_string());
}

#[test]
fn other_prefix_is_another_set() {
    let servers = enrolled(1);
    store(&servers, "a", "me", 1);
    let url = servers[0].plain_url();
    let args = ["--nodes", &url, "--prefix=other", "status"];
    redlock(&[], &args).is(0, &["under the prefix \"other\": 0", "no locks"]);
}
