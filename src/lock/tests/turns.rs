//! Whose turn it is, and when to ask again.

use super::*;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(1_000_000_000) + Duration::from_millis(ms)
}

/// Released at `ms`, at once, while another process waits.
fn awaited(streaks: &mut Streaks, resource: &Resource, ms: u64) {
    streaks.returned(resource, true, at(ms), at(ms));
}

#[test]
fn process_yields_once_while_others_wait() {
    let (mut streaks, a) = (Streaks::default(), Resource::try_from("a").unwrap());

    assert_eq!(streaks.turn(&a, at(0)), CurrentTurn::Ours);
    awaited(&mut streaks, &a, 0);
    assert_eq!(streaks.turn(&a, at(4)), CurrentTurn::Ours, "the streak is short");
    awaited(&mut streaks, &a, 4);
    assert_eq!(streaks.turn(&a, at(5)), CurrentTurn::Others);
    streaks.end(&a);
    assert_eq!(streaks.turn(&a, at(6)), CurrentTurn::Ours, "another process had it");

    // Another process held it in between.
    awaited(&mut streaks, &a, 10);
    streaks.end(&a);
    assert_eq!(streaks.turn(&a, at(20)), CurrentTurn::Ours);
    awaited(&mut streaks, &a, 10);
    assert_eq!(streaks.turn(&a, at(15)), CurrentTurn::Others);
    assert_eq!(streaks.begin_pause(&a), 0);
    assert_eq!(streaks.turn(&a, at(16)), CurrentTurn::Ours, "a pause ends the streak");
    awaited(&mut streaks, &a, 20);
    assert_eq!(streaks.turn(&a, at(24)), CurrentTurn::Ours, "the next one begins");
    assert_eq!(streaks.turn(&a, at(25)), CurrentTurn::Others);
    assert_eq!([streaks.begin_pause(&a), streaks.begin_pause(&a)], [1, 2]);
    streaks.end(&a);
    // Stale.
    awaited(&mut streaks, &a, 30);
    assert_eq!(streaks.turn(&a, at(1_031)), CurrentTurn::Ours);
    streaks.begin_pause(&a);
    awaited(&mut streaks, &a, 2_000);
    assert_eq!(streaks.begin_pause(&a), 0, "others wait now");
    streaks.end(&a);
    // A new streak, which began when the lease did.
    streaks.returned(&a, true, at(1_040), at(1_042));

    assert_eq!(streaks.turn(&a, at(1_044)), CurrentTurn::Ours);
    assert_eq!(streaks.turn(&a, at(1_045)), CurrentTurn::Others);
}

#[test]
fn long_hold_waits_for_an_answer() {
    let (mut streaks, a) = (Streaks::default(), Resource::try_from("a").unwrap());

    streaks.returning(&a, at(0), at(4));
    assert_eq!(streaks.turn(&a, at(4)), CurrentTurn::Ours, "that was short");
    streaks.returning(&a, at(0), at(6));
    assert_eq!(streaks.turn(&a, at(6)), CurrentTurn::Unknown);
    streaks.returned(&a, false, at(0), at(7));
    assert_eq!(streaks.turn(&a, at(7)), CurrentTurn::Ours);
    streaks.returning(&a, at(10), at(20));
    streaks.returned(&a, true, at(10), at(21));
    streaks.returned(&a, false, at(10), at(22));

    assert_eq!(streaks.turn(&a, at(22)), CurrentTurn::Others, "one node that knows is enough");
}

#[test]
fn stale_information_needs_a_new_answer() {
    let (mut streaks, a) = (Streaks::default(), Resource::try_from("a").unwrap());

    for round in 0..3 {
        let (since, until) = (at(round * 2_000), at((round + 1) * 2_000 - 10));
        streaks.returning(&a, since, until);
        assert_eq!(streaks.turn(&a, until), CurrentTurn::Unknown);
        streaks.returned(&a, true, since, until);
        assert_eq!(streaks.turn(&a, until), CurrentTurn::Others);
        assert_eq!(u64::from(streaks.begin_pause(&a)), round, "no other process had it");
    }
    streaks.returning(&a, at(8_000), at(8_010));
    assert_eq!(streaks.begin_pause(&a), 0, "another process has waited since");

    // No node answers, and the name is held again much later.
    streaks.returning(&a, at(9_050), at(9_060));
    assert_eq!(streaks.turn(&a, at(9_060)), CurrentTurn::Unknown);
    streaks.returned(&a, false, at(9_050), at(9_061));
    assert!(streaks.is_empty(), "no other process waits");
    awaited(&mut streaks, &a, 9_100);
    streaks.returned(&a, false, at(9_100), at(10_101));

    assert!(streaks.is_empty(), "the information is stale");
}

#[test]
fn stale_names_are_removed() {
    let mut streaks = Streaks::default();
    let name = |i: usize| Resource::try_from(format!("n{i}")).unwrap();

    for i in 0..500 {
        awaited(&mut streaks, &name(i), 0);
        streaks.returning(&name(i + 500), at(0), at(6));
    }
    awaited(&mut streaks, &name(0), 2_000);
    assert_eq!(streaks.names.len(), 1);
    streaks.end(&name(0));

    assert!(streaks.is_empty());
}

#[test]
fn stale_names_are_removed_at_intervals() {
    let mut streaks = Streaks::default();
    let name = |i: usize| Resource::try_from(format!("n{i}")).unwrap();

    for (i, ms) in (0..200).map(|i| (i, i / 100 * 500)) {
        awaited(&mut streaks, &name(i), u64::try_from(ms).unwrap());
    }
    let left = [1_000, 1_600, 2_000].map(|ms| {
        awaited(&mut streaks, &name(0), ms);
        streaks.names.len()
    });

    assert_eq!(left, [101, 101, 1]);
}

#[test]
fn line_passes_at_most_twice() {
    let (mut streaks, a) = (Streaks::default(), Resource::try_from("a").unwrap());

    assert!(streaks.is_in_turn(&a, 9, at(99)), "no streak");
    streaks.begin(&a, at(0), at(1));
    assert_eq!(streaks.turn(&a, at(30)), CurrentTurn::Ours, "they may have left");
    assert!(streaks.is_in_turn(&a, 9, at(4)));
    assert!(streaks.is_in_turn(&a, 1, at(19)) && !streaks.is_in_turn(&a, 2, at(19)));
    assert!(streaks.is_in_turn(&a, 0, at(90)) && !streaks.is_in_turn(&a, 1, at(20)));
    streaks.returning(&a, at(0), at(30));
    assert_eq!(streaks.turn(&a, at(30)), CurrentTurn::Unknown, "no node has answered");
    streaks.returned(&a, false, at(0), at(31));

    assert_eq!(streaks.turn(&a, at(31)), CurrentTurn::Ours);
    assert!(streaks.is_in_turn(&a, 9, at(99)));
}

/// Five nodes with subscriptions since 0 ms, and the releases that they reported.
fn reports(freed: &[(usize, u64)]) -> [ReleaseReports; 5] {
    let mut nodes = [ReleaseReports { since: Some((at(0), 1)), ..ReleaseReports::default() }; 5];
    for (node, ms) in freed {
        nodes[*node].freed = Some((at(*ms), 9));
    }
    nodes
}

fn seen(nodes: &[ReleaseReports], listening: usize) -> ReleaseStatus {
    release_status(nodes, listening, (at(10), 5), Some(1), 3)
}

#[test]
fn quorum_of_new_hints_means_free() {
    assert_eq!(seen(&reports(&[]), 0), ReleaseStatus::Held);
    assert_eq!(
        seen(&reports(&[(0, 9), (2, 9), (4, 9)]), 2),
        ReleaseStatus::Held,
        "before the attempt"
    );
    let two = reports(&[(0, 11), (2, 12), (3, 9)]);
    assert_eq!(seen(&two, 2), ReleaseStatus::Partial(at(11)));
    let three = reports(&[(0, 11), (2, 12), (3, 13)]);
    assert_eq!(seen(&three, 2), ReleaseStatus::Free { listening: 2, since: at(13) });

    // At the same reading of the clock, the number decides.
    let same = reports(&[(0, 10), (2, 10), (3, 10)]);

    assert_eq!(seen(&same, 2), ReleaseStatus::Free { listening: 2, since: at(10) });
}

#[test]
fn crowd_needs_the_lead_nodes_report() {
    let free = ReleaseStatus::Free { listening: 3, since: at(11) };
    assert_eq!(seen(&reports(&[(1, 11)]), 3), free);
    assert_eq!(seen(&reports(&[(0, 11)]), 3), ReleaseStatus::Partial(at(11)));
    assert_eq!(seen(&reports(&[(1, 11)]), 2), ReleaseStatus::Partial(at(11)));
}

#[test]
fn new_quorum_of_subscriptions_asks_again() {
    let mut nodes = reports(&[]);
    (nodes[0].since, nodes[1].since, nodes[2].since) = (None, None, None);
    assert_eq!(seen(&nodes, 2), ReleaseStatus::Unwatched);
    nodes[2].since = Some((at(11), 9));
    let free = ReleaseStatus::Free { listening: 0, since: Timestamp::ZERO };
    assert_eq!(seen(&nodes, 2), free);
    nodes[2].since = Some((at(10), 4));
    assert_eq!(seen(&nodes, 2), ReleaseStatus::Held);
}

#[test]
fn late_subscriptions_may_have_missed_releases() {
    let mut nodes = reports(&[(0, 11), (2, 12)]);
    assert_eq!(seen(&nodes, 2), ReleaseStatus::Partial(at(11)));
    nodes[4].since = Some((at(11), 9));
    let free = ReleaseStatus::Free { listening: 2, since: at(12) };
    assert_eq!(seen(&nodes, 2), free);
    let mut none = reports(&[]);
    none[4].since = Some((at(11), 9));
    assert_eq!(seen(&none, 2), ReleaseStatus::Held, "no node reported a release");
}

#[test]
fn longest_waiting_process_goes_first() {
    let ms = Duration::from_millis;
    assert_eq!([3, 4, 99].map(|passed| turn(4, passed)), [ms(0); 3]);
    assert_eq!([2, 1, 0].map(|passed| turn(4, passed)), [ms(2), ms(4), ms(4)]);
    assert_eq!(turn(usize::MAX, 7), ms(4), "the number of listeners is unknown");
}

#[test]
fn releases_within_a_streak_count_once() {
    let mut node = ReleaseReports::default();
    let passed = [10, 12, 14, 15, 19, 20, 90].map(|ms| {
        node.release((at(ms), 1));
        node.passed
    });
    assert_eq!(passed, [1, 1, 1, 2, 2, 3, 4]);
}
