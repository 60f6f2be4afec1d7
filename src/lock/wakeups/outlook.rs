//! When to try again, and whom to ask first: from what the nodes told, without a clock.

use std::time::Duration;

use crate::time::Timestamp;

/// When something happened, and its number among all that was told of a name: a clock may stand
/// still for a while.
pub(super) type Moment = (Timestamp, u64);

/// What one node told of a name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heard {
    /// Since when no release goes unnoticed there; `None` while it may.
    pub(super) since: Option<Moment>,
    /// The latest release.
    pub(super) freed: Option<Moment>,
}

/// What is to be made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outlook {
    /// Releases may go unnoticed: to be tried again soon.
    Blind,
    /// A quorum of nodes would tell.
    Quiet,
    /// A node that is not enough by itself told of a release, then.
    Stirring(Timestamp),
    /// It may be free: `by` many were told so.
    Free { listening: usize },
}

/// What the nodes told of a name, to one whose last try began at `tried` and asks `first` first.
pub(super) fn outlook(
    nodes: &[Heard],
    listening: usize,
    (tried, first, quorum): (Moment, Option<usize>, usize),
) -> Outlook {
    let news = |heard: &&Heard| heard.freed.is_some_and(|at| at > tried);
    let freed = nodes.iter().filter(news).count();
    // Who asks one node first needs no more than its word: the release is on its way to the others.
    let at_first = is_crowd(listening)
        && first.and_then(|node| nodes.get(node)).is_some_and(|heard| news(&heard));
    if freed >= quorum || at_first {
        return Outlook::Free { listening };
    }
    let standing = nodes.iter().filter(|heard| heard.since.is_some()).count();
    if standing < quorum {
        return Outlook::Blind;
    }
    // What was released between the try and the day when a quorum stood was told to nobody.
    let stood = nodes.iter().filter(|heard| heard.since.is_some_and(|at| at <= tried)).count();
    if stood < quorum {
        return Outlook::Free { listening: 0 };
    }
    match nodes.iter().filter(|heard| news(heard)).filter_map(|heard| heard.freed).min() {
        Some((at, _)) => Outlook::Stirring(at),
        None => Outlook::Quiet,
    }
}

/// Whether so many listeners may split the votes. Of two contenders for an odd number of nodes one
/// always has a majority, and one of those who listen is mostly the one that gave back.
pub(super) fn is_crowd(listening: usize) -> bool {
    listening > 2
}

/// How long one of many waits before it tries: those who have waited for longest go at once, the
/// others draw lots, so that who is told first does not win every time. `lot` is a random number.
pub(super) fn turn(listening: usize, waited: Duration, lot: u64) -> Duration {
    let others = u32::try_from(listening.saturating_sub(2)).unwrap_or(u32::MAX).min(MOST);
    if others == 0 || waited >= LONG_TURN * others || lot.is_multiple_of(2) {
        return Duration::ZERO;
    }
    Duration::from_millis(1 + lot / 2 % u64::from(others))
}

/// A process that has waited for so long for each of the others has waited for its turn.
const LONG_TURN: Duration = Duration::from_millis(100);
/// More contenders than this are waited for no longer.
const MOST: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(1_000_000_000) + Duration::from_millis(ms)
    }

    /// Five nodes that listen since 0 ms, and these tell of releases at these moments.
    fn heard(freed: &[(usize, u64)]) -> [Heard; 5] {
        let mut nodes = [Heard { since: Some((at(0), 1)), freed: None }; 5];
        for (node, ms) in freed {
            nodes[*node].freed = Some((at(*ms), 9));
        }
        nodes
    }

    fn seen(nodes: &[Heard], listening: usize) -> Outlook {
        outlook(nodes, listening, ((at(10), 5), Some(1), 3))
    }

    #[test]
    fn a_quorum_of_hints_that_are_newer_than_the_try_says_that_it_may_be_free() {
        assert_eq!(seen(&heard(&[]), 0), Outlook::Quiet);
        assert_eq!(seen(&heard(&[(0, 9), (2, 9), (4, 9)]), 2), Outlook::Quiet, "old news");
        let two = heard(&[(0, 11), (2, 12), (3, 9)]);
        assert_eq!(seen(&two, 2), Outlook::Stirring(at(11)));
        let three = heard(&[(0, 11), (2, 12), (3, 13)]);
        assert_eq!(seen(&three, 2), Outlook::Free { listening: 2 });
        // The same moment of a clock that stands still: the number decides.
        assert_eq!(seen(&heard(&[(0, 10), (2, 10), (3, 10)]), 2), Outlook::Free { listening: 2 });
    }

    #[test]
    fn one_of_a_crowd_needs_the_word_of_the_node_that_it_asks_first() {
        assert_eq!(seen(&heard(&[(1, 11)]), 3), Outlook::Free { listening: 3 });
        assert_eq!(seen(&heard(&[(0, 11)]), 3), Outlook::Stirring(at(11)));
        assert_eq!(seen(&heard(&[(1, 11)]), 2), Outlook::Stirring(at(11)));
    }

    #[test]
    fn without_a_quorum_that_listens_nothing_is_known_and_with_a_new_one_it_is_looked_again() {
        let mut nodes = heard(&[]);
        (nodes[0].since, nodes[1].since, nodes[2].since) = (None, None, None);
        assert_eq!(seen(&nodes, 2), Outlook::Blind);
        nodes[2].since = Some((at(11), 9));
        assert_eq!(seen(&nodes, 2), Outlook::Free { listening: 0 });
        nodes[2].since = Some((at(10), 4));
        assert_eq!(seen(&nodes, 2), Outlook::Quiet);
    }

    #[test]
    fn who_has_waited_for_longest_goes_at_once_and_the_others_draw_lots() {
        let ms = Duration::from_millis;
        assert_eq!(turn(2, ms(0), 1), ms(0), "nobody else waits");
        assert_eq!(turn(4, ms(200), 1), ms(0));
        assert_eq!(turn(4, ms(199), 2), ms(0));
        assert_eq!(turn(4, ms(199), 1), ms(1));
        assert_eq!(turn(4, ms(199), 3), ms(2));
        assert!((0..100).all(|lot| turn(usize::MAX, ms(0), lot) <= ms(8)));
    }
}
