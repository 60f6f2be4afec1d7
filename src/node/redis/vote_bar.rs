//! Reasons for which a connected server has no vote.

use super::status_event::StatusEvent;
use crate::{error::Reason, membership::offsets::Interval, time::Timestamp};

/// A reason for which a connected server has no vote.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum VoteBar {
    Probation { until: Timestamp },
    Clock { until: Timestamp, by: Interval },
    Reason(Reason),
}

/// The source of a bar. Bars are independent of each other; the first one is shown.
#[derive(Clone, Copy, Debug)]
pub(super) enum VoteBarKind {
    SameServer,
    Enrolment,
    Names,
    Eviction,
    Clock,
}

impl VoteBar {
    /// Returns the reason; `None` once it has ended.
    pub(super) fn reason(&self, now: Timestamp) -> Option<Reason> {
        match self {
            Self::Probation { until } => {
                Some(Reason::Probation { remaining: until.saturating_duration_since(now) })
            }
            Self::Clock { until, .. } if now >= *until => None,
            Self::Clock { by, .. } => {
                Some(Reason::ClockJumped { by_micros: by.low.midpoint(by.high) })
            }
            Self::Reason(reason) => Some(reason.clone()),
        }
    }

    /// Returns the event to emit when it is set.
    pub(super) fn event(&self, now: Timestamp) -> Option<StatusEvent> {
        match self {
            Self::Probation { until } => {
                Some(StatusEvent::Probation { votes_in: until.saturating_duration_since(now) })
            }
            // Logged by the caller, with the action taken.
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
