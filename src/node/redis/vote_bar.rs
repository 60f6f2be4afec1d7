//! Reasons for which a connected server has no vote.

use super::status_event::StatusEvent;
use crate::{error::Reason, membership::offsets::Interval, time::Timestamp};

/// Why a server that is there has no vote at present.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum VoteBar {
    Probation { until: Timestamp },
    Clock { until: Timestamp, by: Interval },
    Reason(Reason),
}

/// Where a bar comes from; they come and go apart from each other, and the first is shown.
#[derive(Clone, Copy, Debug)]
pub(super) enum VoteBarKind {
    SameServer,
    Enrolment,
    Names,
    Eviction,
    Clock,
}

impl VoteBar {
    /// What it says to a vote; nothing once it is over.
    pub(super) fn reason(&self, now: Timestamp) -> Option<Reason> {
        match self {
            Self::Probation { until } => Some(Reason::Probation { remaining: until.since(now) }),
            Self::Clock { until, .. } if now >= *until => None,
            Self::Clock { by, .. } => {
                Some(Reason::ClockJumped { by_micros: by.low.midpoint(by.high) })
            }
            Self::Reason(reason) => Some(reason.clone()),
        }
    }

    /// What is told when it is set.
    pub(super) fn event(&self, now: Timestamp) -> Option<StatusEvent> {
        match self {
            Self::Probation { until } => {
                Some(StatusEvent::Probation { votes_in: until.since(now) })
            }
            // Told where it is found out, with what was done about it.
            Self::Clock { .. } => None,
            Self::Reason(reason) => Some(StatusEvent::NoVote { reason: reason.clone() }),
        }
    }

    pub(super) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
            && match (self, other) {
                (Self::Reason(reason), Self::Reason(other)) => reason == other,
                _ => true,
            }
    }
}
