//! R7: one node, one server; one layout, one quorum.
//!
//! Nodes with the same run id are one server, and none of them votes. The *layout* is a hash of the
//! sorted names, the prefix, the restart guard and the form of what is stored. A client with
//! another layout gets no vote and no renewal, and its error shows the right one.
//!
//! Nodes *move* to another layout (state `m`: they only learn). When N−q+1 have moved, the old set
//! has no quorum left, and they begin a probation. They keep their fences and the larger `max_ttl`;
//! the owners of names begin anew. No set bootstraps while one of its nodes may vote for another,
//! nor within one `max_ttl` after that.
//!
//! * *Adopt* is a command; all nodes of the new set begin a probation. A name may lead to another
//!   server than the one that a client of the old layout uses, so only nodes count that voted under
//!   one view when they left: any quorum that could still be counted contains one of them, or
//!   changed more names than R14 allows. Departures under each of the N names count as well.
//! * *Takeover* is for servers that a first start with a wrong list of nodes has bound to that
//!   list. Clients leave a mark (`seen`) on the nodes of their set at health checks. A node whose
//!   mark is unchanged for 1.25 `max_ttl`, the drift and 10 s, longer than any lock lasts, is unused.
//!   If a set has no quorum without its unused nodes, they move, and start once enough of them were
//!   taken with an unchanged mark: if a client returns before, its set keeps its quorum.

use std::time::Duration;

pub use super::node_status::{ForeignSet, SetAndSize};
use super::{enrol::Enrolment, node_status::NodeStatus};
use crate::{protocol::formulas, timestamp::Timestamp};

/// Maximum time between two marks of a client that is alive: it reads the record at least every 5 s,
/// and leaves its mark where a quarter of `max_ttl` is over since the last one; its process or the
/// server may be suspended for some seconds.
fn mark_interval(max_ttl: Duration) -> Duration {
    max_ttl / 4 + Duration::from_secs(10)
}

/// Time for which a node of another set is watched before it is taken.
pub fn watch_time(max_ttl: Duration, drift_factor: f64) -> Duration {
    max_ttl + formulas::drift(max_ttl, drift_factor) + mark_interval(max_ttl)
}

/// Returns the number of nodes that a set of `size` has to lose until the rest is too few for a
/// quorum.
pub const fn blocking(size: usize) -> usize {
    size - formulas::quorum(size) + 1
}

/// Returns the indices of a largest group of nodes that voted under one view when they left. `left`
/// has `None` for a node that did not vote.
pub fn largest_group(left: &[Option<String>]) -> Vec<usize> {
    let with = |view: &String| -> Vec<usize> {
        (0..left.len()).filter(|&node| left[node].as_ref() == Some(view)).collect()
    };
    left.iter().flatten().map(with).max_by_key(Vec::len).unwrap_or_default()
}

/// Returns whether a layout can grant nothing more: N−q+1 of its nodes voted under one view when
/// they left, or a node left under each of its names. In the latter case fewer than q names can
/// lead to another server.
pub fn is_stopped(left: &[Option<String>], moved: usize) -> bool {
    moved == left.len() || largest_group(left).len() >= blocking(left.len())
}

impl Enrolment {
    /// Records the other set that a node belongs to, and the one that a node of this set was moved
    /// from.
    pub fn see_other_set(
        &mut self,
        node: usize,
        foreign: Option<ForeignSet>,
        moved_from: Option<SetAndSize>,
        now: Timestamp,
    ) {
        let entry = &mut self.nodes[node];
        entry.moved_from = moved_from.filter(|(_, size)| *size > 0);
        let foreign = foreign.filter(|foreign| foreign.size > 0);
        let known = entry.other_set.take().filter(|(known, _)| Some(known) == foreign.as_ref());
        entry.other_set = known.or_else(|| foreign.map(|foreign| (foreign, now)));
    }

    /// Returns the set of a node that must be taken over now: no client has used enough nodes of
    /// that set for long enough.
    pub fn unused_set(&self, node: usize, now: Timestamp) -> Option<&ForeignSet> {
        let is_unused = self.unused_from(node).is_some_and(|at| now >= at);
        self.nodes[node].other_set.as_ref().map(|(foreign, _)| foreign).filter(|_| is_unused)
    }

    /// Returns whether clients of another set may use a node, as far as its mark shows. A node that
    /// went down, or lost its data, may be used for as long as one whose mark does not change.
    pub fn may_be_used_elsewhere(&self, node: usize, now: Timestamp) -> bool {
        let entry = &self.nodes[node];
        let is_watched =
            |since: Timestamp, max_ttl| now < since + watch_time(max_ttl, self.drift_factor);
        self.is_elsewhere(node)
            && match &entry.other_set {
                Some((foreign, since)) => is_watched(*since, foreign.max_ttl),
                None => {
                    entry.status == NodeStatus::OtherLayout
                        || is_watched(entry.out_since, self.max_ttl)
                }
            }
    }

    /// Returns when enough nodes of the node's set have been without clients for long enough, those
    /// included that were moved already.
    pub(super) fn unused_from(&self, node: usize) -> Option<Timestamp> {
        let end = |(foreign, since): &(ForeignSet, Timestamp)| {
            *since + watch_time(foreign.max_ttl, self.drift_factor)
        };
        let of = self.nodes[node].other_set.as_ref()?;
        let set = (&of.0.layout, of.0.size);
        let same = self.nodes.iter().filter_map(|entry| entry.other_set.as_ref());
        let same = same.filter(|(foreign, _)| (&foreign.layout, foreign.size) == set).map(end);
        let moved = self.nodes.iter().filter_map(|entry| entry.moved_from.as_ref());
        let moved = moved.filter(|(layout, size)| (layout, *size) == set).map(|_| Timestamp::ZERO);
        let mut ends: Vec<_> = same.chain(moved).collect();
        ends.sort_unstable();
        Some((*ends.get(blocking(of.0.size) - 1)?).max(end(of)))
    }

    /// Returns whether a node that was moved may start its probation: its old set has no quorum
    /// left.
    pub fn may_start(&self, node: usize) -> bool {
        let is_moved = matches!(self.nodes[node].status, NodeStatus::Probation { moved: true, .. });
        let Some(set) = self.nodes[node].moved_from.as_ref().filter(|_| is_moved) else {
            return false;
        };
        let moved = self.nodes.iter().filter(|entry| entry.moved_from.as_ref() == Some(set));
        moved.count() >= blocking(set.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);
    /// `max_ttl`, 1 % and 2 ms, a quarter of `max_ttl`, and 10 s.
    const UNUSED_AFTER: u64 = 10_102 + 12_500;

    fn at(ms: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(ms)
    }

    fn foreign(layout: &str, size: usize, seen: &str) -> ForeignSet {
        ForeignSet { layout: layout.into(), size, seen: seen.into(), max_ttl: TTL }
    }

    /// Nodes of other sets, by index, since these times in ms.
    fn watching<const N: usize>(nodes: [(ForeignSet, u64); N]) -> Enrolment {
        let mut enrolment = Enrolment::new(4, TTL, 0.01);
        for (node, (foreign, since)) in nodes.into_iter().enumerate() {
            enrolment.see_other_set(node, Some(foreign), None, at(since));
        }
        enrolment
    }

    fn unused(enrolment: &Enrolment, ms: u64) -> Vec<usize> {
        (0..4).filter(|&node| enrolment.unused_set(node, at(ms)).is_some()).collect()
    }

    #[test]
    fn unused_nodes_are_taken_together() {
        let set = || foreign("old", 3, "1");
        let enrolment = watching([(set(), 0), (set(), 500)]);
        assert_eq!(enrolment.next_wake(), Some(at(500 + UNUSED_AFTER)));
        assert_eq!(unused(&enrolment, 500 + UNUSED_AFTER - 1), [0_usize; 0]);
        assert_eq!(unused(&enrolment, 500 + UNUSED_AFTER), [0, 1]);
    }

    #[test]
    fn late_node_follows_those_moved() {
        let set = || foreign("old", 3, "1");
        let mut enrolment =
            watching([(set(), 0), (set(), 0), (set(), 500), (foreign("another", 3, "1"), 0)]);

        assert_eq!(unused(&enrolment, UNUSED_AFTER), [0, 1]);
        for node in [0, 1] {
            enrolment.see_other_set(node, None, Some(("old".into(), 3)), at(UNUSED_AFTER));
        }
        assert_eq!(unused(&enrolment, 499 + UNUSED_AFTER), [0_usize; 0]);
        assert_eq!(unused(&enrolment, 500 + UNUSED_AFTER), [2]);

        // Those that began anew were not moved.
        for node in [0, 1] {
            enrolment.see_other_set(node, None, None, at(UNUSED_AFTER));
        }

        assert_eq!(unused(&enrolment, 9_000 + UNUSED_AFTER), [0_usize; 0]);
    }

    #[test]
    fn client_of_the_set_prevents_it() {
        let set = || foreign("old", 3, "1");
        let mut enrolment = watching([(set(), 0), (set(), 0), (set(), 0)]);
        for node in [0, 1] {
            enrolment.see_other_set(node, Some(foreign("old", 3, "2")), None, at(9_000));
        }
        assert_eq!(unused(&enrolment, 9_000 + UNUSED_AFTER - 1), [0_usize; 0]);
        assert_eq!(unused(&enrolment, 9_000 + UNUSED_AFTER), [0, 1, 2]);
    }

    #[test]
    fn too_few_nodes_are_left_alone() {
        let enrolment = watching([
            (foreign("old", 3, "1"), 0),
            (foreign("another", 5, "1"), 0),
            (foreign("unknown", 0, "1"), 0),
        ]);
        assert_eq!(enrolment.next_wake(), None);
    }

    #[test]
    fn small_sets_need_one_node() {
        for size in [1, 2] {
            let enrolment = watching([(foreign("old", size, "1"), 0)]);
            assert_eq!(unused(&enrolment, UNUSED_AFTER), [0], "{size}");
        }
    }

    #[test]
    fn nodes_start_when_enough_have_moved() {
        let startable = |from: [(&str, usize); 3], is_moved: bool| -> Vec<usize> {
            let mut enrolment = Enrolment::new(3, TTL, 0.01);
            for (node, (set, size)) in from.into_iter().enumerate() {
                let view = vec![None; 3].into();
                let status = NodeStatus::Probation {
                    tag: "".into(),
                    view,
                    max_ttl: TTL,
                    moved: is_moved,
                    is_new: false,
                };
                enrolment.see(node, status, at(0));
                enrolment.see_other_set(node, None, Some((set.into(), size)), at(0));
            }
            (0..3).filter(|&node| enrolment.may_start(node)).collect()
        };

        assert_eq!(startable([("old", 3), ("", 0), ("", 0)], true), [0_usize; 0]);
        assert_eq!(startable([("old", 3), ("another", 3), ("old", 3)], true), [0, 2]);
        assert_eq!(startable([("", 0), ("old", 2), ("unknown", 0)], true), [1]);
        assert_eq!(startable([("old", 3), ("old", 3), ("old", 3)], false), [0_usize; 0]);
    }

    #[test]
    fn absence_begins_the_watch_anew() {
        let mut enrolment = watching([(foreign("old", 1, "1"), 0)]);
        enrolment.see(0, NodeStatus::Out, at(5_000));
        assert_eq!(enrolment.next_wake(), None);
        enrolment.see_other_set(0, Some(foreign("old", 1, "1")), None, at(6_000));
        assert_eq!(enrolment.next_wake(), Some(at(6_000 + UNUSED_AFTER)));
        enrolment.put_forward(Duration::from_secs(1));
        assert_eq!(enrolment.next_wake(), Some(at(7_000 + UNUSED_AFTER)));
    }

    fn left<const N: usize>(views: [&str; N]) -> [Option<String>; N] {
        views.map(|view| Some(view.to_owned()).filter(|view| !view.is_empty()))
    }

    #[test]
    fn those_with_one_view_count() {
        let all = left(["a", "b", "a"]);
        assert_eq!(largest_group(&all), [0, 2]);
        assert!(is_stopped(&all, 3));
        // The second took another server for the owner of the first one's name.
        assert!(!is_stopped(&left(["a", "b", ""]), 2));
    }

    #[test]
    fn nodes_without_votes_do_not_count() {
        assert!(!is_stopped(&left(["a", "", ""]), 2));
        assert!(is_stopped(&left(["a", "", ""]), 3), "all names");
    }

    #[test]
    fn gone_server_is_used_elsewhere_for_watch_time() {
        let mut enrolment = Enrolment::new(3, TTL, 0.01);
        let is_used = |enrolment: &Enrolment, ms| enrolment.may_be_used_elsewhere(2, at(ms));

        enrolment.see(2, NodeStatus::OtherLayout, at(0));
        enrolment.see_other_set(2, Some(foreign("old", 3, "1")), None, at(0));
        enrolment.see(2, NodeStatus::Out, at(5_000));
        assert!(is_used(&enrolment, 5_000 + UNUSED_AFTER - 1));
        assert!(!is_used(&enrolment, 5_000 + UNUSED_AFTER));
        // It returns without its data.
        enrolment.see(2, NodeStatus::Out, at(60_000));
        assert!(!is_used(&enrolment, 60_000));
        enrolment.see(2, NodeStatus::OtherLayout, at(70_000));
        assert!(is_used(&enrolment, 3_600_000), "of an unknown size");
    }
}
