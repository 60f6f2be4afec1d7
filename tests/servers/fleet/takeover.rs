//! The time until another replica takes over the tick of a killed one.

use std::{thread, time::Duration};

use super::{
    replica::{LONG_TTL, Plan},
    replicas::Fleet,
};

const KILLS: u32 = 5;

/// The lock of a killed replica expires within a TTL. The other replicas notice within a tenth of
/// it.
#[test]
fn replica_takes_over_within_ttl() {
    let mut fleet = Fleet::start(Plan::Long, 3, 2);
    let mut seen = 0;
    let mut waits: Vec<Duration> = Vec::new();
    for kill in 0..KILLS {
        let first = fleet.run_since(seen, "a run to be interrupted", |line| line.run.attempt == 1);
        // Some runs are killed at once, others after one or several renewals.
        thread::sleep(LONG_TTL * kill / 5);
        seen = fleet.journal.lines().len();
        let killed = fleet.kill(first.run.replica);
        let second = fleet
            .run_since(seen, "another takes over", |line| line.run.replica != first.run.replica);
        assert_eq!((second.run.tick, second.run.attempt), (first.run.tick, 2));
        assert!(second.run.token > first.run.token);
        waits.push(second.from.saturating_duration_since(killed));
        fleet.start_replica(first.run.replica);
        fleet.is_up(first.run.replica, killed);
    }
    fleet.stop();
    waits.sort();
    let millis: Vec<_> = waits.iter().map(Duration::as_millis).collect();
    println!("taken over after {millis:?} ms, with a TTL of {LONG_TTL:?}");
    // A busy machine may be late, but in less than half of the rounds.
    let median = waits[waits.len() / 2];
    assert!(median <= LONG_TTL * 11 / 10, "{millis:?}");
}
