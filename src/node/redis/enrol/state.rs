//! What a manager knows of the nodes of a set, and of their clocks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Duration,
};

use super::{NodeReport, Tag};
use crate::{
    membership::{
        clock_jump_detector::ClockJumpDetector,
        enrol::Enrolment,
        node_status::NodeStatus,
        takeover::{ForeignSet, Takeover, startable},
    },
    node::redis::RedisSettings,
    time::Timestamp,
};

#[derive(Debug)]
pub(super) struct SetState {
    pub(super) enrolment: Enrolment,
    pub(super) detector: ClockJumpDetector,
    pub(super) run_ids: Box<[Option<Arc<str>>]>,
    /// Which nodes still take over records.
    pub(super) copying: Box<[Copying]>,
    /// Which nodes are being told of the owners of names, and when one that failed is told again.
    pub(super) informing: Box<[Informing]>,
    /// Nodes of other sets, which may be unused.
    pub(super) takeover: Takeover,
    /// Nodes that were moved from another set, and start when that has no quorum left.
    pub(super) moved: Box<[Option<MovedNode>]>,
    /// The tags with which nodes vote, as last seen.
    pub(super) tags: Box<[Option<Tag>]>,
    /// When a node that is displaced is to be looked up anew.
    pub(super) lookups: Box<[Timestamp]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Informing {
    NotBefore(Timestamp),
    UnderWay,
}

/// A node of ours that was moved from another set.
#[derive(Clone, Debug)]
pub(super) struct MovedNode {
    from: (Arc<str>, usize),
    /// Its tag while it is not to start by itself.
    waits_with: Option<Arc<str>>,
    retry_at: Timestamp,
}

/// Interval between two tries to start a node that was moved.
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
            lookups: vec![Timestamp::ZERO; nodes].into(),
        }
    }

    /// Which nodes are connected.
    pub(super) fn connected(&self) -> Vec<bool> {
        self.run_ids.iter().map(Option::is_some).collect()
    }

    /// Moved nodes that may start now, with their tags, and when the next one may be tried.
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

    /// Takes what a node tells of a set that is not ours, or was not.
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
            max_ttl: report.longest_ttl,
        });
        self.takeover.see(node, foreign, now);
        let is_ours =
            matches!(status_seen, NodeStatus::Probation { .. } | NodeStatus::Active { .. });
        let waits = matches!(status_seen, NodeStatus::Probation { moved: true, .. });
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

/// Which wall clocks were off when they were last compared.
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

/// What a correction of our own clock means for the readings of the servers'.
#[derive(Debug)]
pub(super) struct ClockCorrections {
    /// How often our clock was put forward instead of what each node was accused of.
    pub(super) nodes: Box<[AtomicU64]>,
    /// By how much, in µs, that may have been too much, all in all.
    pub(super) overestimate: AtomicU64,
    /// Until when readings without a jump are of interest, in ns of our clock.
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
