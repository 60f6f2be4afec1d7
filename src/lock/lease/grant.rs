//! The state of the current grant under a lease.

use std::sync::{Arc, Weak};

use super::active::ActiveLease;
use crate::{
    FencingToken,
    error::{LockError, LossCause, ReleaseError, VoteOutcome},
    events::LockEventKind,
    lock::{core::Core, lock::Released, settings::Plan, waker_set::WakerSet},
    metrics,
    resource::Resource,
    time::{TimerKey, Timestamp},
};

/// The current grant under a lease, or the attempt at one.
pub(super) struct Grant {
    /// Number of grants before it. Those are over.
    pub(super) nth: u32,
    pub(super) plan: Plan,
    /// The holder's handle.
    pub(super) lease: Weak<ActiveLease>,
    pub(super) decision: Option<Result<(), LockError>>,
    pub(super) loss: Option<LossCause>,
    /// Result of the last extension that was requested.
    pub(super) extension: Option<Result<(), LockError>>,
    pub(super) released: Option<Result<Released, ReleaseError>>,
    pub(super) watchers: WakerSet,
    /// Number of renewals. They wake their own watchers only, not the guarded work.
    pub(super) renewals: u64,
    pub(super) renewal_watchers: WakerSet,
    /// Timer of the next stall check.
    pub(super) stall_timer: Option<TimerKey>,
    /// Start of the grant, until the holder releases it.
    pub(super) held_since: Option<Timestamp>,
    pub(super) holder_gone: bool,
    /// The release is decided.
    pub(super) over: bool,
}

impl Grant {
    /// Creates the grant of a lease that is taken over.
    pub(super) fn of(lease: &Arc<ActiveLease>, now: Timestamp) -> Self {
        Self {
            lease: Arc::downgrade(lease),
            held_since: Some(now),
            ..Self::new(lease.nth, lease.plan)
        }
    }

    pub(super) fn new(nth: u32, plan: Plan) -> Self {
        Self {
            nth,
            plan,
            lease: Weak::new(),
            decision: None,
            loss: None,
            extension: None,
            released: None,
            watchers: WakerSet::default(),
            renewals: 0,
            renewal_watchers: WakerSet::default(),
            stall_timer: None,
            held_since: None,
            holder_gone: false,
            over: false,
        }
    }

    pub(super) fn is_held(&self) -> bool {
        self.held_since.is_some() && !self.is_over()
    }

    /// Lost or released.
    pub(super) fn is_over(&self) -> bool {
        self.over || self.loss.is_some()
    }
}

/// Changes of a lease that are logged and counted once its state is unlocked.
#[derive(Default)]
pub(super) struct LeaseReport {
    pub(super) renewed: bool,
    pub(super) renewing: bool,
    /// The token, if it is not the one that was proposed at first.
    pub(super) raised: Option<u64>,
    /// The cause, and whether this end was planned.
    pub(super) lost: Option<(LossCause, bool)>,
    /// Votes of a failed extension and of a failed release. Explaining them asks the nodes.
    pub(super) not_extended: Option<Vec<VoteOutcome>>,
    pub(super) not_released: Option<Vec<VoteOutcome>>,
}

impl LeaseReport {
    pub(super) fn is_empty(&self) -> bool {
        !self.renewed && !self.renewing && self.raised.is_none() && !self.concerns_watchers()
    }

    pub(super) fn concerns_watchers(&self) -> bool {
        self.lost.is_some() || self.not_extended.is_some() || self.not_released.is_some()
    }

    pub(super) fn send(&mut self, core: &Core, resource: &Resource) {
        if let Some((LossCause::Expired { votes } | LossCause::ClockJumped { votes }, _)) =
            &mut self.lost
        {
            *votes = core.explained(votes);
        }
        if self.renewed {
            metrics::renewed();
            crate::log::debug!(%resource, "renewed");
        }
        if self.renewing {
            crate::log::debug!(%resource, "renewing");
        }
        if let Some(token) = self.raised {
            core.send_event(|| LockEventKind::FenceRaised {
                resource: resource.clone(),
                token: FencingToken::new(token),
            });
        }
        if let Some((cause, is_planned)) = &self.lost {
            metrics::lost(cause);
            core.send_event(|| LockEventKind::Lost {
                resource: resource.clone(),
                cause: cause.clone(),
            });
            if *is_planned {
                crate::log::debug!(%resource, %cause, "lock ended");
            } else {
                crate::log::warn!(%resource, %cause, "lock lost");
            }
        }
    }
}
