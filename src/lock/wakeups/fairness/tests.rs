use super::*;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(1_000_000_000) + Duration::from_millis(ms)
}

/// Given back at `ms` by one who had it since then, and somebody waits.
fn awaited(streaks: &Streaks, resource: &Resource, ms: u64) {
    streaks.returned(resource, true, (at(ms), at(ms)));
}

#[test]
fn a_process_gives_way_once_in_a_row_and_only_while_others_wait() {
    let (streaks, a) = (Streaks::default(), Resource::try_from("a").unwrap());
    assert_eq!(streaks.turn(&a, at(0)), Turn::Ours);
    awaited(&streaks, &a, 0);
    assert_eq!(streaks.turn(&a, at(4)), Turn::Ours, "the streak is short");
    awaited(&streaks, &a, 4);
    assert_eq!(streaks.turn(&a, at(5)), Turn::Others);
    streaks.end(&a);
    assert_eq!(streaks.turn(&a, at(6)), Turn::Ours, "it gave way");
    // Somebody else had a turn in between.
    awaited(&streaks, &a, 10);
    streaks.end(&a);
    assert_eq!(streaks.turn(&a, at(20)), Turn::Ours);
    awaited(&streaks, &a, 10);
    assert_eq!(streaks.turn(&a, at(15)), Turn::Others);
    assert_eq!(streaks.give_way(&a), 0);
    assert_eq!(streaks.turn(&a, at(16)), Turn::Ours, "a pause ends the streak");
    awaited(&streaks, &a, 20);
    assert_eq!(streaks.turn(&a, at(24)), Turn::Ours, "the next one begins");
    assert_eq!(streaks.turn(&a, at(25)), Turn::Others);
    assert_eq!([streaks.give_way(&a), streaks.give_way(&a)], [1, 2]);
    streaks.end(&a);
    // Long ago.
    awaited(&streaks, &a, 30);
    assert_eq!(streaks.turn(&a, at(1_031)), Turn::Ours);
    streaks.give_way(&a);
    awaited(&streaks, &a, 2_000);
    assert_eq!(streaks.give_way(&a), 0, "others wait now");
    streaks.end(&a);
    // A new streak, which began when the lease did.
    streaks.returned(&a, true, (at(1_040), at(1_042)));
    assert_eq!(streaks.turn(&a, at(1_044)), Turn::Ours);
    assert_eq!(streaks.turn(&a, at(1_045)), Turn::Others);
}

#[test]
fn who_held_for_long_waits_for_the_first_answer() {
    let (streaks, a) = (Streaks::default(), Resource::try_from("a").unwrap());
    streaks.returning(&a, at(0), at(4));
    assert_eq!(streaks.turn(&a, at(4)), Turn::Ours, "that was short");
    streaks.returning(&a, at(0), at(6));
    assert_eq!(streaks.turn(&a, at(6)), Turn::Unknown);
    streaks.returned(&a, false, (at(0), at(7)));
    assert_eq!(streaks.turn(&a, at(7)), Turn::Ours);
    streaks.returning(&a, at(10), at(20));
    streaks.returned(&a, true, (at(10), at(21)));
    streaks.returned(&a, false, (at(10), at(22)));
    assert_eq!(streaks.turn(&a, at(22)), Turn::Others, "one node that knows is enough");
}

#[test]
fn who_held_for_so_long_that_nothing_is_known_any_more_waits_for_an_answer_again() {
    let (streaks, a) = (Streaks::default(), Resource::try_from("a").unwrap());
    for round in 0..3 {
        let (since, until) = (at(round * 2_000), at((round + 1) * 2_000 - 10));
        streaks.returning(&a, since, until);
        assert_eq!(streaks.turn(&a, until), Turn::Unknown);
        streaks.returned(&a, true, (since, until));
        assert_eq!(streaks.turn(&a, until), Turn::Others);
        assert_eq!(u64::from(streaks.give_way(&a)), round, "nobody else had it");
    }
    streaks.returning(&a, at(8_000), at(8_010));
    assert_eq!(streaks.give_way(&a), 0, "it was not asked for meanwhile");
    // Nobody answers that, and much later somebody holds it again.
    streaks.returning(&a, at(9_050), at(9_060));
    assert_eq!(streaks.turn(&a, at(9_060)), Turn::Unknown);
    streaks.returned(&a, false, (at(9_050), at(9_061)));
    assert!(!streaks.any(), "nobody waits");
    awaited(&streaks, &a, 9_100);
    streaks.returned(&a, false, (at(9_100), at(10_101)));
    assert!(!streaks.any(), "nobody was seen for long");
}

#[test]
fn many_names_are_not_remembered_for_long() {
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
fn many_names_are_not_looked_at_each_time() {
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
fn a_line_is_served_once_or_twice_while_others_listen() {
    let (streaks, a) = (Streaks::default(), Resource::try_from("a").unwrap());
    assert!(streaks.is_in_turn(&a, 9, at(99)), "nobody else is known of");
    streaks.begin(&a, at(0), at(1));
    assert_eq!(streaks.turn(&a, at(30)), Turn::Ours, "they may have left");
    assert!(streaks.is_in_turn(&a, 9, at(4)));
    assert!(streaks.is_in_turn(&a, 1, at(19)) && !streaks.is_in_turn(&a, 2, at(19)));
    assert!(streaks.is_in_turn(&a, 0, at(90)) && !streaks.is_in_turn(&a, 1, at(20)));
    streaks.returning(&a, at(0), at(30));
    assert_eq!(streaks.turn(&a, at(30)), Turn::Unknown, "the nodes are about to say");
    streaks.returned(&a, false, (at(0), at(31)));
    assert_eq!(streaks.turn(&a, at(31)), Turn::Ours);
    assert!(streaks.is_in_turn(&a, 9, at(99)));
}
