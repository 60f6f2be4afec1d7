//! Changes of a lease that are logged and counted.

use std::time::Duration;

use crate::{
    FencingToken,
    error::{LossCause, VoteOutcome},
    events::LockEventKind,
    lock::client::Client,
    metrics,
    protocol::LeaseId,
};

/// Minimum lateness of a loss that the log mentions.
const LATE_THRESHOLD: Duration = Duration::from_millis(200);

/// What a loss means for the work under the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossKind {
    /// It is stopped.
    Unexpected,
    /// It is stopped as its settings say.
    Planned,
    /// It had ended before, and the lease was kept until its end is stored.
    AfterWork,
}

/// Changes of a lease that are logged and counted once its state is unlocked.
#[derive(Default)]
pub(super) struct LeaseReport {
    pub(super) renewed: bool,
    pub(super) renewing: bool,
    /// The token, if it is not the one that was proposed at first.
    pub(super) raised: Option<u64>,
    pub(super) lost: Option<(LossCause, LossKind)>,
    /// Time from the end of the validity to the event that showed it.
    pub(super) late: Duration,
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

    pub(super) fn send(&mut self, client: &Client, id: &LeaseId) {
        let (resource, shared) = (id.resource(), id.is_shared());
        if let Some((LossCause::Expired { votes } | LossCause::ClockJumped { votes }, _)) =
            &mut self.lost
        {
            *votes = client.explained(votes);
        }
        if self.renewed {
            metrics::renewed();
            crate::log::debug!(%resource, "renewed");
        }
        if self.renewing {
            crate::log::debug!(%resource, "renewing");
        }
        if let Some(token) = self.raised {
            client.send_event(|| LockEventKind::FenceRaised {
                resource: resource.clone(),
                shared,
                token: FencingToken::new(token),
            });
        }
        let Some((cause, kind)) = &self.lost else { return };
        if *kind == LossKind::AfterWork {
            // The owner of the record or of the end that it was kept for reports whether that is lost.
            crate::log::debug!(%resource, %cause, "kept lock ended");
            return;
        }
        metrics::lost(cause);
        client.send_event(|| LockEventKind::Lost {
            resource: resource.clone(),
            shared,
            cause: cause.clone(),
        });
        if *kind == LossKind::Planned {
            crate::log::debug!(%resource, %cause, "lock ended");
            return;
        }
        client.counts.lost();
        if self.late > LATE_THRESHOLD {
            let late = self.late;
            crate::log::warn!(
                %resource, %cause, ?late,
                "lock lost, and noticed late: this process, or the thread of the manager, did not run"
            );
        } else {
            crate::log::warn!(%resource, %cause, "lock lost");
        }
    }
}
