//! Log messages and metrics about a node, emitted outside its mutex.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use crate::{error::Reason, events::LockEventKind, metrics};

/// A log message or metric about a node.
#[derive(Debug)]
pub(super) enum StatusEvent {
    Up,
    UpAgain { outage: Duration },
    Down { reason: Reason },
    StillDown { reason: Reason },
    Refuses { reason: Reason },
    RefusesNoLonger { outage: Duration },
    MayVote,
    Probation { votes_in: Duration },
    NoVote { reason: Reason },
    Evicts { policy: Arc<str>, limit: u64 },
    Denied { command: &'static str },
    NotActivated { asked: Arc<str>, reason: Reason, is_new: bool },
    Gauges { is_up: bool, is_voting: bool },
}

/// Events in order, emitted by one thread at a time.
#[derive(Debug, Default)]
pub(super) struct StatusEventQueue {
    pub(super) queue: VecDeque<StatusEvent>,
    pub(super) emitting: bool,
}

impl StatusEvent {
    /// Returns the event for those that listen, if it is one for them.
    pub(super) fn public(&self, name: &Arc<str>) -> Option<LockEventKind> {
        let node = Arc::clone(name);
        Some(match self {
            Self::Up | Self::UpAgain { .. } | Self::RefusesNoLonger { .. } | Self::MayVote => {
                LockEventKind::NodeBack { node }
            }
            Self::Down { reason } | Self::Refuses { reason } | Self::NoVote { reason } => {
                LockEventKind::NodeOut { node, reason: reason.clone() }
            }
            Self::Probation { votes_in } => {
                LockEventKind::NodeOut { node, reason: Reason::Probation { remaining: *votes_in } }
            }
            Self::StillDown { .. }
            | Self::Evicts { .. }
            | Self::Denied { .. }
            | Self::NotActivated { .. }
            | Self::Gauges { .. } => return None,
        })
    }

    pub(super) fn emit(self, name: &Arc<str>) {
        let node = &**name;
        match self {
            Self::Up => crate::log::info!(%node, "node is up"),
            Self::UpAgain { outage } => crate::log::info!(%node, ?outage, "node is up again"),
            Self::Down { reason } => crate::log::warn!(%node, %reason, "node is down"),
            Self::StillDown { reason } => crate::log::warn!(%node, %reason, "node is still down"),
            Self::Refuses { reason } => crate::log::warn!(%node, %reason, "node refuses"),
            Self::RefusesNoLonger { outage } => {
                crate::log::info!(%node, ?outage, "node refuses no longer");
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
                "the server denies our user a command that wake-ups need: waiting works by trying"
            ),
            Self::NotActivated { asked, reason, is_new } => {
                metrics::failed_activation(node);
                if is_new {
                    crate::log::warn!(%node, %asked, %reason, "the node's probation can't be ended");
                } else {
                    crate::log::debug!(%node, %asked, %reason, "not activated yet");
                }
            }
            Self::Gauges { is_up, is_voting } => metrics::node(node, is_up, is_voting),
        }
    }
}
