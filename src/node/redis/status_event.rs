//! Log messages and metrics about a node, emitted outside its mutex.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use crate::{
    error::{Reason, ServerText},
    events::LockEventKind,
    log_budget::MessageLevel,
    metrics::{self, NodeGauges},
    node::NodeState,
};

/// A log message or metric about a node.
#[derive(Debug)]
pub(super) enum StatusEvent {
    Up,
    UpAgain {
        outage: Duration,
    },
    Down {
        reason: Reason,
    },
    StillDown {
        reason: Reason,
    },
    Refuses {
        reason: Reason,
    },
    RefusesNoLonger {
        outage: Duration,
    },
    MayVote,
    Probation {
        votes_in: Duration,
    },
    NoVote {
        reason: Reason,
    },
    Evicts {
        policy: Arc<str>,
        limit: u64,
    },
    Denied {
        command: &'static str,
    },
    /// The node was taken over from another set.
    TakenOver {
        former: Arc<str>,
        ours: Arc<str>,
    },
    ClockJumped {
        by: String,
    },
    ClockOff {
        by: String,
    },
    ClockRight,
    NotActivated {
        asked: Arc<str>,
        reason: Reason,
        is_new: bool,
    },
    /// There were no more messages for a while, after this number in excess.
    Settled {
        excess: u64,
        state: NodeState,
    },
    Gauges(NodeGauges),
}

/// Events in order, emitted by one thread at a time.
#[derive(Debug, Default)]
pub(super) struct StatusEventQueue {
    pub(super) queue: VecDeque<(StatusEvent, MessageLevel)>,
    pub(super) emitting: bool,
}

impl StatusEvent {
    /// Returns whether the server accepts operations or votes again.
    pub(super) const fn is_return(&self) -> bool {
        matches!(
            self,
            Self::Up | Self::UpAgain { .. } | Self::RefusesNoLonger { .. } | Self::MayVote
        )
    }

    /// Returns the event for receivers of [`LockEvent`](crate::events::LockEvent)s, if there is
    /// one.
    pub(super) fn public(&self, name: &Arc<str>) -> Option<LockEventKind> {
        let node = Arc::clone(name);
        Some(match self {
            event if event.is_return() => LockEventKind::NodeBack { node },
            Self::Down { reason } | Self::Refuses { reason } | Self::NoVote { reason } => {
                LockEventKind::NodeOut { node, reason: reason.clone() }
            }
            Self::Probation { votes_in } => {
                LockEventKind::NodeOut { node, reason: Reason::Probation { remaining: *votes_in } }
            }
            _ => return None,
        })
    }

    /// Returns whether the message counts as one that is logged at INFO or above.
    pub(super) const fn is_counted(&self) -> bool {
        !matches!(
            self,
            Self::Gauges(_) | Self::Settled { .. } | Self::NotActivated { is_new: false, .. }
        )
    }

    pub(super) fn emit(self, name: &Arc<str>, level: MessageLevel) {
        let node = &**name;
        if let Self::NotActivated { .. } = &self {
            metrics::failed_activation(node);
        }
        if level != MessageLevel::Own {
            if level == MessageLevel::FirstInExcess {
                crate::log::warn!(
                    %node,
                    "the node's state changes often: from now on most changes are logged at DEBUG"
                );
            }
            crate::log::debug!(%node, change = ?self, "node changed");
            return;
        }
        match self {
            Self::Up => crate::log::info!(%node, "node is up"),
            Self::UpAgain { outage } => crate::log::info!(%node, ?outage, "node is up again"),
            Self::Down { reason } => crate::log::warn!(%node, %reason, "node is down"),
            Self::StillDown { reason } => crate::log::warn!(%node, %reason, "node is still down"),
            Self::Refuses { reason } => crate::log::warn!(%node, %reason, "node refuses"),
            Self::RefusesNoLonger { outage } => {
                crate::log::info!(%node, ?outage, "node no longer refuses");
            }
            Self::MayVote => crate::log::info!(%node, "the node may vote again"),
            Self::Probation { votes_in } => crate::log::info!(
                %node,
                ?votes_in,
                "the node may have forgotten locks, and is in probation"
            ),
            Self::NoVote { reason } => crate::log::warn!(%node, %reason, "node has no vote"),
            Self::Evicts { policy, limit } => crate::log::warn!(
                %node,
                %policy,
                limit,
                "the server may evict locks: set maxmemory-policy noeviction"
            ),
            Self::Denied { command } => crate::log::info!(
                %node,
                command,
                "the server denies a command that wake-ups need: waiters retry at intervals instead"
            ),
            Self::TakenOver { former, ours } => crate::log::warn!(
                %node,
                former = %ServerText(&former),
                %ours,
                "this process has taken the node over from another set, which no client uses any more: clients \
                 of the former set get no votes. If the former list of nodes is the right one, stop this \
                 process, and run `redlock adopt` from its list to the former one. A node's name is its \
                 host:port/db unless it is given: give names to nodes that programs reach by different addresses"
            ),
            Self::ClockJumped { by } => crate::log::warn!(
                %node,
                %by,
                "the server's clock jumped; it does not vote for max_ttl"
            ),
            Self::ClockOff { by } => crate::log::warn!(
                %node,
                %by,
                "the server's wall clock differs from the clocks of a quorum of servers: if it is behind, the server refuses their fencing tokens"
            ),
            Self::ClockRight => {
                crate::log::info!(%node, "the server's wall clock is correct again");
            }
            Self::NotActivated { asked, reason, is_new } => {
                if is_new {
                    crate::log::warn!(%node, %asked, %reason, "the node's probation can't end yet");
                } else {
                    crate::log::debug!(%node, %asked, %reason, "the node can't be activated yet");
                }
            }
            Self::Settled { excess, state: NodeState::Voting } => {
                crate::log::info!(%node, excess, "the node's state is stable again, and it votes");
            }
            Self::Settled { excess, state } => {
                crate::log::warn!(%node, excess, %state, "the node's state is stable again, and it does not vote");
            }
            Self::Gauges(gauges) => metrics::node(node, gauges),
        }
    }
}
