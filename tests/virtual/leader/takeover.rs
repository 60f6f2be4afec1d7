//! The time without a leader after a kill, and the cost of a standby candidate.

use std::{sync::atomic::Ordering, time::Duration};

use tower_redlock::time::Clock;

use super::fixture::{Fixture, TTL};
use crate::fixture::counted;

/// Kills at different points of a renewal interval, with different numbers of candidates.
#[test]
fn killed_leader_is_replaced_within_ttl() {
    let fixture = Fixture::new();
    let mut longest = Duration::ZERO;
    for round in 0..24 {
        let killed = fixture.candidate("killed");
        let dying = fixture.run_until_dropped(&killed.leader);
        assert!(killed.leader.is_leader());
        let others = ["b", "c", "d"].map(|name| fixture.candidate(name));
        let standing_by = others.each_ref().map(|other| fixture.run_until_dropped(&other.leader));
        fixture.clock.advance(TTL + Duration::from_millis(round * 250));
        // Its release does not reach a node, as after SIGKILL.
        killed.replica.partition(0..5);
        drop(dying);
        let killed_at = fixture.clock.now();
        fixture.clock.settle();
        assert!(fixture.witness.is_empty());
        let terms = fixture.witness.terms();
        fixture.clock.advance(TTL + TTL / 10);
        assert_eq!(
            fixture.witness.terms(),
            terms + 1,
            "round {round}: no candidate took over in time"
        );
        let leading = others.iter().filter(|other| other.leader.is_leader()).count();
        assert_eq!(leading, 1);
        longest = longest.max(fixture.witness.elected_at().saturating_duration_since(killed_at));
        drop(standing_by);
        fixture.clock.settle();
        assert_eq!(fixture.nodes.key_counts(), [0; 5]);
    }
    println!("longest without a leader: {longest:?}");
    assert!(longest > TTL / 2, "the successor did not wait for the keys of the killed leader");
}

#[test]
fn standby_attempts_once_per_renewal_interval() {
    for wakeups in [true, false] {
        let (fixture, [leading]) = Fixture::candidates(["a"]);
        let _term = fixture.run(&leading.leader);
        let (redlock, asked) =
            counted(&fixture.clock, &fixture.candidate("b").redlock, |builder| {
                builder.wakeups(wakeups)
            });
        let _standing_by = fixture.run(&redlock.leader("x"));
        fixture.clock.advance(TTL * 60);
        let tries = asked.load(Ordering::SeqCst) / fixture.nodes.len();
        assert!((160..190).contains(&tries), "{tries} in sixty TTLs");
        assert_eq!(fixture.witness.terms(), 1, "renewed all the time, beyond the default max_hold");
    }
}
