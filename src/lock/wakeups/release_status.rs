//! Whether a name may be free, by what the nodes reported. Pure: without a clock.

use std::time::Duration;

use super::fairness::LONGEST_STREAK;
use crate::time::Timestamp;

/// The time of a report, and its number among all reports of a name, as a clock may stand still.
pub(super) type Moment = (Timestamp, u64);

/// The reports of one node about a name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heard {
    /// Start of the subscription; `None` while there is none.
    pub(super) since: Option<Moment>,
    /// The latest release.
    pub(super) freed: Option<Moment>,
    /// Number of turns that others have had since this process released the name, and the release that
    /// was counted last.
    pub(super) passed: usize,
    pub(super) counted: Option<Timestamp>,
}

impl Heard {
    /// A release was told of. Several within the length of a streak are one turn.
    pub(super) fn release(&mut self, at: Moment) {
        self.freed = Some(at);
        if self.counted.is_none_or(|last| at.0.saturating_duration_since(last) >= LONGEST_STREAK) {
            self.counted = Some(at.0);
            self.passed += 1;
        }
    }

    /// Notes that this process releases the name, which is no turn of others.
    pub(super) fn returning(&mut self, at: Timestamp) {
        (self.passed, self.counted) = (0, Some(at));
    }
}

/// What is known of a name's release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReleaseStatus {
    /// Fewer than a quorum of nodes would report a release.
    Unwatched,
    /// A quorum would report a release, and none has.
    Held,
    /// Fewer than a quorum reported a release, the first of them then.
    Partial(Timestamp),
    /// It may be free since then. `listening`: number of processes that were told.
    Free { listening: usize, since: Timestamp },
}

/// Returns the status for a request whose last try began at `tried` and which asks `first` first.
pub(super) fn release_status(
    nodes: &[Heard],
    listening: usize,
    (tried, first, quorum): (Moment, Option<usize>, usize),
) -> ReleaseStatus {
    let news = |heard: &&Heard| heard.freed.is_some_and(|at| at > tried);
    let freed = nodes.iter().filter(news).count();
    let latest = || nodes.iter().filter_map(|heard| heard.freed).max();
    let since = latest().map_or(Timestamp::ZERO, |(at, _)| at);
    // With a lead node its report is enough: the release is on its way to the other nodes.
    let at_first = is_crowd(listening)
        && first.and_then(|node| nodes.get(node)).is_some_and(|heard| news(&heard));
    if freed >= quorum || at_first {
        return ReleaseStatus::Free { listening, since };
    }
    let standing = nodes.iter().filter(|heard| heard.since.is_some()).count();
    if standing < quorum {
        return ReleaseStatus::Unwatched;
    }
    // A release between the try and the quorum of subscriptions was not reported.
    let stood = nodes.iter().filter(|heard| heard.since.is_some_and(|at| at <= tried)).count();
    if stood < quorum {
        return ReleaseStatus::Free { listening: 0, since };
    }
    match nodes.iter().filter(|heard| news(heard)).filter_map(|heard| heard.freed).min() {
        Some((at, _)) => ReleaseStatus::Partial(at),
        None => ReleaseStatus::Held,
    }
}

/// Whether so many listeners may split the votes. Of two contenders for an odd number of nodes one
/// always has a majority, and one of the listeners is mostly the process that released the name.
pub(super) fn is_crowd(listening: usize) -> bool {
    listening > 2
}

/// Returns the delay before the next try, where others have had `passed` turns since this process
/// released the name. The process that waited longest tries at once, the others some milliseconds
/// later, in that order. Not all listeners wait, so the delay is short.
pub(super) fn turn(listening: usize, passed: usize) -> Duration {
    // The process that released it listens too.
    let before = u32::try_from(listening.saturating_sub(passed + 1)).unwrap_or(u32::MAX);
    SLOT * before.min(FEW)
}

/// Interval between the tries of two processes: the granularity of timers.
const SLOT: Duration = Duration::from_millis(2);
/// Number of processes that keep their order behind the first.
const FEW: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(1_000_000_000) + Duration::from_millis(ms)
    }

    /// Five nodes that listen since 0 ms, and these tell of releases at these moments.
    fn heard(freed: &[(usize, u64)]) -> [Heard; 5] {
        let mut nodes = [Heard { since: Some((at(0), 1)), ..Heard::default() }; 5];
        for (node, ms) in freed {
            nodes[*node].freed = Some((at(*ms), 9));
        }
        nodes
    }

    fn seen(nodes: &[Heard], listening: usize) -> ReleaseStatus {
        release_status(nodes, listening, ((at(10), 5), Some(1), 3))
    }

    #[test]
    fn a_quorum_of_hints_that_are_newer_than_the_try_says_that_it_may_be_free() {
        assert_eq!(seen(&heard(&[]), 0), ReleaseStatus::Held);
        assert_eq!(seen(&heard(&[(0, 9), (2, 9), (4, 9)]), 2), ReleaseStatus::Held, "old news");
        let two = heard(&[(0, 11), (2, 12), (3, 9)]);
        assert_eq!(seen(&two, 2), ReleaseStatus::Partial(at(11)));
        let three = heard(&[(0, 11), (2, 12), (3, 13)]);
        assert_eq!(seen(&three, 2), ReleaseStatus::Free { listening: 2, since: at(13) });
        // The same moment of a clock that stands still: the number decides.
        let same = heard(&[(0, 10), (2, 10), (3, 10)]);
        assert_eq!(seen(&same, 2), ReleaseStatus::Free { listening: 2, since: at(10) });
    }

    #[test]
    fn one_of_a_crowd_needs_the_word_of_the_node_that_it_asks_first() {
        let free = ReleaseStatus::Free { listening: 3, since: at(11) };
        assert_eq!(seen(&heard(&[(1, 11)]), 3), free);
        assert_eq!(seen(&heard(&[(0, 11)]), 3), ReleaseStatus::Partial(at(11)));
        assert_eq!(seen(&heard(&[(1, 11)]), 2), ReleaseStatus::Partial(at(11)));
    }

    #[test]
    fn without_a_quorum_that_listens_nothing_is_known_and_with_a_new_one_it_is_looked_again() {
        let mut nodes = heard(&[]);
        (nodes[0].since, nodes[1].since, nodes[2].since) = (None, None, None);
        assert_eq!(seen(&nodes, 2), ReleaseStatus::Unwatched);
        nodes[2].since = Some((at(11), 9));
        let free = ReleaseStatus::Free { listening: 0, since: Timestamp::ZERO };
        assert_eq!(seen(&nodes, 2), free);
        nodes[2].since = Some((at(10), 4));
        assert_eq!(seen(&nodes, 2), ReleaseStatus::Held);
    }

    #[test]
    fn the_longest_passed_over_goes_first() {
        let ms = Duration::from_millis;
        assert_eq!([3, 4, 99].map(|passed| turn(4, passed)), [ms(0); 3]);
        assert_eq!([2, 1, 0].map(|passed| turn(4, passed)), [ms(2), ms(4), ms(4)]);
        assert_eq!(turn(usize::MAX, 7), ms(4), "it is not known how many listen");
    }

    #[test]
    fn releases_within_a_row_are_one_turn() {
        let mut heard = Heard::default();
        let passed = [10, 12, 14, 15, 19, 20, 90].map(|ms| {
            heard.release((at(ms), 1));
            heard.passed
        });
        assert_eq!(passed, [1, 1, 1, 2, 2, 3, 4]);
    }
}
