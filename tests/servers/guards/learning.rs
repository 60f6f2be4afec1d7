//! The state that a node learns before it votes: in parts, from one client at a time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tower_redlock::Redlock;

use crate::fixture::{
    RedisServer, Resp, all_vote,
    guard::{guarded, probation, tag, votes},
    urls,
};

const LEASE_TASK: &str = include_str!("../../../src/node/redis/scripts/lease_task.lua");
const LEARN_MARKS: &str = include_str!("../../../src/node/redis/scripts/learn_marks.lua");

/// µs since the Unix epoch.
fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()
}

#[tokio::test]
async fn lease_of_a_dead_learner_ends() {
    const LEASE: Duration = Duration::from_secs(4);
    let mut servers = RedisServer::start_n(3);
    let settings = Redlock::builder().ttl(Duration::from_secs(2));
    let redlock = guarded(settings, urls(&servers)).build().unwrap();
    all_vote(&redlock).await;
    servers[1].restart();
    probation(&redlock, &[1]).await;
    let leased = Instant::now();
    let lease = format!("00000000deadbeef {} 0 0", now() + LEASE.as_micros());
    servers[1].cli(&["HSET", "redlock:meta", "learner", &lease]);
    assert!(tag(&servers[1]).starts_with("p "), "the probation ended before the test could check");
    votes(&redlock, 1).await;
    let took = leased.elapsed();
    assert!(took + Duration::from_millis(100) > LEASE, "{took:?}");
}

#[test]
fn one_client_has_the_lease() {
    let server = RedisServer::start();
    let ask = |client: &str, named: &str, micros: &str, copied: [&str; 2]| {
        let task = ["once", named, "copier", client, micros, copied[0], copied[1]];
        let command = ["EVAL", LEASE_TASK, "1", "meta"].into_iter().chain(task);
        let answer = server.cli(&command.collect::<Vec<_>>()).items();
        answer.iter().map(Resp::int).collect::<Vec<_>>()
    };
    server.cli(&["HSET", "meta", "once", "copying x"]);
    assert_eq!(ask("a", "copying y", "4000000", ["0", "0"]), [0], "another task");
    assert_eq!(ask("a", "copying x", "4000000", ["0", "0"]), [1]);
    assert_eq!(ask("b", "copying x", "4000000", ["0", "0"]), [2, 0, 0]);
    assert_eq!(ask("a", "copying x", "4000000", ["7", "700"]), [1], "renewed");
    assert_eq!(ask("b", "copying x", "4000000", ["0", "0"]), [2, 7, 700]);
    assert_eq!(ask("a", "copying x", "0", ["7", "700"]), [1], "released");
    assert_eq!(ask("b", "copying x", "4000000", ["0", "0"]), [1]);
    // The value that a server has after its clock was set back.
    for micros in [20_000_000, 3_600_000_000] {
        let far = format!("a {} 0 0", now() + micros);
        server.cli(&["HSET", "meta", "copier", &far]);
        assert_eq!(ask("b", "copying x", "4000000", ["0", "0"]), [1], "{micros} µs ahead");
    }
}

/// The promise and the claim are read at different times.
#[test]
fn promises_are_no_lower_than_claims() {
    let server = RedisServer::start();
    let learn = |tag: &str, marks: &[&str]| {
        let command = ["EVAL", LEARN_MARKS, "2", "meta", "marks", tag].into_iter();
        server.cli(&command.chain(marks.iter().copied()).collect::<Vec<_>>()).int()
    };
    let kept = |field: &str| server.cli(&["HGET", "marks", field]).text();

    server.cli(&["HSET", "meta", "tag", "p 1"]);

    assert_eq!(learn("p 2", &["promise:a", "9"]), 0, "another probation");
    assert!(!server.exists("marks"));
    assert_eq!(learn("p 1", &["claim:a", "10 1 2", "promise:a", "9"]), 1);
    assert_eq!((kept("claim:a"), kept("promise:a")), ("10 1 2".into(), "10".into()));
    assert_eq!(learn("p 1", &["promise:a", "12", "claim:a", "11 3"]), 1);
    assert_eq!((kept("claim:a"), kept("promise:a")), ("11 3".into(), "12".into()));
}
