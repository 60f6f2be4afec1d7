//! A candidate that is stopped.

use std::time::Duration;

use tower_redlock::{Term, leader::Leadership};

use super::fixture::{Fixture, TTL};

const AT_ONCE: Duration = Duration::from_millis(10);

#[test]
fn stopped_campaign_ends_at_once() {
    let (fixture, [a, b]) = Fixture::candidates(["a", "b"]);
    let a_runs = fixture.run_until_dropped(&a.leader);
    let mut run = fixture.run(&b.leader);
    assert!(fixture.stop(&b.leader).is_finished());
    assert_eq!(run.take(), Some(Ok(None)));
    assert_eq!(*b.leader.transitions().borrow(), Leadership::NotRunning);
    drop(a_runs);
    fixture.clock.advance(TTL * 2);
    assert_eq!(fixture.witness.terms(), 1);
    assert_eq!(fixture.nodes.key_counts(), [0; 5]);
}

#[test]
fn a_stopped_candidate_stays_stopped() {
    let (fixture, [a]) = Fixture::candidates(["a"]);
    // No run is under way, so stop() returns at once.
    assert!(fixture.stop(&a.leader).is_finished());
    assert_eq!(fixture.run(&a.leader.clone()).take(), Some(Ok(None)));
    let mut again =
        fixture.clock.spawn(a.leader.run_until_stopped(|_| async { Ok::<_, String>(()) }));
    fixture.clock.settle();
    assert_eq!(again.take(), Some(Ok(())));
    assert_eq!(fixture.witness.terms(), 0);
    let other = a.redlock.leader("x");
    let _run = fixture.run(&other);
    assert!(other.is_leader(), "a new one is not stopped");
}

#[test]
fn pause_after_resigning_ends_at_once() {
    let (fixture, [a]) = Fixture::candidates(["a"]);
    let mut run = fixture.run(&a.leader.clone().resign_grace(Duration::ZERO));
    let _resigned = fixture.resign(&a.leader);
    fixture.clock.advance(TTL / 2);
    assert!(!a.leader.is_leader());
    assert!(fixture.stop(&a.leader).is_finished());
    assert_eq!(run.take(), Some(Ok(None)));
}

/// The candidate waits for the work, which waits for the candidate.
#[test]
fn work_ends_its_own_candidacy() {
    for resigns in [false, true] {
        let (fixture, [a]) = Fixture::candidates(["a"]);
        let own = a.leader.clone();
        let mut run = fixture.clock.spawn(a.leader.run(move |term: Term| {
            let own = own.clone();
            async move {
                if resigns {
                    own.resign().await;
                } else {
                    own.stop().await;
                }
                term.stopping().await;
                term.ensure_valid().is_ok()
            }
        }));

        fixture.clock.advance(AT_ONCE);

        assert_eq!(run.take(), Some(Ok(Some(true))), "resigns: {resigns}");
        assert!(!a.leader.is_leader());
    }
}
