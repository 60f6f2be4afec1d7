//! The status of a name by the nodes' reports.

use super::*;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(1_000_000_000) + Duration::from_millis(ms)
}

/// Five nodes with subscriptions since 0 ms, and the releases that they reported.
fn reports(freed: &[(usize, u64)]) -> [NodeReports; 5] {
    let mut nodes = [NodeReports { since: Some((at(0), 1)), ..NodeReports::default() }; 5];
    for (node, ms) in freed {
        nodes[*node].freed = Some((at(*ms), 9));
    }
    nodes
}

fn seen(nodes: &[NodeReports], listening: usize) -> ReleaseStatus {
    release_status(nodes, listening, ((at(10), 5), Some(1), 3))
}

#[test]
fn quorum_of_new_hints_means_free() {
    assert_eq!(seen(&reports(&[]), 0), ReleaseStatus::Held);
    assert_eq!(seen(&reports(&[(0, 9), (2, 9), (4, 9)]), 2), ReleaseStatus::Held, "before the try");
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
    let mut node = NodeReports::default();
    let passed = [10, 12, 14, 15, 19, 20, 90].map(|ms| {
        node.release((at(ms), 1));
        node.passed
    });
    assert_eq!(passed, [1, 1, 1, 2, 2, 3, 4]);
}
