use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use super::record::{First, Kept};
use crate::{
    guard::LockContext,
    lock::Stopping,
    once::record::{Recording, record},
    token::FencingToken,
};

/// A handler has answered for good, and its response is not kept yet. Where that takes time, the nodes
/// are told at once that the request is done; where this is dropped meanwhile, before the lock is
/// given back.
#[derive(Debug)]
pub(super) struct Answered {
    context: LockContext,
    retain: Duration,
    /// What is known so far.
    first: Option<First>,
    meanwhile: Option<Meanwhile>,
}

/// What goes on while the response is being kept.
#[derive(Debug)]
struct Meanwhile {
    /// `None` once it has ended.
    recording: Option<Recording>,
    stopping: Stopping,
}

impl Answered {
    pub(super) const fn new(context: LockContext, retain: Duration, first: First) -> Self {
        Self { context, retain, first: Some(first), meanwhile: None }
    }

    pub(super) fn token(&self) -> FencingToken {
        self.context.fencing_token()
    }

    /// It is being put into a store.
    pub(super) fn is_put(&mut self) {
        self.meanwhile = None;
        if let Some(first) = &mut self.first {
            first.response = Kept::InStore(first.response.status());
        }
    }

    /// To be polled while the response can't be kept at once: has the nodes keep what is known so far.
    /// Ready when the lock is about to end, and what is known has to do.
    pub(super) fn poll_stop(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let meanwhile = match &mut self.meanwhile {
            Some(meanwhile) => meanwhile,
            none => {
                let recording = self.first.clone().map(|first| {
                    let pending = First { is_pending: true, ..first };
                    record_of(&self.context, &pending, self.retain)
                });
                none.insert(Meanwhile { recording, stopping: self.context.stopping() })
            }
        };
        if let Some(recording) = &mut meanwhile.recording
            && let Poll::Ready(recorded) = Pin::new(recording).poll(cx)
        {
            if let Err(error) = recorded {
                crate::log::debug!(
                    key = %self.context.resource(), %error,
                    "a request was answered, and too few nodes keep that so far"
                );
            }
            meanwhile.recording = None;
        }
        Pin::new(&mut meanwhile.stopping).poll(cx)
    }

    /// The response was not kept by the time that the lock is about to end.
    pub(super) fn is_late(&self) {
        crate::log::warn!(
            key = %self.context.resource(), token = self.token().get(),
            "a response was not kept within max_hold, or before the lock was lost: whoever repeats the \
             request may be told that it is done, without the response"
        );
    }

    /// What is to be recorded, by whoever asks: with the answer, where the nodes are to keep one and
    /// there is room for it.
    pub(super) fn finish(mut self, kept: Option<Kept>) -> Option<Arc<[u8]>> {
        let mut first = self.first.take()?;
        let Some(kept) = kept else { return Some(first.encode()) };
        let status = Kept::Not(kept.status());
        first.response = kept;
        let record = first.encode();
        let lease = self.context.lease();
        if lease.charge().admit(lease.core(), record.len()) {
            return Some(record);
        }
        first.response = status;
        Some(first.encode())
    }
}

/// What is to be sent is sent at once.
fn record_of(context: &LockContext, first: &First, retain: Duration) -> Recording {
    let lease = context.lease();
    let record = record(lease, true, first.encode());
    Recording::start(Arc::clone(lease), record, retain)
}

impl Drop for Answered {
    fn drop(&mut self) {
        self.meanwhile = None;
        if let Some(first) = self.first.take() {
            // Nobody waits for it.
            drop(record_of(&self.context, &first, self.retain));
        }
    }
}
