//! When to try again, and whom to ask first: from what the nodes told, without a clock.

use std::time::Duration;

use crate::time::Timestamp;

/// What one node told of a name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heard {
    /// Since when no release goes unnoticed there; `None` while it may.
    pub(super) since: Option<Timestamp>,
    /// The latest release.
    pub(super) freed: Option<Timestamp>,
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
    (tried, first, quorum): (Timestamp, Option<usize>, usize),
) -> Outlook {
    let news = |heard: &&Heard| heard.freed.is_some_and(|at| at >= tried);
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
        Some(at) => Outlook::Stirring(at),
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
