//! The holder of a name, and taking the lock away from it.

use crate::program::{Doctor, urls, with_doctor, with_fleet};

#[tokio::test]
async fn shows_the_holder() {
    let (servers, fleet) = with_fleet().await;
    let doctor = Doctor::over(&urls(&servers));
    doctor.command(&["inspect", "invoice:42"]).is(0, &["\"invoice:42\" is free"]);
    assert_eq!(doctor.command(&["inspect", "invoice:42", "--json"]).json()["held"], false);

    let lock = fleet.lock("invoice:42").await.unwrap();
    let outcome = doctor.command(&["inspect", "invoice:42"]);
    outcome.is(
        0,
        &["\"invoice:42\" is held by night-shift", "since 20", "free in", "unless it is renewed"],
    );
    outcome.says(&[&format!("fencing token {}", lock.fencing_token())]);
    for server in &servers {
        outcome.says(&[&format!("{}/0: held by night-shift", server.addr())]);
    }
    let json = doctor.command(&["--json", "inspect", "invoice:42"]).json();
    assert_eq!(json["held"], true);
    assert_eq!(json["holder"]["owner"], "night-shift");
    assert_eq!(json["holder"]["token"], lock.fencing_token().get());
    assert!(json["holder"]["remaining_ms"].as_u64().unwrap() > 10_000);
    assert_eq!(json["holder"]["nodes"].as_array().unwrap().len(), 3);
    doctor.run(&[]).is(0, &["1 lock key under the prefix"]);
    lock.release().await.unwrap();
}

#[tokio::test]
async fn holder_is_unknown_without_quorum() {
    let (mut servers, doctor) = with_doctor(3);
    servers[0].kill();
    servers[1].kill();
    doctor.command(&["inspect", "x"]).is(69, &["the holder of \"x\" is unknown"]);
    let outcome = doctor.command(&["break", "x", "--yes", "--json"]);
    assert!(outcome.is(69, &[]).json()["held"].is_null());
}

#[tokio::test]
async fn break_needs_a_confirmation() {
    let (servers, fleet) = with_fleet().await;
    let doctor = Doctor::over(&urls(&servers));
    let lock = fleet.lock("job").await.unwrap();

    let outcome = doctor.command(&["break", "job"]);
    outcome.is(64, &["held by night-shift", "no terminal", "--yes", "nothing was done"]);
    assert!(servers.iter().all(|server| server.exists("redlock:lock:job")));

    let outcome = doctor.command(&["break", "job", "--yes"]);
    outcome.is(
        0,
        &["held by night-shift", "If it is alive", "deleted on a quorum", "now: \"job\" is free"],
    );
    let next = fleet.lock("other").await.unwrap();
    assert!(fleet.inspect("job").await.unwrap().is_none());
    doctor.command(&["break", "job", "--yes"]).is(66, &["there is nothing to break"]);

    // Other locks are not affected.
    assert!(fleet.inspect("other").await.unwrap().is_some());
    drop((lock, next));
    fleet.shutdown().await;
}

#[tokio::test]
async fn break_prints_json() {
    let (servers, fleet) = with_fleet().await;
    let doctor = Doctor::over(&urls(&servers));
    let _lock = fleet.lock("job").await.unwrap();
    let json = doctor.command(&["break", "job", "--yes", "--json"]).is(0, &[]).json();
    assert_eq!(json["result"], "broken");
    assert_eq!(json["before"]["holder"]["owner"], "night-shift");
    assert_eq!(json["after"]["held"], false);
}

#[tokio::test]
async fn foreign_key_is_left_alone() {
    let (servers, doctor) = with_doctor(3);
    doctor.run(&[]).is(0, &[]);
    for server in &servers {
        server.set("redlock:lock:odd", "hello");
    }
    doctor.command(&["inspect", "odd"]).is(0, &["did not write", "without a TTL"]);
    doctor.command(&["break", "odd", "--yes"]).is(65, &["was not written by this crate"]);
    assert!(servers.iter().all(|server| server.exists("redlock:lock:odd")));
}

#[tokio::test]
async fn minority_does_not_hold_a_lock() {
    let (servers, fleet) = with_fleet().await;
    let lock = fleet.lock("job").await.unwrap();
    for server in &servers[..2] {
        server.cli(&["DEL", "redlock:lock:job"]);
    }
    let doctor = Doctor::over(&urls(&servers));
    doctor.command(&["inspect", "job"]).is(0, &["is not held", "no key", "or a client crashed"]);
    drop(lock);
    fleet.shutdown().await;
}
