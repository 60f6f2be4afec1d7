//! The status of a node in its enrolment, and what activates it.

use std::{sync::Arc, time::Duration};

use crate::{
    protocol::views::{Incarnation, View},
    timestamp::Timestamp,
};

/// The status of a node, as last seen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeStatus {
    /// Not reachable or not usable: disconnected, a replica, or one server under two names.
    Out,
    /// It belongs to another set of nodes.
    OtherLayout,
    /// Waits out its probation before it votes.
    Probation {
        /// The tag that it stores.
        tag: Arc<str>,
        /// The owners that it names, itself among them.
        view: Arc<View>,
        /// The longest TTL of any lock that the node may have forgotten, as far as it knows.
        max_ttl: Duration,
        /// It was moved from another set, which may still grant: it learns from voting nodes and
        /// does not start by itself.
        moved: bool,
        /// Its record shows that it never voted.
        is_new: bool,
    },
    /// It votes.
    Active {
        /// The owners that it names, itself among them.
        view: Arc<View>,
    },
}

impl NodeStatus {
    /// Returns whether it may start by itself, together with others.
    pub fn starts(&self) -> bool {
        matches!(self, Self::Probation { moved: false, .. })
    }

    /// Returns whether its votes count.
    pub fn is_active(&self) -> bool {
        matches!(self, Self::Active { .. })
    }

    /// Returns whether it indicates an old set that may still grant.
    pub(crate) fn is_of_old_set(&self) -> bool {
        matches!(self, Self::OtherLayout | Self::Probation { moved: true, .. })
    }

    /// Returns the view that the node reports; `None` where it is not enrolled in this layout.
    pub fn view(&self) -> Option<&Arc<View>> {
        match self {
            Self::Out | Self::OtherLayout => None,
            Self::Probation { view, .. } | Self::Active { view } => Some(view),
        }
    }
}

/// The other set that a node belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ForeignSet {
    /// The layout of the set, which identifies it.
    pub layout: Arc<str>,
    /// Number of nodes in the set; zero if it is unknown.
    pub size: usize,
    /// The latest mark of the set's clients. It changes while one of them is alive.
    pub seen: Arc<str>,
    /// The longest TTL of the set's locks.
    pub max_ttl: Duration,
}

/// The layout of a set, and its number of nodes.
pub type SetAndSize = (Arc<str>, usize);

/// The steps that a client has to take for the nodes of its set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnrolPlan {
    /// Nodes to activate.
    pub activations: Vec<ActivationStep>,
    /// Nodes whose records must be read again, because a change of them is due.
    pub checks: Vec<usize>,
    /// Nodes to copy records to.
    pub copies: Vec<usize>,
    /// Time of the next step, unless a node's status changes before.
    pub wake: Option<Timestamp>,
}

/// The activation of a node whose probation has ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ActivationStep {
    /// The node.
    pub node: usize,
    /// The tag that the node stored when last seen; it must not have changed.
    pub tag: Arc<str>,
    /// Time waited.
    pub waited: Duration,
    /// How to activate it.
    pub plan: ActivationPlan,
}

/// Where an activated node learns what it forgot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ActivationPlan {
    /// Learn from at least `needed` of these voting nodes: every quorum that ever granted a lock
    /// contains one of them.
    Learn {
        /// The voting nodes.
        from: Vec<usize>,
        /// Minimum number of answers.
        needed: usize,
    },
    /// No node of the set has ever voted, as far as its records show, and the client was told to
    /// [assume](super::enrol::Enrolment::assume_new) that none granted a lock: there is nothing to wait
    /// for or to learn.
    New,
    /// Too few other nodes vote, because the rest are in probation or away: the node starts above
    /// every token that can have been granted, and learns what it can.
    Bootstrap {
        /// The other reachable nodes.
        from: Vec<usize>,
    },
}

/// The outcome of an activation step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivationOutcome {
    /// The node votes, or has left this probation.
    Done,
    /// A node keeps this longer TTL; the probation lasts at least as long.
    Longer(Duration),
    /// A node did not answer.
    Failed,
    /// Another client activates the node; check again after this time.
    Later(Duration),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct EnrolledNode {
    pub(super) status: NodeStatus,
    /// Its latest status while it was reachable.
    pub(super) known: NodeStatus,
    /// Start of the time for which it has been unreachable; zero if it was never seen.
    pub(super) out_since: Timestamp,
    /// The incarnation and time at which it was last seen in a probation from which it may start by
    /// itself.
    pub(super) seen_starting: Option<(Option<Incarnation>, Timestamp)>,
    /// The probation. It continues while the node is unreachable.
    pub(super) wait: Option<Probation>,
    /// The greatest known incarnation under the node's name.
    pub(super) owner: Option<Incarnation>,
    /// When it was found not to own its name any more.
    pub(super) displaced_since: Option<Timestamp>,
    /// Time at which it last regained its name, and the number of times that it lost the name
    /// again.
    pub(super) regained: Option<Timestamp>,
    pub(super) flaps: u32,
    /// Whether its activation is under way. A failed one is retried at `retry_at`.
    pub(super) busy: bool,
    pub(super) retry_at: Timestamp,
    /// The other set that it belongs to, and when it was first seen there like this.
    pub(super) other_set: Option<(ForeignSet, Timestamp)>,
    /// The set that it was moved from.
    pub(super) moved_from: Option<SetAndSize>,
    /// Earliest time of the next reading of its record for a change that is due.
    pub(super) check_at: Timestamp,
    pub(super) copying: Copying,
}

/// The copying of records to a node that votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Copying {
    Done,
    Wanted(Timestamp),
    UnderWay,
}

impl Default for EnrolledNode {
    fn default() -> Self {
        Self {
            status: NodeStatus::Out,
            known: NodeStatus::Out,
            out_since: Timestamp::ZERO,
            seen_starting: None,
            wait: None,
            owner: None,
            displaced_since: None,
            regained: None,
            flaps: 0,
            busy: false,
            retry_at: Timestamp::ZERO,
            other_set: None,
            moved_from: None,
            check_at: Timestamp::ZERO,
            copying: Copying::Done,
        }
    }
}

impl EnrolledNode {
    pub(super) fn view(&self) -> Option<&Arc<View>> {
        self.known.view()
    }

    /// Returns whether the node forgot together with one whose probation began at `since`: it is in
    /// probation too, or was at the same time.
    pub(super) fn starts_with(&self, node: usize, since: Timestamp) -> bool {
        let incarnation = self.view().and_then(|view| view[node]);
        let together = |(starting, seen)| starting == incarnation && seen >= since;
        self.known.starts() || (self.known.is_active() && self.seen_starting.is_some_and(together))
    }

    pub(super) fn is_displaced(&self, node: usize) -> bool {
        self.view().is_some_and(|view| view[node] < self.owner)
    }

    /// Updates since when the node is displaced. If it owned its name for less than `lasting` in
    /// between, the name flaps.
    pub(super) fn note_displaced(&mut self, node: usize, now: Timestamp, lasting: Duration) {
        let is_displaced = self.is_displaced(node);
        match self.displaced_since {
            None if is_displaced => {
                let flaps = self.regained.is_some_and(|at| now < at + lasting);
                self.flaps = if flaps { MAX_FLAPS.min(self.flaps + 1) } else { 0 };
                self.displaced_since = Some(now);
            }
            Some(_) if !is_displaced => {
                (self.displaced_since, self.regained) = (None, Some(now));
            }
            _ => {}
        }
    }
}

/// Maximum number of times that the wait of a displaced node doubles.
const MAX_FLAPS: u32 = 6;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Probation {
    pub(super) incarnation: Option<Incarnation>,
    pub(super) tag: Arc<str>,
    pub(super) since: Timestamp,
    pub(super) max_ttl: Duration,
    /// Start of the time in which enough voting nodes name it and each other.
    pub(super) known_to_voters: Option<Timestamp>,
    /// Start of the time in which it and others that forgot with it form a quorum that name each
    /// other.
    pub(super) known_to_starters: Option<Timestamp>,
    /// It started together with others, which may already vote.
    pub(super) bootstrapped: bool,
    /// It starts with a set of new nodes, without a wait.
    pub(super) starts_new: bool,
}

impl Probation {
    /// Checks that locks which the node may have granted before have expired.
    pub(super) fn assert_over(&self, now: Timestamp) {
        assert!(now >= self.since + self.max_ttl, "activated within max_ttl, at {now:?}: {self:?}");
    }
}

/// Sets `kept` to the time since which `holds` has been true.
pub(super) fn since(kept: &mut Option<Timestamp>, holds: bool, now: Timestamp) {
    if holds {
        kept.get_or_insert(now);
    } else {
        *kept = None;
    }
}
