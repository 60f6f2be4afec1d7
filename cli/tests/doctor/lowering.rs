//! A shorter `max_ttl` on the servers.

use std::time::Duration;

use tower_redlock::Redlock;

use crate::{
    program::{Doctor, connected, run, urls},
    support::RedisServer,
};

#[test]
fn lowers_without_longer_ttls() {
    let servers = RedisServer::start_n(3);
    let all = urls(&servers);
    Doctor::guarded(&all, "3s").run(&["--wait", "--no-probe"]).is(0, &["HEALTHY"]);
    let doctor = Doctor::guarded(&all, "1s");
    doctor.run(&["--no-probe"]).is(0, &["the servers' max_ttl is 3.0s", "redlock lower-max-ttl"]);
    let outcome = doctor.command(&["lower-max-ttl"]);
    outcome.is(0, &["lowering max_ttl from 3s to 1s", "max_ttl is 1s at most on all 3 nodes"]);
    doctor.run(&["--no-probe"]).is(0, &["HEALTHY"]).never_says("lower-max-ttl");
    assert_eq!(doctor.command(&["lower-max-ttl", "--json"]).is(0, &[]).json()["lowered"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_a_client_with_longer_ttl() {
    let servers = RedisServer::start_n(3);
    let all = urls(&servers);
    let long = Redlock::builder().nodes(&all).ttl(Duration::from_secs(3));
    let long = connected(long).await;
    let outcome = Doctor::guarded(&all, "1s").command(&["lower-max-ttl"]);
    outcome.is(69, &["not every node accepted the lower max_ttl", "raised it to 3s"]);
    outcome.says(&["first lower ttl and max_ttl in the configuration of all clients"]);
    let json = Doctor::guarded(&all, "1s").command(&["lower-max-ttl", "--json"]).is(69, &[]).json();
    assert_eq!(json["lowered"], false);
    assert!(json["error"].as_str().unwrap().contains("raised it to 3s"));
    long.shutdown().await;
}

#[test]
fn lowering_needs_servers() {
    run("", &["lower-max-ttl"]).is(78, &["no servers"]);
}
