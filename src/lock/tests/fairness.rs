//! Streaks of one process, while others wait.

use super::*;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(1_000_000_000) + Duration::from_millis(ms)
}

/// Released at `ms`, at once, while another process waits.
fn awaited(streaks: &Streaks, resource: &Resource, ms: u64) {
    streaks.returned(resource, true, (at(ms), at(ms)));
}

#[test]
fn process_yields_once_while_others_wait() {
    let (streaks, a) = (Streaks::default(), Resource::try_from("a").unwrap());
    assert_eq!(streaks.turn(&a, at(0)), TurnOwner::Ours);
    awaited(&streaks, &a, 0);
    assert_eq!(streaks.turn(&a, at(4)), TurnOwner::Ours, "the streak is short");
    awaited(&streaks, &a, 4);
    assert_eq!(streaks.turn(&a, at(5)), TurnOwner::Others);
    streaks.end(&a);
    assert_eq!(streaks.turn(&a, at(6)), TurnOwner::Ours, "another process had it");
    // Another process held it in between.
    awaited(&streaks, &a, 10);
    streaks.end(&a);
    assert_eq!(streaks.turn(&a, at(20)), TurnOwner::Ours);
    awaited(&streaks, &a, 10);
    assert_eq!(streaks.turn(&a, at(15)), TurnOwner::Others);
    assert_eq!(streaks.begin_pause(&a), 0);
    assert_eq!(streaks.turn(&a, at(16)), TurnOwner::Ours, "a pause ends the streak");
    awaited(&streaks, &a, 20);
    assert_eq!(streaks.turn(&a, at(24)), TurnOwner::Ours, "the next one begins");
    assert_eq!(streaks.turn(&a, at(25)), TurnOwner::Others);
    assert_eq!([streaks.begin_pause(&a), streaks.begin_pause(&a)], [1, 2]);
    streaks.end(&a);
    // Stale.
    awaited(&streaks, &a, 30);
    assert_eq!(streaks.turn(&a, at(1_031)), TurnOwner::Ours);
    streaks.begin_pause(&a);
    awaited(&streaks, &a, 2_000);
    assert_eq!(streaks.begin_pause(&a), 0, "others wait now");
    streaks.end(&a);
    // A new streak, which began when the lease did.
    streaks.returned(&a, true, (at(1_040), at(1_042)));
    assert_eq!(streaks.turn(&a, at(1_044)), TurnOwner::Ours);
    assert_eq!(streaks.turn(&a, at(1_045)), TurnOwner::Others);
}

#[test]
fn long_hold_waits_for_an_answer() {
    let (streaks, a) = (Streaks::default(), Resource::try_from("a").unwrap());
    streaks.returning(&a, at(0), at(4));
    assert_eq!(streaks.turn(&a, at(4)), TurnOwner::Ours, "that was short");
    streaks.returning(&a, at(0), at(6));
    assert_eq!(streaks.turn(&a, at(6)), TurnOwner::Unknown);
    streaks.returned(&a, false, (at(0), at(7)));
    assert_eq!(streaks.turn(&a, at(7)), TurnOwner::Ours);
    streaks.returning(&a, at(10), at(20));
    streaks.returned(&a, true, (at(10), at(21)));
    streaks.returned(&a, false, (at(10), at(22)));
    assert_eq!(streaks.turn(&a, at(22)), TurnOwner::Others, "one node that knows is enough");
}

#[test]
fn stale_information_needs_a_new_answer() {
    let (streaks, a) = (Streaks::default(), Resource::try_from("a").unwrap());
    for round in 0..3 {
        let (since, until) = (at(round * 2_000), at((round + 1) * 2_000 - 10));
        streaks.returning(&a, since, until);
        assert_eq!(streaks.turn(&a, until), TurnOwner::Unknown);
        streaks.returned(&a, true, (since, until));
        assert_eq!(streaks.turn(&a, until), TurnOwner::Others);
        assert_eq!(u64::from(streaks.begin_pause(&a)), round, "no other process had it");
    }
    streaks.returning(&a, at(8_000), at(8_010));
    assert_eq!(streaks.begin_pause(&a), 0, "another process has waited since");
    // No node answers, and the name is held again much later.
    streaks.returning(&a, at(9_050), at(9_060));
    assert_eq!(streaks.turn(&a, at(9_060)), TurnOwner::Unknown);
    streaks.returned(&a, false, (at(9_050), at(9_061)));
    assert!(!streaks.any(), "no other process waits");
    awaited(&streaks, &a, 9_100);
    streaks.returned(&a, false, (at(9_100), at(10_101)));
    assert!(!streaks.any(), "the information is stale");
}

#[test]
fn stale_names_are_removed() {
    let streaks = Streaks::default();
    let name = |i: usize| Resource::try_from(format!("n{i}")).unwrap();
    for i in 0..500 {
        awaited(&streaks, &name(i), 0);
        streaks.returning(&name(i + 500), at(0), at(6));
    }
    awaited(&streaks, &name(0), 2_000);
    assert_eq!(streaks.state.lock().unwrap().names.len(), 1);
    streaks.end(&name(0));
    assert!(!streaks.any());
}

#[test]
fn stale_names_are_removed_at_intervals() {
    let streaks = Streaks::default();
    let name = |i: usize| Resource::try_from(format!("n{i}")).unwrap();
    for (i, ms) in (0..200).map(|i| (i, i / 100 * 500)) {
        awaited(&streaks, &name(i), u64::try_from(ms).unwrap());
    }
    let left = [1_000, 1_600, 2_000].map(|ms| {
        awaited(&streaks, &name(0), ms);
        streaks.state.lock().unwrap().names.len()
    });
    assert_eq!(left, [101, 101, 1]);
}

#[test]
fn line_passes_at_most_twice() {
    let (streaks, a) = (Streaks::default(), Resource::try_from("a").unwrap());
    assert!(streaks.is_in_turn(&a, 9, at(99)), "no streak");
    streaks.begin(&a, at(0), at(1));
    assert_eq!(streaks.turn(&a, at(30)), TurnOwner::Ours, "they may have left");
    assert!(streaks.is_in_turn(&a, 9, at(4)));
    assert!(streaks.is_in_turn(&a, 1, at(19)) && !streaks.is_in_turn(&a, 2, at(19)));
    assert!(streaks.is_in_turn(&a, 0, at(90)) && !streaks.is_in_turn(&a, 1, at(20)));
    streaks.returning(&a, at(0), at(30));
    assert_eq!(streaks.turn(&a, at(30)), TurnOwner::Unknown, "no node has answered");
    streaks.returned(&a, false, (at(0), at(31)));
    assert_eq!(streaks.turn(&a, at(31)), TurnOwner::Ours);
    assert!(streaks.is_in_turn(&a, 9, at(99)));
}
