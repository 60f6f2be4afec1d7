//! Decides whether so many nodes left a layout that it can't grant any more.
//!
//! A name may lead to another server than the one that a client of the old layout is connected to,
//! so one departure under each of N−q+1 names is not enough. Only nodes count that voted under
//! one view when they left: any quorum that could still be counted contains one of them, or
//! changed more names than R14 allows.

use super::takeover::blocking;

/// A largest group of nodes that voted under one view when they left, by index; `None` for a node that
/// did not vote.
pub(crate) fn group(left: &[Option<String>]) -> Vec<usize> {
    let with = |view: &String| -> Vec<usize> {
        (0..left.len()).filter(|&node| left[node].as_ref() == Some(view)).collect()
    };
    left.iter().flatten().map(with).max_by_key(Vec::len).unwrap_or_default()
}

/// Whether a layout can grant nothing more: N−q+1 of its nodes voted under one view when they
/// left, or a node left under each of its names, as fewer than q of these can have another server.
pub(crate) fn is_stopped(left: &[Option<String>], moved: usize) -> bool {
    moved == left.len() || group(left).len() >= blocking(left.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left<const N: usize>(views: [&str; N]) -> [Option<String>; N] {
        views.map(|view| Some(view.to_owned()).filter(|view| !view.is_empty()))
    }

    #[test]
    fn those_with_one_view_count() {
        let all = left(["a", "b", "a"]);
        assert_eq!(group(&all), [0, 2]);
        assert!(is_stopped(&all, 3));
        // The second took another server for the owner of the first one's name.
        assert!(!is_stopped(&left(["a", "b", ""]), 2));
    }

    #[test]
    fn nodes_without_votes_do_not_count() {
        assert!(!is_stopped(&left(["a", "", ""]), 2));
        assert!(is_stopped(&left(["a", "", ""]), 3), "all names");
    }
}
