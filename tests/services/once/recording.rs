//! Records of done work: stored on a quorum, with retries, and repaired on nodes that lack them.

use std::convert::Infallible;

use tower_redlock::{LockError, once::Once, testing::Task};

use super::fixture::{Ended, Fixture, KEY, MS, SECOND, assert_done_by, assert_ran};
use crate::log::Log;

/// Runs work of blue that calls `act` at its end.
fn does_and(fixture: &Fixture, act: impl FnOnce() + Send + 'static) -> Task<Ended> {
    let runs = fixture.runs.clone();
    let work = fixture.clock.spawn(fixture.at_blue.once(KEY).run(|_| async move {
        act();
        Ok::<_, Infallible>(runs.run())
    }));
    fixture.clock.settle();
    work
}

#[test]
fn record_survives_minority_loss() {
    for lost in [[0, 1], [1, 2], [2, 3], [3, 4], [0, 4]] {
        let fixture = Fixture::new(5);
        assert_ran(&fixture.blue_does(), 1);
        fixture.nodes.forget_unguarded(lost);
        assert_done_by(&fixture.green_does(), "blue");
        fixture.nodes.stop(lost);
        assert_done_by(&fixture.green_does(), "blue");
    }
}

#[test]
fn read_repairs_other_nodes() {
    let fixture = Fixture::new(5);
    fixture.nodes.stop([0, 1]);
    assert_ran(&fixture.blue_does(), 1);
    fixture.nodes.start([0, 1]);
    assert_done_by(&fixture.green_does(), "blue");
    // Those that did it are gone.
    fixture.nodes.forget_unguarded([2, 3, 4]);
    let ended = fixture.green_does();
    assert_done_by(&ended, "blue");
    // All nodes have the record again, with its full retention.
    fixture.nodes.forget_unguarded([0, 1]);
    let Ok(Once::AlreadyDone { remaining, .. }) = fixture.blue_does() else { panic!() };
    assert_eq!(remaining, 96 * super::fixture::HOUR);
}

/// One node answers the read of the record, and two answer the next one.
#[test]
fn read_by_too_few_is_repeated() {
    let fixture = Fixture::new(3);
    fixture.nodes.freeze([1, 2]);
    let runs = fixture.runs.clone();
    let request = fixture.at_blue.once(KEY).wait(SECOND);
    let mut work =
        fixture.clock.spawn(request.run(|_| async move { Ok::<_, Infallible>(runs.run()) }));
    fixture.clock.settle();
    fixture.nodes.thaw([1]);
    fixture.nodes.freeze([1]);
    fixture.clock.advance(50 * MS);
    assert_eq!(fixture.runs.count(), 0);
    fixture.nodes.thaw([1, 2]);
    fixture.clock.advance(25 * MS);
    assert_ran(&work.take().expect("it ends"), 1);
}

#[test]
fn read_repairs_late_nodes() {
    let fixture = Fixture::new(3);
    fixture.nodes.stop([0]);
    assert_ran(&fixture.blue_does(), 1);
    fixture.nodes.start([0]);
    fixture.nodes.freeze([0]);
    assert_done_by(&fixture.green_does(), "blue");
    fixture.nodes.thaw([0]);
    fixture.nodes.forget_unguarded([1, 2]);
    assert_done_by(&fixture.green_does(), "blue");
}

/// Repairs of an expiring record would prolong it without end.
#[test]
fn expiring_record_is_not_repaired() {
    for (left, is_brought) in [(51 * MS, true), (50 * MS, false)] {
        let fixture = Fixture::new(3);
        fixture.nodes.stop([0]);
        assert_ran(&fixture.does(fixture.at_blue.once(KEY).retain(SECOND)), 1);
        fixture.nodes.start([0]);
        fixture.clock.advance(SECOND.saturating_sub(left));
        assert_done_by(&fixture.green_does(), "blue");
        fixture.nodes.forget_unguarded([1, 2]);
        assert_eq!(matches!(fixture.green_does(), Ok(Once::AlreadyDone { .. })), is_brought);
    }
}

#[test]
fn minority_record_counts() {
    let fixture = Fixture::new(3);
    let blue = fixture.blue.clone();
    let mut work = does_and(&fixture, move || blue.partition([0, 1]));
    fixture.clock.advance(SECOND);
    let ended = work.take().expect("it gives up");
    let Ok(Once::RanUnrecorded(1, LockError::NoQuorum { votes })) = ended else {
        panic!("{ended:?}")
    };
    assert_eq!(votes.len(), 3);
    // The lock is given back only where it can be; elsewhere its TTL ends.
    fixture.clock.advance(10 * SECOND);
    fixture.blue.heal([0, 1]);
    assert_done_by(&fixture.green_does(), "blue");
    fixture.nodes.stop([2]);
    assert_done_by(&fixture.green_does(), "blue");
}

#[test]
fn unrecorded_work_runs_again() {
    let fixture = Fixture::new(3);
    let blue = fixture.blue.clone();
    let mut work = does_and(&fixture, move || blue.partition(0..3));
    // Ten node timeouts, and one round.
    fixture.clock.advance(450 * MS);
    assert!(!work.is_finished(), "it is tried for a while");
    fixture.clock.advance(100 * MS);
    let ended = work.take().expect("it gives up");
    let Ok(Once::RanUnrecorded(1, LockError::NoQuorum { .. })) = ended else { panic!("{ended:?}") };
    fixture.clock.advance(10 * SECOND);
    assert_ran(&fixture.green_does(), 2);
}

#[test]
fn recording_survives_short_outage() {
    let fixture = Fixture::new(3);
    let blue = fixture.blue.clone();
    let mut work = does_and(&fixture, move || blue.partition(0..3));
    fixture.clock.advance(300 * MS);
    assert!(matches!(fixture.green_does(), Ok(Once::InProgress { .. })), "the lock is kept");
    fixture.blue.heal(0..3);
    fixture.clock.advance(100 * MS);
    assert_ran(&work.take().expect("it is recorded"), 1);
    assert_done_by(&fixture.green_does(), "blue");
}

#[test]
fn recording_restores_lost_keys() {
    let fixture = Fixture::new(3);
    let nodes = fixture.nodes.clone();
    let mut work = does_and(&fixture, move || nodes.forget_unguarded([0, 1]));
    fixture.clock.advance(100 * MS);
    assert_ran(&work.take().expect("it is recorded"), 1);
    fixture.nodes.stop([2]);
    assert_done_by(&fixture.green_does(), "blue");
}

#[tokio::test]
async fn completed_recording_does_not_warn() {
    let fixture = Fixture::new(3);
    let log = Log::new();
    let ended = log.during(async { fixture.blue_does() }).await;
    assert_ran(&ended, 1);
    assert_eq!(log.count("WARN"), 0, "{}", log.text());
}
