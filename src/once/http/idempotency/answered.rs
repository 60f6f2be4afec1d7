use std::{sync::Arc, time::Duration};

use super::first::{First, Kept};
use crate::{
    guard::LockContext,
    once::{marker::record, recording::Recording},
    token::FencingToken,
};

/// A handler has answered for good, and its response is not kept yet. Dropped meanwhile (a client
/// went away), the request is done all the same: the nodes are told before the lock is given back.
#[derive(Debug)]
pub(super) struct Answered {
    context: LockContext,
    retain: Duration,
    /// What is known so far.
    first: Option<First>,
}

impl Answered {
    pub(super) const fn new(context: LockContext, retain: Duration, first: First) -> Self {
        Self { context, retain, first: Some(first) }
    }

    pub(super) fn token(&self) -> FencingToken {
        self.context.fencing_token()
    }

    /// It is being put into a store.
    pub(super) fn is_put(&mut self) {
        if let Some(first) = &mut self.first {
            first.response = Kept::InStore(first.response.status());
        }
    }

    /// What is to be recorded, by whoever asks.
    pub(super) fn finish(mut self, kept: Option<Kept>) -> Option<Arc<[u8]>> {
        let mut first = self.first.take()?;
        if let Some(kept) = kept {
            first.response = kept;
        }
        Some(first.encode())
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        if let Some(first) = self.first.take() {
            let lease = self.context.lease();
            let record = record(lease, true, first.encode());
            // What is to be sent is sent at once, and nobody waits for it.
            drop(Recording::start(Arc::clone(lease), record, self.retain));
        }
    }
}
