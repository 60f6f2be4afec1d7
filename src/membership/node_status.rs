//! The status of a node in its enrolment, and what activates it.

use std::{sync::Arc, time::Duration};

use crate::protocol::names::View;

/// How a node stands, as last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeStatus {
    /// Not seen, or of no use for others: not connected, a replica, or one server under two names.
    Out,
    /// It belongs to another set of nodes.
    OtherLayout,
    /// It does not vote until its probation is over.
    Probation {
        /// What it stores of its enrolment.
        tag: Arc<str>,
        /// What it is, and what it takes the others for.
        view: Arc<View>,
        /// The longest TTL of any lock that the node may have forgotten, as far as it knows.
        max_ttl: Duration,
        /// It was taken from another set, which may still grant: it learns from nodes that vote,
        /// and does not start by itself.
        moved: bool,
    },
    /// It votes.
    Active {
        /// What it is, and what it takes the others for.
        view: Arc<View>,
    },
}

impl NodeStatus {
    /// Whether it may start by itself, together with others.
    pub(crate) fn starts(&self) -> bool {
        matches!(self, Self::Probation { moved: false, .. })
    }

    pub(crate) fn is_active(&self) -> bool {
        matches!(self, Self::Active { .. })
    }

    /// Whether it tells of an old set that may still grant.
    pub(crate) fn is_of_old_set(&self) -> bool {
        matches!(self, Self::OtherLayout | Self::Probation { moved: true, .. })
    }

    pub(crate) fn view(&self) -> Option<&Arc<View>> {
        match self {
            Self::Out | Self::OtherLayout => None,
            Self::Probation { view, .. } | Self::Active { view } => Some(view),
        }
    }
}

/// What is to be done for a node whose probation is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ActivationStep {
    /// The node.
    pub node: usize,
    /// What the node stored when it was last looked at: nothing may have changed since.
    pub tag: Arc<str>,
    /// How long was waited.
    pub waited: Duration,
    /// What it takes to activate it.
    pub plan: ActivationPlan,
}

/// Where an activated node learns what it forgot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ActivationPlan {
    /// From at least `needed` of these nodes, which vote: each quorum that ever granted a lock has
    /// one of them.
    Learn {
        /// The voting nodes.
        from: Vec<usize>,
        /// How many of them have to answer.
        needed: usize,
    },
    /// So many nodes are in probation, or have been away for so long, that too few others vote:
    /// it starts above every token that can have been granted, and takes what it can get.
    Bootstrap {
        /// The other nodes that can be asked.
        from: Vec<usize>,
    },
}

/// How a step came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActivationOutcome {
    /// The node votes, or is not in this probation any more.
    Done,
    /// A node knows of a longer TTL: so long has to be waited.
    Longer(Duration),
    /// A node did not answer.
    Failed,
    /// Another client does it: to be looked at again after so long.
    Later(Duration),
}
