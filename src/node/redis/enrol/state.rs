//! What a manager knows of the nodes of a set, and of their clocks.

use std::{sync::Arc, time::Duration};

use super::{NodeReport, Tag};
use crate::{
    membership::{
        clock_jump_detector::ClockJumpDetector,
        enrol::Enrolment,
        node_status::NodeStatus,
        takeover::{ForeignSet, Takeover, startable},
    },
    node::redis::RedisSettings,
    sync::atomic::{AtomicBool, AtomicU64},
    time::Timestamp,
};

#[derive(Debug)]
pub(super) struct SetState {
    pub(super) enrolment: Enrolment,
    pub(super) detector: ClockJumpDetector,
    pub(super) run_ids: Box<[Option<Arc<str>>]>,
    /// Nodes that still copy records.
    pub(super) copying: Box<[Copying]>,
    /// Nodes being informed of the owners of names, or the time of the next attempt.
    pub(super) informing: Box<[Informing]>,
    /// Nodes of other sets, possibly unused.
    pub(super) takeover: Takeover,
    /// Nodes that were moved from another set, to be started when that has lost its quorum.
    pub(super) moved: Box<[Option<MovedNode>]>,
    /// The latest tags of voting nodes.
    pub(super) tags: Box<[Option<Tag>]>,
    /// The latest report of each node.
    pub(super) reports: Box<[Option<NodeReport>]>,
    /// When a displaced node's name is resolved again.
    pub(super) lookups: Box<[Timestamp]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Informing {
    NotBefore(Timestamp),
    UnderWay,
}

/// A node of this set that was moved from another one.
#[derive(Clone, Debug)]
pub(super) struct MovedNode {
    from: (Arc<str>, usize),
    /// Its tag while it may not start by itself.
    waits_with: Option<Arc<str>>,
    retry_at: Timestamp,
}

/// Interval between attempts to start a moved node.
const START_RETRY: Duration = Duration::from_secs(1);

impl SetState {
    pub(super) fn new(nodes: usize, settings: &RedisSettings) -> Self {
        Self {
            enrolment: Enrolment::new(nodes, settings.max_ttl, settings.drift_factor),
            detector: ClockJumpDetector::new(nodes, settings.drift_factor),
            run_ids: vec![None; nodes].into(),
            copying: vec![Copying::Done; nodes].into(),
            informing: vec![Informing::NotBefore(Timestamp::ZERO); nodes].into(),
            takeover: Takeover::new(nodes, settings.drift_factor),
            moved: vec![None; nodes].into(),
            tags: vec![None; nodes].into(),
            reports: vec![None; nodes].into(),
            lookups: vec![Timestamp::ZERO; nodes].into(),
        }
    }

    /// Returns which nodes are connected.
    pub(super) fn connected(&self) -> Vec<bool> {
        self.run_ids.iter().map(Option::is_some).collect()
    }

    /// Returns the moved nodes to start now, with their tags, and the time of the next attempt.
    pub(super) fn startable(
        &mut self,
        now: Timestamp,
    ) -> (Vec<(usize, Arc<str>)>, Option<Timestamp>) {
        let from: Vec<_> = self.moved.iter().map(|m| m.as_ref().map(|m| m.from.clone())).collect();
        let (mut due, mut wake) = (Vec::new(), None);
        for node in startable(&from) {
            let Some(moved) = &mut self.moved[node] else { continue };
            let Some(tag) = &moved.waits_with else { continue };
            if moved.retry_at <= now {
                moved.retry_at = now + START_RETRY;
                due.push((node, Arc::clone(tag)));
            } else {
                wake =
                    Some(wake.map_or(moved.retry_at, |wake: Timestamp| wake.min(moved.retry_at)));
            }
        }
        (due, wake)
    }

    /// Records a node's membership in another set, now or before it was moved.
    pub(super) fn see_other_set(
        &mut self,
        node: usize,
        report: &NodeReport,
        status_seen: &NodeStatus,
        now: Timestamp,
    ) {
        let foreign = (*status_seen == NodeStatus::OtherLayout).then(|| ForeignSet {
            layout: report.tag.layout().into(),
            size: report.size,
            seen: Arc::clone(&report.seen),
            max_ttl: report.longest_ttl(),
        });
        self.takeover.see(node, foreign, now);
        let is_ours =
            matches!(status_seen, NodeStatus::Probation { .. } | NodeStatus::Active { .. });
        let waits = matches!(status_seen, NodeStatus::Probation { moved: true, .. });
        let from = is_ours.then(|| report.moved_from.clone()).filter(|(_, size)| *size > 0);
        self.takeover.see_moved(node, from);
        let retry_at = self.moved[node].as_ref().map_or(now, |moved| moved.retry_at);
        self.moved[node] = is_ours.then(|| MovedNode {
            from: report.moved_from.clone(),
            waits_with: waits.then(|| Arc::clone(report.tag.text())),
            retry_at,
        });
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copying {
    Done,
    Wanted(Timestamp),
    UnderWay,
}

/// Which wall clocks were off at the latest comparison.
#[derive(Debug)]
pub(super) struct WallClockFlags {
    pub(super) own: AtomicBool,
    pub(super) servers: Box<[AtomicBool]>,
}

impl WallClockFlags {
    pub(super) fn new(nodes: usize) -> Self {
        let servers = (0..nodes).map(|_| AtomicBool::new(false)).collect();
        Self { own: AtomicBool::new(false), servers }
    }
}

/// Corrections of the local clock, applied to the readings of the servers'.
#[derive(Debug)]
pub(super) struct ClockCorrections {
    /// Number of corrections that cleared each node of a jump.
    pub(super) nodes: Box<[AtomicU64]>,
    /// Total possible overestimate of the corrections, in µs.
    pub(super) overestimate: AtomicU64,
    /// Time until which readings without a jump matter, in ns of the local clock.
    pub(super) tried_until: AtomicU64,
}

impl ClockCorrections {
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            nodes: (0..nodes).map(|_| AtomicU64::new(0)).collect(),
            overestimate: AtomicU64::new(0),
            tried_until: AtomicU64::new(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{Scripted, report},
        *,
    };
    use crate::{error::Reason, protocol::views::Incarnation, time::Clock};

    #[test]
    fn enough_moved_nodes_start() {
        let scripted = Scripted::new("p");
        let set = &scripted.set;
        let moved = |run| NodeReport { moved_from: ("old".into(), 3), ..report(set, 'm', run, 1) };
        let begun = scripted.clock.now();
        let startable = || set.state().startable(scripted.clock.now());
        scripted.see(0, &moved(1), true);
        assert_eq!(startable(), (vec![], None), "the old set has a quorum left");
        scripted.see(2, &moved(3), true);
        let due = [(0, 1), (2, 3)].map(|(node, run)| (node, Arc::clone(moved(run).tag.text())));
        assert_eq!(startable(), (due.to_vec(), None));
        let next = begun + START_RETRY;
        assert_eq!(startable(), (vec![], Some(next)));
        scripted.clock.advance(START_RETRY.saturating_sub(Duration::from_nanos(1)));
        // A report in between does not hasten it.
        scripted.see(0, &moved(1), true);
        assert_eq!(startable(), (vec![], Some(next)));
        scripted.clock.advance(Duration::from_nanos(1));
        assert_eq!(startable(), (due.to_vec(), None));
        // Of those that moved, one has started.
        scripted.see(
            2,
            &NodeReport { moved_from: ("old".into(), 3), ..report(set, 'p', 3, 1) },
            true,
        );
        scripted.clock.advance(START_RETRY);
        assert_eq!(startable(), (due[..1].to_vec(), None));
    }
    #[test]
    fn copies_are_wanted_of_voting_nodes() {
        let scripted = Scripted::new("p");
        let set = &scripted.set;
        let copying = |state| NodeReport { copying: true, ..report(set, state, 1, 1) };
        let wanted = || set.state().copying[0];
        let now = scripted.clock.now();
        scripted.see(0, &copying('p'), true);
        assert_eq!(wanted(), Copying::Done);
        scripted.see(0, &copying('a'), true);
        assert_eq!(wanted(), Copying::Wanted(now));
        scripted.clock.advance(Duration::from_secs(1));
        scripted.see(0, &copying('a'), true);
        assert_eq!(wanted(), Copying::Wanted(now), "as before");
        scripted.see(0, &report(set, 'a', 1, 1), true);
        assert_eq!(wanted(), Copying::Done);
        set.state().copying[0] = Copying::UnderWay;
        scripted.see(0, &copying('a'), true);
        assert_eq!(wanted(), Copying::UnderWay);
    }

    #[test]
    fn displaced_nodes_are_looked_up() {
        let scripted = Scripted::new("p");
        let set = &scripted.set;
        let own = || report(set, 'a', 1, 1);
        assert!(!scripted.see(0, &own(), true).reconnect);
        let owner = Incarnation { epoch: 9, id: 1, nonce: 1 };
        let other = NodeReport { owners: vec![Some(owner), None], ..report(set, 'a', 2, 1) };
        scripted.see(1, &other, true);
        assert!(scripted.see(0, &own(), false).reconnect, "at once");
        assert_eq!(scripted.barred()[0], Some(Reason::Displaced));
        assert_eq!(set.enrols_as(0, true), (10, None));
        let begun = scripted.clock.now();
        // Looked up again 2 s after each connection, and when the name may be reclaimed.
        let whole = Duration::from_millis(10_000 + 100 + 2);
        for (from, next) in [(0, 2_000), (2_000, 4_000), (9_000, 10_102), (10_102, 12_102)] {
            let at = |ms| begun + Duration::from_millis(ms);
            scripted.clock.advance(at(from).saturating_duration_since(scripted.clock.now()));
            assert!(!scripted.see(0, &own(), true).reconnect);
            assert_eq!(set.state().lookups[0], at(next), "connected after {from} ms");
            scripted.clock.advance(
                Duration::from_millis(next - from).saturating_sub(Duration::from_nanos(1)),
            );
            assert!(!scripted.see(0, &own(), false).reconnect);
            scripted.clock.advance(Duration::from_nanos(1));
            assert!(scripted.see(0, &own(), false).reconnect);
        }
        assert!(scripted.clock.now().saturating_duration_since(begun) > whole);
        assert_eq!(set.enrols_as(0, false), (10, None), "only over a new connection");
        assert_eq!(set.enrols_as(0, true), (10, own().tag.incarnation()));
    }
}
