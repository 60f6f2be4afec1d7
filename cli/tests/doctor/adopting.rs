//! From one set of servers to another.

use std::time::Duration;

use tower_redlock::{Lock, Redlock};

use crate::{
    program::{Doctor, connected, urls},
    support::RedisServer,
};

/// Settings of [`growing`]. Locks are renewed in time on a busy machine.
const TTL: Duration = Duration::from_secs(3);
const NODE_TIMEOUT: Duration = Duration::from_millis(300);

fn growing(urls: &[String]) -> Doctor {
    Doctor::configured(urls, "ttl = '3s'\nnode_timeout = '300ms'")
}

/// A client of a set that votes, and its lock, which it renews.
async fn held(urls: &[String]) -> (Redlock, Lock) {
    let nodes = Redlock::builder().nodes(urls).ttl(TTL).node_timeout(NODE_TIMEOUT);
    let client = connected(nodes).await;
    let lock = client.lock("x").await.unwrap();
    (client, lock)
}

#[test]
fn three_servers_become_five() {
    let servers = RedisServer::start_n(5);
    let all = urls(&servers);
    let from = all[..3].join(",");
    let three = Doctor::guarded(&all[..3], "1s");
    three.run(&["--wait", "--no-probe"]).is(0, &["HEALTHY"]);
    let five = Doctor::guarded(&all, "1s");
    five.run(&["--no-probe"]).is(2, &["belongs to another set", "redlock adopt --from"]);

    let outcome = five.command(&["adopt", "--from", &from, "--no-probe"]);
    outcome.is(
        64,
        &["from the old set", "stops the old set first", "no terminal", "nothing was done"],
    );
    three.run(&["--no-probe"]).is(0, &["HEALTHY"]);

    let outcome =
        five.command(&["adopt", "--from", &from, "--yes", "--timeout", "30s", "--no-probe"]);
    outcome.is(
        0,
        &["step 3: moved; the new set votes in", "step 4: start", "5 of 5 nodes vote", "HEALTHY"],
    );
    five.run(&["--no-probe"]).is(0, &["5 of 5 nodes vote"]);
    three.run(&["--no-probe"]).is(2, &["belongs to another set"]);
}

/// The commands of the page about one server, each time while a client of the old set holds a lock.
#[tokio::test]
async fn one_server_becomes_three_then_five() {
    let servers = RedisServer::start_n(5);
    let all = urls(&servers);
    growing(&all[..1]).run(&["--wait", "--no-probe"]).is(0, &["the loss of one stops all locks"]);
    let (mut client, mut lock) = held(&all[..1]).await;

    for (old, new) in [(1, 3), (3, 5)] {
        let (from, after) = (all[..old].join(","), growing(&all[..new]));
        growing(&all[..old]).run(&[]).is(0, &["HEALTHY"]);
        assert!(lock.is_valid());

        let outcome = after.command(&["adopt", "--from", &from, "--yes"]);
        outcome.is(0, &["step 3: moved; the new set votes in", "HEALTHY"]);
        assert!(!lock.is_valid(), "two sets grant at the same time");
        after.run(&["--wait"]).is(0, &[&format!("{new} of {new} nodes vote"), "HEALTHY"]);

        let (next_client, next) = held(&all[..new]).await;
        assert!(next.fencing_token() > lock.fencing_token());
        growing(&all[..old]).run(&["--no-probe"]).is(2, &["belongs to another set"]);
        client.shutdown().await;
        (client, lock) = (next_client, next);
    }
    lock.release().await.unwrap();
}

#[test]
fn another_prefix() {
    let servers = RedisServer::start_n(3);
    // The default user, who may use another prefix.
    let all: Vec<_> = servers.iter().map(RedisServer::plain_url).collect();
    let plain = Doctor::guarded(&all, "1s");
    plain.run(&["--wait", "--no-probe"]).is(0, &["HEALTHY"]);
    let adopt = ["adopt", "--yes", "--from-prefix", "redlock", "--no-probe"];
    let outcome = plain.command(&[&["--prefix", "other"][..], &adopt].concat());
    outcome.is(0, &["3 of 3 nodes vote", "HEALTHY"]);
    plain.run(&["--no-probe"]).is(2, &["belongs to another set", "prefix other"]);
}

#[test]
fn another_old_set_is_left_alone() {
    let servers = RedisServer::start_n(3);
    let all = urls(&servers);
    let three = Doctor::guarded(&all, "1s");
    three.run(&["--wait", "--no-probe"]).is(0, &["HEALTHY"]);
    let named: Vec<String> =
        all.iter().zip(["a", "b", "c"]).map(|(url, n)| format!("{n}={url}")).collect();
    let new = Doctor::guarded(&named, "1s");
    // Not what they are enrolled for.
    let from = format!("x={},y={},z={}", all[0], all[1], all[2]);
    let outcome = new.command(&["adopt", "--from", &from, "--yes"]);
    outcome.is(69, &["not adopted", "belongs to another set"]);
    three.run(&["--no-probe"]).is(0, &["HEALTHY"]);
}

/// A program ran once with too short a list.
#[test]
fn captured_servers_are_freed() {
    let servers = RedisServer::start_n(3);
    let all = urls(&servers);
    let captured = all[..2].join(",");
    Doctor::guarded(&all[..2], "2s").run(&["--wait", "--no-probe"]).is(0, &["HEALTHY"]);
    let right = Doctor::guarded(&all, "2s");
    let outcome = right.run(&["--no-probe"]);
    outcome.is(
        2,
        &["enrolled it, stop them", "taken over automatically", "redlock adopt --from WRONG-NODES"],
    );
    let outcome = right.command(&["adopt", "--from", &captured, "--yes", "--no-probe"]);
    outcome.is(0, &["3 of 3 nodes vote", "HEALTHY"]);
}
