//! Commands that read, beside servers that hang.

use crate::{
    fixture::{self, store},
    program::{Doctor, name},
    support::{RedisServer, urls},
};

/// Runs the program over these servers, to its end. A node timeout is far shorter than the time after which a
/// server that has not greeted is down.
#[track_caller]
fn redlock(servers: &[RedisServer], args: &[&str]) -> crate::program::Outcome {
    let settings = "node_timeout = '250ms'\nttl = '60s'\nrestart_guard = 'off'";
    Doctor::configured(&urls(servers), settings).command(args)
}

/// Three servers with a lock, of which the last ones hang.
fn servers(frozen: usize) -> Vec<RedisServer> {
    let servers = RedisServer::start_n(3);
    fixture::redlock(&servers, &["status"]).is(0, &["3 of 3 nodes vote"]);
    store(&servers, "invoice:42", "night-shift", 17);
    servers.iter().rev().take(frozen).for_each(RedisServer::freeze);
    servers
}

/// A server that has not greeted is down after 2 s: its state shows that they do not wait for that.
#[test]
fn others_are_read_at_once() {
    let servers = servers(1);
    let missing = name(&servers[2]);
    redlock(&servers, &["status"])
        .is(0, &["2 of 3 nodes vote", "connecting", "invoice:42"])
        .never_says("no greeting");
    let left_out = format!("redlock: {missing} has not answered yet, and is left out");
    redlock(&servers, &["ls"]).is(0, &["invoice:42", "2/3", &left_out]);
    redlock(&servers, &["inspect", "invoice:42"]).is(0, &["held by night-shift", &left_out]);
    redlock(&servers, &["jobs", "list"]).is(0, &[&left_out]);
    redlock(&servers, &["once", "status", "k"]).is(0, &[&left_out]);
    // It changes something, so it waits for all.
    redlock(&servers, &["break", "--yes", "invoice:42"])
        .is(0, &["deleted on a quorum", &format!("redlock: waiting for {missing}")]);
}

#[test]
fn long_wait_for_a_quorum_is_told() {
    let servers = servers(2);
    let (second, third) = (name(&servers[1]), name(&servers[2]));
    let waiting = format!("redlock: waiting for {second}, {third}");
    redlock(&servers, &["ls"]).is(69, &[&waiting]);
    redlock(&servers, &["inspect", "a"]).is(69, &[&waiting]);
    redlock(&servers, &["status"]).is(69, &[&waiting, "no greeting"]);
}

#[test]
fn servers_that_answer_are_not_told() {
    let servers = servers(0);
    let outcome = redlock(&servers, &["ls"]);
    outcome.is(0, &["invoice:42", "3/3"]);
    assert_eq!(outcome.stderr, "");
}
