//! Single attempts, for callers that decide themselves when to try again.

use std::{future::poll_fn, time::Duration};

use super::pause::{Pause, RetryHistory};
use crate::{
    error::LockError,
    lock::{Lock, LockRequest, settings::Plan},
};

/// Single attempts of a candidate or a job, which decide themselves when to try again.
///
/// Unlike a waiting request, it sends attempts only while it is polled, so that no lock is granted
/// to a task that its runtime does not run. It does not wait in the local line.
#[derive(Debug)]
pub(crate) struct SingleAttempts {
    request: LockRequest,
    plan: Plan,
    retries: RetryHistory,
    /// Whether the last attempt asked a lead node first.
    asked_lead: bool,
}

impl SingleAttempts {
    /// Checks the request's options. Sends nothing.
    pub(crate) fn new(request: LockRequest) -> Result<Self, LockError> {
        let mut request = request.wait(Duration::ZERO);
        request.internal.awaits_release = true;
        let plan = request.plan()?;
        Ok(Self { request, plan, retries: RetryHistory::default(), asked_lead: false })
    }

    /// Makes one attempt. A refusal marks the holder's key, so that nodes report its release.
    pub(crate) async fn attempt(&mut self) -> Result<Lock, LockError> {
        let mut request = self.request.clone();
        request.internal.lead_node = self.retries.begin().or(self.plan.lead_node);
        self.asked_lead = request.internal.lead_node.is_some();
        // Read before the attempt, so that reports in between count.
        self.retries.tried = Some(request.core.client.clock().now());
        let result = request.acquire_for_work().await;
        if let Err(error) = &result {
            self.retries.failed(error.clone(), 0, false);
        }
        result
    }

    /// Pauses for `length`, or until the resource may be free. `short` is the pause if fewer than a
    /// quorum of nodes reported a release, or the lead node refused.
    pub(crate) async fn pause(&mut self, length: Duration, short: Duration) {
        let Self { request: LockRequest { core, resource, .. }, plan, retries, asked_lead } = self;
        if let Ok(resource) = resource {
            retries.listen(&core.client, resource);
        }
        let length = if *asked_lead { short } else { length };
        let mut pause = Pause::fixed(&core.client, resource.as_ref().ok(), length, short);
        poll_fn(|cx| pause.poll(retries, &core.client, plan, cx)).await;
    }
}
