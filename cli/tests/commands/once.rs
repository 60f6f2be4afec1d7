//! `once`: the status of keys, and decisions about them.

use std::convert::Infallible;

use serde_json::Value;

use crate::{
    fixture::{enrolled, redlock, store_record},
    program::with_fleet,
    support::RedisServer,
};

#[tokio::test]
async fn status_follows_the_key() {
    let (servers, fleet) = with_fleet().await;
    let status = || redlock(&servers, &["once", "status", "order:7"]);
    let json = || redlock(&servers, &["once", "status", "order:7", "--json"]).is(0, &[]).json();
    status().is(0, &["\"order:7\" is free"]);
    assert_eq!(json(), serde_json::json!({ "key": "order:7", "state": "free" }));

    let (started, running) = tokio::sync::oneshot::channel();
    let (finish, finished) = tokio::sync::oneshot::channel::<()>();
    let work = fleet.once("order:7").run(|_| async move {
        let _ = started.send(());
        let _ = finished.await;
        Ok::<_, Infallible>(())
    });
    let work = tokio::spawn(work);
    running.await.unwrap();
    status().is(0, &["is in progress", "run by night-shift", "unless it is renewed", "since 20"]);
    assert_eq!(json()["state"], "in-progress");
    redlock(&servers, &["once", "done", "order:7"]).is(75, &["held"]);
    redlock(&servers, &["once", "forget", "order:7", "--yes"]).is(75, &["held"]);
    let refused = redlock(&servers, &["once", "done", "order:7", "--json"]).is(75, &[]).json();
    assert_eq!((&refused["recorded"], refused["error"].is_string()), (&false.into(), true));

    finish.send(()).unwrap();
    work.await.unwrap().unwrap();
    status().is(0, &["is done", "done by night-shift", "is forgotten in 3d23h", "fencing token"]);
    let done = json();
    assert_eq!((&done["state"], &done["by"]), (&"done".into(), &"night-shift".into()));
    assert!(done["token"].as_u64().unwrap() > 0 && done["since_unix_ms"].is_u64());
    assert!(done["remaining_ms"].as_u64().unwrap() > 300_000_000);
    fleet.shutdown().await;
}

#[test]
fn unknown_work_is_decided() {
    let servers = enrolled(3);
    store_record(&servers, "a", 'u', "crashed");
    store_record(&servers, "b", 'u', "crashed");
    let status = |key: &str| redlock(&servers, &["once", "status", key]);
    status("a").is(0, &["its outcome is unknown", "begun by crashed", "is forgotten in 5"]);
    redlock(&servers, &["once", "done", "a", "--retain=1h"]).is(0, &["\"a\" is recorded as done"]);
    status("a").is(0, &["\"a\" is done", "is forgotten in 59m"]);
    let json = redlock(&servers, &["once", "done", "c", "--json"]).is(0, &[]).json();
    assert_eq!(json, serde_json::json!({ "key": "c", "recorded": true, "error": null }));

    let refused = redlock(&servers, &["once", "forget", "b"]);
    refused.is(64, &["its outcome is unknown", "happens twice", "no terminal", "nothing was done"]);
    status("b").is(0, &["its outcome is unknown"]);
    redlock(&servers, &["once", "forget", "b", "--yes"]).is(0, &["its record is removed"]);
    status("b").is(0, &["\"b\" is free"]);
    let json = redlock(&servers, &["once", "forget", "a", "--yes", "--json"]).is(0, &[]).json();
    assert_eq!((&json["forgotten"], &json["before"]["state"]), (&true.into(), &"done".into()));
    redlock(&servers, &["once", "forget", "a", "--yes"]).is(66, &["\"a\" had no record"]);
    for server in &servers {
        assert_eq!(server.keys("*:lock:*"), [""; 0]);
    }
}

#[test]
fn keys_are_listed() {
    let servers = RedisServer::start_n(3);
    redlock(&servers, &["once", "ls"]).is(0, &[]);
    for key in ["order:7", "order:8", "hook\u{202e}"] {
        store_record(&servers, key, 'd', "me");
    }
    let sorted = |args: &[&str]| {
        let outcome = redlock(&servers, args);
        let mut lines: Vec<_> = outcome.is(0, &[]).stdout.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&["once", "ls"]), [r"hook\u{202e}", "order:7", "order:8"]);
    assert_eq!(sorted(&["once", "ls", "order:?"]), ["order:7", "order:8"]);
    let json = sorted(&["--json", "once", "ls", "h*"]);
    let keys: Vec<Value> = json.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(keys, [serde_json::json!({ "key": "hook\u{202e}" })]);
}

#[test]
fn decisions_need_servers() {
    let mut servers = enrolled(3);
    store_record(&servers, "a", 'd', "me");
    servers[2].kill();
    redlock(&servers, &["once", "status", "a"]).is(0, &["\"a\" is done"]);
    redlock(&servers, &["once", "forget", "a", "--yes"]).is(69, &["too few votes count"]);
    redlock(&servers, &["once", "status", "a"]).is(0, &["\"a\" is done"]);
    servers[1].kill();
    redlock(&servers, &["once", "status", "b"]).is(69, &["too few votes count"]);
    let json = redlock(&servers, &["once", "status", "b", "--json"]).is(69, &[]).json();
    assert!(json["state"].is_null() && json["error"].is_string(), "{json}");
    redlock(&servers, &["once", "ls"]).is(69, &["may be missing"]);
    redlock(&servers, &["once", "done", "a"]).is(69, &["too few votes count"]);
}

#[test]
fn hostile_records_are_escaped() {
    let servers = enrolled(3);
    store_record(&servers, "a", 'd', "evil\x1b[2J");
    let outcome = redlock(&servers, &["once", "status", "a"]);
    outcome.is(0, &[r"done by evil\u{1b}[2J"]).never_says("\x1b");
    redlock(&servers, &["once", "status", ""]).is(64, &["invalid"]);
}
