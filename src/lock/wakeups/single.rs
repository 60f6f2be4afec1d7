//! Single attempts at a resource, and pauses between them that a release ends.

use std::{future::poll_fn, time::Duration};

use super::pause::{Pause, RetryHistory};
use crate::{
    error::LockError,
    lock::{Lock, LockRequest, settings::Plan},
};

/// Attempts of one that decides by itself when to ask again: a candidate, or a job.
///
/// Unlike a request that waits, it asks only while it is polled: a lock is never granted to a task
/// that its runtime has forgotten. Nor does it stand in the local line meanwhile.
#[derive(Debug)]
pub(crate) struct SingleAttempts {
    request: LockRequest,
    plan: Plan,
    retries: RetryHistory,
    /// The last attempt asked one node first, and was refused.
    asked_lead: bool,
}

impl SingleAttempts {
    /// Nothing is sent, and nothing listened for, before the first attempt.
    ///
    /// # Errors
    ///
    /// The request's options are not valid.
    pub(crate) fn new(request: LockRequest) -> Result<Self, LockError> {
        let mut request = request.wait(Duration::ZERO);
        request.internal.awaits_release = true;
        let plan = request.plan()?;
        Ok(Self { request, plan, retries: RetryHistory::default(), asked_lead: false })
    }

    /// Asks once. A refusal marks the holder's key, so that its release is told.
    pub(crate) async fn attempt(&mut self) -> Result<Lock, LockError> {
        let mut request = self.request.clone();
        request.internal.lead_node = self.retries.begin(self.plan).lead_node;
        self.asked_lead = request.internal.lead_node.is_some();
        // Earlier than the attempt: what is told in between is taken for news.
        self.retries.began(request.core.clock().now());
        let result = request.acquire().await;
        if let Err(error) = &result {
            self.retries.failed(error.clone(), 0, false);
        }
        result
    }

    /// Pauses for this long, or until the resource may be free.
    ///
    /// `short` is the pause where that is likely and not certain: too few nodes told of a release,
    /// or the one node that was asked first refused.
    pub(crate) async fn pause(&mut self, length: Duration, short: Duration) {
        let Self { request: LockRequest { core, resource, .. }, plan, retries, asked_lead } = self;
        if let Ok(resource) = resource {
            retries.listen(core, resource);
        }
        let length = if *asked_lead { short } else { length };
        let mut pause = Pause::fixed(core, length, short);
        poll_fn(|cx| pause.poll(retries, core, plan, cx)).await;
    }
}
