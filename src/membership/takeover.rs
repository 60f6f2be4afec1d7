//! Nodes of a set that nobody uses any more are taken over by the next one.
//!
//! A first start with a wrong list of nodes binds them to that list. Clients of a set leave a mark
//! on its nodes at health checks. Nodes whose mark has not changed for longer than any lock lasts
//! are taken over, if their set loses its quorum by that. They are taken as moved nodes and start
//! only once enough of them were taken: if a client returns before, its set keeps its quorum, and
//! the new set does not start beside it.

use std::{sync::Arc, time::Duration};

use crate::{protocol::formulas, time::Timestamp};

/// The other set that a node belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForeignSet {
    /// Names the set.
    pub layout: Arc<str>,
    /// How many nodes the set has; zero where that is not known.
    pub size: usize,
    /// Changes while a client of the set looks at the node.
    pub seen: Arc<str>,
    /// The longest TTL of the set's locks.
    pub max_ttl: Duration,
}

/// A set's layout, and how many nodes it has.
pub(crate) type SetAndSize = (Arc<str>, usize);

/// For how long the nodes of other sets have been without clients, as one client counts it.
#[derive(Debug)]
pub(crate) struct Takeover {
    drift_factor: f64,
    nodes: Box<[Option<SetWatch>]>,
    /// The sets that nodes of ours were moved from, and their sizes.
    moved_from: Box<[Option<SetAndSize>]>,
}

#[derive(Clone, Debug)]
struct SetWatch {
    foreign: ForeignSet,
    since: Timestamp,
    retry_at: Timestamp,
}

/// Interval between two tries to take a node.
const RETRY: Duration = Duration::from_secs(1);

/// Longest time between two marks of a client that is alive: it looks once a second, and leaves its
/// mark where a quarter of `max_ttl` is over since the last one; its process or the server may stand
/// still for some seconds.
fn mark_interval(max_ttl: Duration) -> Duration {
    max_ttl / 4 + Duration::from_secs(10)
}

/// How long a node of another set is watched before it is taken.
pub(crate) fn watch_time(max_ttl: Duration, drift_factor: f64) -> Duration {
    max_ttl + formulas::drift(max_ttl, drift_factor) + mark_interval(max_ttl)
}

/// How many nodes a set of `size` has to lose until the rest is no quorum.
pub(crate) const fn blocking(size: usize) -> usize {
    size - formulas::quorum(size) + 1
}

/// Which nodes that were moved may start, as their old set has no quorum left: those of which
/// `moved_from` names a set, and how many nodes it has.
pub(crate) fn startable(moved_from: &[Option<SetAndSize>]) -> Vec<usize> {
    let of = |set: &SetAndSize| moved_from.iter().flatten().filter(|s| *s == set).count();
    let may_start = |(node, set): (usize, &Option<SetAndSize>)| {
        let set = set.as_ref().filter(|(_, size)| *size > 0)?;
        (of(set) >= blocking(set.1)).then_some(node)
    };
    moved_from.iter().enumerate().filter_map(may_start).collect()
}

impl Takeover {
    /// Watches `nodes` nodes.
    pub(crate) fn new(nodes: usize, drift_factor: f64) -> Self {
        Self { drift_factor, nodes: vec![None; nodes].into(), moved_from: vec![None; nodes].into() }
    }

    /// Records which set a node of ours was moved from; `None` if it was not moved, or is not ours.
    pub(crate) fn see_moved(&mut self, node: usize, from: Option<SetAndSize>) {
        self.moved_from[node] = from;
    }

    /// Takes what a node tells; `None` where it belongs to no other set, or is not there.
    pub(crate) fn see(&mut self, node: usize, foreign: Option<ForeignSet>, now: Timestamp) {
        let watch = &mut self.nodes[node];
        let Some(foreign) = foreign.filter(|foreign| foreign.size > 0) else {
            *watch = None;
            return;
        };
        if watch.as_ref().is_none_or(|watch| watch.foreign != foreign) {
            *watch = Some(SetWatch { foreign, since: now, retry_at: now });
        }
    }

    /// The nodes that are to be taken now, with what they told; a try follows, and is not repeated
    /// at once.
    pub(crate) fn due(&mut self, now: Timestamp) -> Vec<(usize, ForeignSet)> {
        let mut due = Vec::new();
        for node in 0..self.nodes.len() {
            if self.due_at(node).is_some_and(|at| now >= at)
                && let Some(watch) = &mut self.nodes[node]
            {
                watch.retry_at = now + RETRY;
                due.push((node, watch.foreign.clone()));
            }
        }
        due
    }

    /// When [`due`](Self::due) has something to give, unless a node tells something else before.
    pub(crate) fn next_wake(&self) -> Option<Timestamp> {
        (0..self.nodes.len()).filter_map(|node| self.due_at(node)).min()
    }

    /// Our clock was put forward by so much: none of that time counts.
    pub(crate) fn put_forward(&mut self, by: Duration) {
        for watch in self.nodes.iter_mut().flatten() {
            watch.since = watch.since + by;
        }
    }

    /// When enough nodes of the node's set have been without clients for long enough, those included that
    /// were moved already.
    fn due_at(&self, node: usize) -> Option<Timestamp> {
        let of = self.nodes[node].as_ref()?;
        let set = (&of.foreign.layout, of.foreign.size);
        let is_same = |watch: &&SetWatch| (&watch.foreign.layout, watch.foreign.size) == set;
        let same = self.nodes.iter().flatten().filter(is_same);
        let moved = self.moved_from.iter().flatten();
        let moved = moved.filter(|(layout, size)| (layout, *size) == set).map(|_| Timestamp::ZERO);
        let mut ends: Vec<_> = same.map(|watch| self.end(watch)).chain(moved).collect();
        ends.sort_unstable();
        let enough = *ends.get(blocking(of.foreign.size) - 1)?;
        Some(enough.max(self.end(of)).max(of.retry_at))
    }

    fn end(&self, watch: &SetWatch) -> Timestamp {
        watch.since + watch_time(watch.foreign.max_ttl, self.drift_factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);
    /// `max_ttl`, 1 % and 2 ms, a quarter of `max_ttl`, and 10 s.
    const END: u64 = 10_102 + 12_500;

    fn at(ms: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(ms)
    }

    fn foreign(layout: &str, size: usize, seen: &str) -> ForeignSet {
        ForeignSet { layout: layout.into(), size, seen: seen.into(), max_ttl: TTL }
    }

    fn taken(takeover: &mut Takeover, now: Timestamp) -> Vec<usize> {
        takeover.due(now).into_iter().map(|(node, _)| node).collect()
    }

    #[test]
    fn unused_nodes_are_taken_together() {
        let mut takeover = Takeover::new(3, 0.01);
        takeover.see(0, Some(foreign("old", 3, "1")), at(0));
        takeover.see(1, Some(foreign("old", 3, "1")), at(500));
        assert_eq!(takeover.next_wake(), Some(at(500 + END)));
        assert_eq!(taken(&mut takeover, at(500 + END - 1)), [0_usize; 0]);
        assert_eq!(taken(&mut takeover, at(500 + END)), [0, 1]);
        assert_eq!(taken(&mut takeover, at(500 + END)), [0_usize; 0], "not twice at once");
        assert_eq!(taken(&mut takeover, at(1_500 + END)), [0, 1], "tried again");
    }

    #[test]
    fn late_node_follows_those_moved() {
        let mut takeover = Takeover::new(4, 0.01);
        for (node, since) in [(0, 0), (1, 0), (2, 500)] {
            takeover.see(node, Some(foreign("old", 3, "1")), at(since));
        }
        takeover.see(3, Some(foreign("another", 3, "1")), at(0));
        assert_eq!(taken(&mut takeover, at(END)), [0, 1]);
        for node in [0, 1] {
            takeover.see(node, None, at(END));
            takeover.see_moved(node, Some(("old".into(), 3)));
        }
        assert_eq!(taken(&mut takeover, at(499 + END)), [0_usize; 0]);
        assert_eq!(taken(&mut takeover, at(500 + END)), [2]);
        // Those that began anew were not moved.
        takeover.see_moved(0, None);
        takeover.see_moved(1, None);
        assert_eq!(taken(&mut takeover, at(9_000 + END)), [0_usize; 0]);
    }

    #[test]
    fn client_of_the_set_prevents_it() {
        let mut takeover = Takeover::new(3, 0.01);
        for node in 0..3 {
            takeover.see(node, Some(foreign("old", 3, "1")), at(0));
        }
        takeover.see(0, Some(foreign("old", 3, "2")), at(9_000));
        takeover.see(1, Some(foreign("old", 3, "2")), at(9_000));
        assert_eq!(taken(&mut takeover, at(9_000 + END - 1)), [0_usize; 0]);
        assert_eq!(taken(&mut takeover, at(9_000 + END)), [0, 1, 2]);
    }

    #[test]
    fn too_few_nodes_are_left_alone() {
        let mut takeover = Takeover::new(3, 0.01);
        takeover.see(0, Some(foreign("old", 3, "1")), at(0));
        takeover.see(1, Some(foreign("another", 5, "1")), at(0));
        takeover.see(2, Some(foreign("unknown", 0, "1")), at(0));
        assert_eq!(takeover.next_wake(), None);
    }

    #[test]
    fn small_sets_need_one_node() {
        for size in [1, 2] {
            let mut takeover = Takeover::new(3, 0.01);
            takeover.see(2, Some(foreign("old", size, "1")), at(0));
            assert_eq!(taken(&mut takeover, at(END)), [2], "{size}");
        }
    }

    #[test]
    fn nodes_start_when_enough_have_moved() {
        let from = |set: &str, size| Some((Arc::from(set), size));
        assert_eq!(startable(&[from("old", 3), None, None]), [0_usize; 0]);
        assert_eq!(startable(&[from("old", 3), from("another", 3), from("old", 3)]), [0, 2]);
        assert_eq!(startable(&[None, from("old", 2), from("unknown", 0)]), [1]);
    }

    #[test]
    fn absence_begins_the_watch_anew() {
        let mut takeover = Takeover::new(1, 0.01);
        takeover.see(0, Some(foreign("old", 1, "1")), at(0));
        takeover.see(0, None, at(5_000));
        takeover.see(0, Some(foreign("old", 1, "1")), at(6_000));
        assert_eq!(takeover.next_wake(), Some(at(6_000 + END)));
        takeover.put_forward(Duration::from_secs(1));
        assert_eq!(takeover.next_wake(), Some(at(7_000 + END)));
    }
}
