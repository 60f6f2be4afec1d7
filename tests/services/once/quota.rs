//! A manager that has reached its limit of records.

use std::convert::Infallible;

use futures_util::FutureExt;
use tower_redlock::{
    LockError, Redlock,
    once::{Once, OnceError, OnceState, UnknownOutcome},
};

use super::fixture::{Ended, Fixture, HOUR, SECOND, assert_done_by, assert_ran};

const RETAIN: std::time::Duration = HOUR;

/// Creates a manager that stores at most two records.
fn bounded() -> (Fixture, Redlock) {
    let fixture = Fixture::new(3);
    let redlock = fixture.blue.builder().max_records(2).build().unwrap();
    (fixture, redlock)
}

#[track_caller]
fn assert_refused(ended: &Ended, retry_within: std::time::Duration) {
    let Err(OnceError::Lock(error)) = ended else { panic!("{ended:?}") };
    let LockError::TooManyRecords { limit: 2, retry_after: Some(after), .. } = error else {
        panic!("{error:?}")
    };
    assert!(*after <= retry_within, "{after:?}");
    assert!(error.to_string().contains("raise it, or keep records for less time"), "{error}");
}

#[test]
fn excess_request_never_runs() {
    let (fixture, blue) = bounded();
    let run = |key: &str| fixture.does(blue.once(key).retain(RETAIN));
    assert_ran(&run("a"), 1);
    fixture.clock.advance(RETAIN / 2);
    assert_ran(&run("b"), 2);
    assert_refused(&run("c"), RETAIN / 2 + RETAIN / 32);
    assert_eq!(fixture.runs.count(), 2);
    // Done keys answer as done, and other managers have quotas of their own.
    assert_done_by(&run("a"), "blue");
    assert_ran(&fixture.does(fixture.at_green.once("c")), 3);
    assert_done_by(&run("c"), "green");
    assert_refused(&run("d"), RETAIN / 2 + RETAIN / 32);
    fixture.clock.advance(RETAIN / 2 + RETAIN / 32);
    assert_ran(&run("d"), 4);
    assert_refused(&run("e"), RETAIN / 2);
}

#[test]
fn failed_work_frees_its_room() {
    let (fixture, blue) = bounded();
    for i in 0..5 {
        let key = || blue.once(format!("failing {i}"));
        let failed = key().run(|_| async { Err::<(), _>("on purpose") }).now_or_never();
        assert!(matches!(failed, Some(Err(OnceError::Work(_)))), "{failed:?}");
        let held = key().unknown(UnknownOutcome::Hold(HOUR));
        let freed = held.complete_when(|(): &()| false).run(|_| async { Ok::<_, Infallible>(()) });
        let freed = freed.now_or_never();
        assert!(matches!(freed, Some(Ok(Once::Ran(())))), "{freed:?}");
        let mut dropped = Box::pin(key().run(|_| std::future::pending::<Result<(), ()>>()));
        assert!(dropped.as_mut().now_or_never().is_none());
    }
    assert_ran(&fixture.does(blue.once("a")), 1);
    assert_ran(&fixture.does(blue.once("b")), 2);
}

#[test]
fn work_under_way_has_its_room() {
    let (fixture, blue) = bounded();
    let request = |key: &str| {
        Box::pin(
            blue.once(key)
                .run(|_| std::future::pending::<Result<usize, std::convert::Infallible>>()),
        )
    };
    let mut running = [request("a"), request("b")];
    for running in &mut running {
        assert!(running.as_mut().now_or_never().is_none());
    }
    let ended = fixture.does(blue.once("c"));
    let refused = LockError::TooManyRecords { limit: 2, retry_after: None };
    assert_eq!(ended, Err(OnceError::Lock(refused)));
    drop(running);
    assert_ran(&fixture.does(blue.once("c")), 1);
}

#[test]
fn held_key_counts_until_free() {
    let (fixture, blue) = bounded();
    for key in ["a", "b"] {
        let request = blue.once(key).unknown(UnknownOutcome::Hold(HOUR));
        let mut dropped = Box::pin(request.run(|_| std::future::pending::<Result<(), ()>>()));
        assert!(dropped.as_mut().now_or_never().is_none());
    }
    let held = blue.once("a").status().now_or_never().unwrap().unwrap().expect("it is held");
    assert_eq!(held.state, OnceState::Unknown);
    assert_refused(&fixture.does(blue.once("c")), HOUR + HOUR / 32);
    fixture.clock.advance(HOUR + HOUR / 32);
    assert_ran(&fixture.does(blue.once("c")), 1);
}

#[test]
fn held_then_done_counts_once() {
    let (fixture, blue) = bounded();
    let run = |key: &str| {
        fixture.does(blue.once(key).unknown(UnknownOutcome::Hold(SECOND)).retain(RETAIN))
    };
    assert_ran(&run("a"), 1);
    assert_ran(&run("b"), 2);
    fixture.clock.advance(RETAIN.saturating_sub(SECOND));
    assert_refused(&run("c"), SECOND + RETAIN / 32);
    fixture.clock.advance(SECOND + RETAIN / 32);
    assert_ran(&run("c"), 3);
}

#[test]
fn longest_record_counts() {
    let (fixture, blue) = bounded();
    let hold = UnknownOutcome::Hold(240 * HOUR);
    let run = |key: &str| fixture.does(blue.once(key).unknown(hold).retain(RETAIN));
    assert_ran(&run("a"), 1);
    assert_ran(&run("b"), 2);
    assert_refused(&run("c"), RETAIN + RETAIN / 32);
    fixture.clock.advance(RETAIN + RETAIN / 32);
    assert_ran(&run("c"), 3);
}

#[test]
fn what_is_marked_by_hand_counts() {
    let (fixture, blue) = bounded();
    let mark = |key: &str| blue.once(key).mark_done().now_or_never().unwrap();
    assert_eq!((mark("a"), mark("b")), (Ok(()), Ok(())));
    assert!(matches!(mark("c"), Err(LockError::TooManyRecords { limit: 2, .. })));
    assert!(matches!(fixture.green_does(), Ok(Once::Ran(_))));
}

#[test]
fn zero_records_fail_the_build() {
    let error = Redlock::builder().max_records(0).nodes(["redis://h"]).build().unwrap_err();
    assert!(error.to_string().contains("max_records"), "{error}");
}
