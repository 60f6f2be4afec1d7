//! Resignation of a leader.

use std::time::Duration;

use tower_redlock::{Term, leader::Leadership};

use super::fixture::{FOLLOWED, Fixture, TTL};
use crate::durations::MS;

#[test]
fn resigning_without_leading_returns_at_once() {
    let (fixture, [a, b]) = Fixture::candidates(["a", "b"]);
    assert!(fixture.resign(&a.leader).is_finished());
    let _a = fixture.run(&a.leader);
    let _b = fixture.run(&b.leader);
    assert!(fixture.resign(&b.leader).is_finished());
    assert!(a.leader.is_leader());
}

/// Of a candidate that resigns, and of one that is stopped.
#[test]
fn stopping_work_returns_its_output() {
    for stops in [false, true] {
        let (fixture, [a, b]) = Fixture::candidates(["a", "b"]);
        let clock = fixture.clock.clone();
        let cleanup_time = Duration::from_secs(2);
        let mut run = fixture.clock.spawn(a.leader.run(move |term: Term| {
            let clock = clock.clone();
            async move {
                term.stopping().await;
                clock.sleep(cleanup_time).await;
                term.ensure_valid().is_ok()
            }
        }));
        fixture.clock.settle();
        let _b = fixture.run(&b.leader);
        let ended = if stops { fixture.stop(&a.leader) } else { fixture.resign(&a.leader) };
        assert!(!ended.is_finished() && a.leader.is_leader(), "the work is still stopping");
        fixture.clock.advance(cleanup_time);
        assert!(ended.is_finished(), "stops: {stops}");
        assert_eq!(run.take(), Some(Ok(Some(true))));
        assert_eq!(*a.leader.transitions().borrow(), Leadership::NotRunning);
        fixture.clock.advance(FOLLOWED);
        assert!(b.leader.is_leader());
    }
}

/// Of a candidate that resigns, and of one that is stopped.
#[test]
fn grace_ends_work_that_continues() {
    for stops in [false, true] {
        let (fixture, [a]) = Fixture::candidates(["a"]);
        // Longer than the validity without a renewal.
        let grace = TTL * 3;
        let mut run = fixture.run(&a.leader.clone().resign_grace(grace));
        let ended = if stops { fixture.stop(&a.leader) } else { fixture.resign(&a.leader) };
        fixture.clock.advance(grace.saturating_sub(MS));
        assert!(!ended.is_finished() && a.leader.is_leader() && !fixture.witness.is_empty());
        fixture.clock.advance(MS);
        assert!(ended.is_finished() && fixture.witness.is_empty(), "stops: {stops}");
        assert!(!a.leader.is_leader());
        assert_eq!(fixture.nodes.key_counts(), [0; 5], "released");
        assert_eq!(run.take(), stops.then_some(Ok(None)), "stops: {stops}");
    }
}

#[test]
fn resigned_candidate_pauses_for_a_ttl() {
    let (fixture, [a]) = Fixture::candidates(["a"]);
    let _run = fixture.run(&a.leader.clone().resign_grace(Duration::ZERO));
    let resigned = fixture.resign(&a.leader);
    assert!(resigned.is_finished());
    fixture.clock.advance(TTL.saturating_sub(MS));
    assert_eq!(fixture.witness.terms(), 1);
    fixture.clock.advance(MS);
    assert_eq!(fixture.witness.terms(), 2);
    assert!(a.leader.is_leader());
}

/// Work that ends on request ends the run; the next run pauses as well.
#[test]
fn next_run_pauses_too() {
    let (fixture, [a]) = Fixture::candidates(["a"]);
    let stops = |term: Term| async move { term.stopping().await };
    let mut first = fixture.clock.spawn(a.leader.run(stops));
    fixture.clock.settle();
    assert!(fixture.resign(&a.leader).is_finished());
    assert_eq!(first.take(), Some(Ok(Some(()))));
    let _again = fixture.run(&a.leader);
    fixture.clock.advance(TTL.saturating_sub(MS));
    assert!(!a.leader.is_leader(), "the pause lasts a TTL");
    fixture.clock.advance(MS);
    assert!(a.leader.is_leader());
}

/// Another candidate has led: the pause ends.
#[test]
fn pause_ends_with_another_leader() {
    let (fixture, [a, b]) = Fixture::candidates(["a", "b"]);
    let _a = fixture.run(&a.leader.clone().resign_grace(Duration::ZERO));
    let b_runs = fixture.run_until_dropped(&b.leader);
    fixture.clock.advance(TTL);
    assert!(fixture.resign(&a.leader).is_finished());
    fixture.clock.advance(TTL / 10);
    assert!(b.leader.is_leader());
    let owner = Some("b".into());
    assert_eq!(*a.leader.transitions().borrow(), Leadership::Standby { leader: owner });
    drop(b_runs);
    fixture.clock.advance(TTL / 100);
    assert!(a.leader.is_leader(), "the pause lasted a TTL");
}

#[test]
fn resignation_behind_partition_ends_with_term() {
    let (fixture, [a]) = Fixture::candidates(["a"]);
    let _run = fixture.run(&a.leader.clone().resign_grace(TTL * 3));
    a.replica.partition(0..5);
    let resigned = fixture.resign(&a.leader);
    fixture.clock.advance(TTL);
    assert!(resigned.is_finished());
    assert!(fixture.witness.is_empty());
    // The pause after the resignation still applies.
    a.replica.heal(0..5);
    fixture.clock.advance(TTL / 2);
    assert_eq!(fixture.witness.terms(), 1);
    fixture.clock.advance(TTL);
    assert!(a.leader.is_leader());
}

#[test]
fn no_leadership_during_release() {
    let (fixture, [a]) = Fixture::candidates(["a"]);
    let _run = fixture.run(&a.leader.clone().resign_grace(Duration::ZERO));
    fixture.nodes.freeze(0..5);
    let resigned = fixture.resign(&a.leader);
    assert!(fixture.witness.is_empty() && !resigned.is_finished());
    assert!(!a.leader.is_leader());
    assert_eq!(*a.leader.transitions().borrow(), Leadership::Standby { leader: None });
    fixture.nodes.thaw(0..5);
    fixture.clock.settle();
    assert!(resigned.is_finished());
}
