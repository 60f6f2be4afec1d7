//! Names and options that are not valid, and a candidate that runs twice.

use std::time::Duration;

use tower_redlock::{Leader, LockError, error::ResourceError};

use super::fixture::Fixture;

#[track_caller]
fn fails(fixture: &Fixture, leader: &Leader) -> LockError {
    fixture.run(leader).take().expect("the run ends at once").unwrap_err()
}

#[test]
fn invalid_names_fail_the_run() {
    let fixture = Fixture::new();
    let redlock = fixture.candidate("a").redlock;
    let empty = LockError::InvalidResource(ResourceError::EmptyName);
    assert_eq!(fails(&fixture, &redlock.leader("")), empty);
    for name in ["x".repeat(512), "a\nb".into()] {
        let error = fails(&fixture, &redlock.leader(name));
        assert!(matches!(error, LockError::InvalidResource(_)), "{error}");
    }
}

#[test]
fn invalid_options_fail_the_run() {
    let (fixture, [a]) = Fixture::candidates(["a"]);
    for leader in [
        a.leader.clone().ttl(Duration::ZERO),
        a.leader.clone().ttl(Duration::from_secs(3_600)),
        a.leader.clone().stall_limit(Duration::ZERO),
        a.leader.clone().heartbeat_within(Duration::ZERO),
    ] {
        let error = fails(&fixture, &leader);
        assert!(matches!(error, LockError::InvalidRequest(_)), "{error}");
    }
    // None of them counts as running.
    let _run = fixture.run(&a.leader.clone().stall_limit(Duration::MAX));
    assert!(a.leader.is_leader());
}

#[test]
fn concurrent_second_run_fails() {
    let (fixture, [a]) = Fixture::candidates(["a"]);
    let _run = fixture.run(&a.leader);
    let error = fails(&fixture, &a.leader.clone());
    assert!(matches!(error, LockError::InvalidRequest(_)), "{error}");
    assert!(error.to_string().contains("runs already"), "{error}");
    assert!(a.leader.is_leader(), "the first run continues");
}
