//! The state of a set's nodes and of their clocks, as this manager knows it.

use std::sync::Arc;

use tokio::time::Instant;

use super::{NodeReport, Tag};
use crate::{
    log_budget::LogBudget,
    membership::{
        clock_jump_detector::ClockJumpDetector, enrol::Enrolment, node_status::NodeStatus,
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
    /// The latest tags of voting nodes.
    pub(super) tags: Box<[Option<Tag>]>,
    /// The latest report of each node.
    pub(super) reports: Box<[Option<NodeReport>]>,
    /// The time at which a displaced node's name is resolved again.
    pub(super) lookups: Box<[Timestamp]>,
    /// The budget for messages about this process's clock.
    pub(super) log: LogBudget,
}

impl SetState {
    pub(super) fn new(nodes: usize, settings: &RedisSettings) -> Self {
        Self {
            enrolment: Enrolment::new(nodes, settings.max_ttl, settings.drift_factor)
                .assume_new(settings.guards.assumes_new_servers),
            detector: ClockJumpDetector::new(nodes, settings.drift_factor),
            run_ids: vec![None; nodes].into(),
            tags: vec![None; nodes].into(),
            reports: vec![None; nodes].into(),
            lookups: vec![Timestamp::ZERO; nodes].into(),
            log: LogBudget::new(Instant::now()),
        }
    }

    /// Returns which nodes are connected.
    pub(super) fn connected(&self) -> Vec<bool> {
        self.run_ids.iter().map(Option::is_some).collect()
    }

    /// Records that a node belongs to another set, or belonged to it before it was moved.
    pub(super) fn see_other_set(
        &mut self,
        node: usize,
        report: &NodeReport,
        status_seen: &NodeStatus,
        now: Timestamp,
    ) {
        let foreign = (*status_seen == NodeStatus::OtherLayout).then(|| report.other_set());
        let is_ours =
            matches!(status_seen, NodeStatus::Probation { .. } | NodeStatus::Active { .. });
        let from = is_ours.then(|| report.moved_from.clone());
        self.enrolment.see_other_set(node, foreign, from, now);
    }
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
    /// Time until which readings without a jump are relevant, in ns of the local clock.
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
    use std::time::Duration;

    use super::{
        super::tests::{Scripted, report},
        *,
    };
    use crate::{error::Reason, protocol::views::Incarnation, time::Clock};

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

        let enrols_as = |is_fresh| {
            let terms = set.terms(0, is_fresh);
            (terms.least_epoch.unwrap(), terms.reclaims)
        };

        assert_eq!(enrols_as(true), (10, None));

        let begun = scripted.clock.now();
        // The name is resolved again 2 s after each connection, and when the name may be reclaimed.
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
        assert_eq!(enrols_as(false), (10, None), "only over a new connection");
        assert_eq!(enrols_as(true), (10, own().tag.incarnation()));
    }
}
