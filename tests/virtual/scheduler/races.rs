//! Calls of the handle while a claim is in flight.

use std::time::Duration;

use tower_redlock::{Schedule, node::Op};

use crate::scheduler::{
    fixture::{Fixture, Host, MS, SECOND},
    wire::Fate,
};

/// Freezes all nodes at the first claim, so that it stays in flight.
fn freeze_at_claim(fixture: &Fixture, host: &Host) {
    let nodes = fixture.nodes.clone();
    host.wire.judge(move |_, op| {
        if matches!(op, Op::Claim(_)) {
            nodes.freeze(0..5);
        }
        Fate::Passes
    });
}

#[test]
fn tick_claimed_during_shutdown_runs_elsewhere() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let job = |host: &Host| host.job("j", Schedule::every(100 * SECOND), Duration::ZERO);
    let mut at_a = a.start([job(&a)]);
    fixture.advance(100 * SECOND);
    assert_eq!(fixture.log.ticks(), [100_000]);
    freeze_at_claim(&fixture, &a);
    fixture.advance(99 * SECOND);
    at_a.new_events();
    fixture.advance(SECOND + 2 * MS);
    assert_eq!(fixture.log.ticks(), [100_000], "the claim is in flight");
    let mut report = fixture.shutdown(&at_a, SECOND);
    fixture.clock.settle();
    a.wire.calm();
    fixture.nodes.thaw(0..5);
    fixture.advance(20 * MS);
    assert!(report.take().is_some());
    assert_eq!(at_a.event_names(), [""; 0], "no run starts");
    assert_eq!(fixture.nodes.key_counts(), [0; 5]);
    let _b = b.start([job(&b)]);
    fixture.advance(SECOND);
    assert_eq!(
        (fixture.log.ticks(), fixture.log.hosts()),
        (vec![100_000, 200_000], vec!["a", "b"])
    );
}

#[test]
fn tick_claimed_during_pause_runs_later() {
    let (fixture, [a]) = Fixture::hosts(["a"]);
    let jobs = a.start([a.job("j", Schedule::every(100 * SECOND), Duration::ZERO)]);
    freeze_at_claim(&fixture, &a);
    fixture.advance(100 * SECOND + 2 * MS);
    jobs.handle.pause_here("j").unwrap();
    a.wire.calm();
    fixture.nodes.thaw(0..5);
    fixture.advance(SECOND);
    assert_eq!(fixture.log.ticks(), [0u64; 0]);
    jobs.handle.resume_here("j").unwrap();
    fixture.advance(SECOND);
    assert_eq!(fixture.log.ticks(), [100_000]);
}

#[test]
fn ticks_lost_delay_no_later_ones() {
    let (fixture, [a, b]) = Fixture::hosts(["a", "b"]);
    let job = a.job("j", Schedule::every(10 * SECOND), Duration::ZERO).start_within(SECOND);
    let _jobs = a.start([job]);
    // Another client holds the lock from 10 ms before each tick until the tick is too late.
    fixture.advance(9_990 * MS);
    for _ in 0..13 {
        let lock =
            fixture.done(b.redlock.lock(tower_redlock::Resource::of_job("j").unwrap())).unwrap();
        fixture.advance(2 * SECOND);
        drop(lock);
        fixture.advance(8 * SECOND);
    }
    assert_eq!(fixture.log.ticks(), [0u64; 0]);
    let taken =
        fixture.done(b.redlock.lock(tower_redlock::Resource::of_job("j").unwrap())).unwrap();
    fixture.advance(50 * MS);
    drop(taken);
    fixture.advance(100 * MS);
    assert_eq!(fixture.log.ticks(), [140_000]);
}
