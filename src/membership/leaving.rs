//! Decides whether so many nodes left a layout that it can't grant any more.
//!
//! A name may lead to another server than the one that a client of the old layout is connected to,
//! so one departure under each of N−q+1 names is not enough. Only nodes count that voted under
//! one view when they left: any quorum that could still be counted contains one of them, or
//! changed more names than R14 allows.

use std::sync::Arc;

use super::takeover::blocking;
use crate::protocol::views::{Incarnation, Member, View, largest_group};

/// How a node left a layout in which it voted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// It took no part in R14: without the restart guard, or enrolled by an earlier version.
    Unnamed,
    /// Its incarnation, and the owners that it knew of any names.
    Named(Incarnation, Box<[Incarnation]>),
}

impl Departure {
    /// From what a moved node stores (`record::moving`); `None` for a node that did not vote.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::Unnamed);
        }
        let mut incarnations = text.split(',').filter_map(Incarnation::parse);
        Some(Self::Named(incarnations.next()?, incarnations.collect()))
    }
}

/// A largest group of nodes that had one view when they left, by index.
pub(crate) fn group(left: &[Option<Departure>]) -> Vec<usize> {
    let own = |left: &Option<Departure>| match left {
        Some(Departure::Named(incarnation, _)) => Some(*incarnation),
        _ => None,
    };
    let view = |node: usize, incarnation: Incarnation, known: &[Incarnation]| {
        let owner = |(other, left)| own(left).filter(|o| other != node && known.contains(o));
        Arc::new(View { incarnation, owners: left.iter().enumerate().map(owner).collect() })
    };
    let views: Vec<_> = left
        .iter()
        .enumerate()
        .filter_map(|(node, left)| match left.as_ref()? {
            Departure::Unnamed => Some((node, None)),
            Departure::Named(incarnation, known) => {
                Some((node, Some(view(node, *incarnation, known))))
            }
        })
        .collect();
    let members: Vec<Member<'_>> =
        views.iter().map(|(node, view)| (*node, view.as_ref())).collect();
    largest_group(&members).into_iter().map(|(node, _)| node).collect()
}

/// Whether a layout can grant nothing more: N−q+1 of its nodes voted under one view when they
/// left, or a node left under each of its names, as fewer than q of these can have another server.
pub(crate) fn is_stopped(left: &[Option<Departure>], moved: usize) -> bool {
    moved == left.len() || group(left).len() >= blocking(left.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incarnation(id: u128) -> Incarnation {
        Incarnation { epoch: 1, id, nonce: 7 }
    }

    fn left(id: u128, known: &[u128]) -> Option<Departure> {
        let owners: Vec<_> = known.iter().map(|id| incarnation(*id).to_string()).collect();
        Departure::parse(&[&[incarnation(id).to_string()], &owners[..]].concat().join(","))
    }

    #[test]
    fn those_with_one_view_count() {
        let all = [left(1, &[2, 3, 9]), left(2, &[1, 3]), left(3, &[1])];
        assert_eq!(group(&all), [0, 1]);
        assert!(is_stopped(&all, 3));
        // The second took another server for the owner of the first one's name.
        let moved = [left(1, &[2, 3]), left(2, &[9, 3]), None];
        assert_eq!(group(&moved).len(), 1);
        assert!(!is_stopped(&moved, 2));
    }

    #[test]
    fn nodes_without_votes_do_not_count() {
        assert_eq!(Departure::parse(""), None);
        assert!(!is_stopped(&[left(1, &[2, 3]), None, None], 2));
        assert!(is_stopped(&[left(1, &[2, 3]), None, None], 3), "all names");
    }

    #[test]
    fn nodes_without_names_count_with_all() {
        let unnamed = || Departure::parse("*");
        assert!(is_stopped(&[unnamed(), unnamed(), None], 2));
        assert!(is_stopped(&[unnamed(), left(2, &[]), None], 2));
    }
}
