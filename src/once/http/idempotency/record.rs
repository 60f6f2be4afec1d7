//! The record of a request whose response is being stored.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use super::payload::{Payload, StoredAt};
use crate::{
    guard::LockContext,
    lock::{obligations::OwedEnd, records},
    once::{record, terms, work::WorkVerdict},
    protocol::Record,
    token::FencingToken,
};

/// The record of a request whose response is not stored yet.
///
/// If storing takes time, a pending record is sent at once. If this is dropped before the end, its
/// record is sent before the release of the lock, until a quorum stores it.
#[derive(Debug)]
pub(super) struct UnfinishedRecord {
    context: LockContext,
    retain: Duration,
    /// `None` once it is finished.
    payload: Option<Payload>,
}

impl UnfinishedRecord {
    pub(super) const fn new(context: LockContext, retain: Duration, payload: Payload) -> Self {
        Self { context, retain, payload: Some(payload) }
    }

    pub(super) fn token(&self) -> FencingToken {
        self.context.fencing_token()
    }

    /// Notes that the response is being put into the store.
    pub(super) fn set_in_store(&mut self) {
        if let Some(payload) = &mut self.payload {
            payload.response = StoredAt::InStore(payload.response.status());
        }
    }

    /// Waits for a step of storing the response. If it takes time, a pending record is sent.
    ///
    /// Returns `None` when the lock is about to end: the response is then not stored, and a WARN is logged.
    pub(super) async fn in_time<F: Future + Unpin>(&self, mut step: F) -> Option<F::Output> {
        let first = poll_fn(|cx| Poll::Ready(Pin::new(&mut step).poll(cx))).await;
        if let Poll::Ready(output) = first {
            return Some(output);
        }
        let lease = self.context.lease();
        let mut recording = records::record(lease, &self.record(true), self.retain);
        let mut stopping = self.context.stopping();
        let mut is_recorded = false;
        loop {
            tokio::select! {
                biased;
                output = &mut step => return Some(output),
                answers = &mut recording, if !is_recorded => {
                    is_recorded = true;
                    if !records::is_kept(&answers) {
                        let error = lease.client().no_quorum(&answers);
                        crate::log::debug!(
                            key = %self.context.resource(), %error,
                            "a request was answered, but too few nodes have stored its record so far"
                        );
                    }
                }
                () = &mut stopping => {
                    crate::log::warn!(
                        key = %self.context.resource(), token = self.token().get(),
                        "a response was not stored within max_hold, or before the lock was lost: \
                         repetitions of the request may be answered without it"
                    );
                    return None;
                }
            }
        }
    }

    /// Returns the verdict with the final record, which the caller stores. It holds the response of
    /// `stored`, if there is room for it.
    pub(super) fn finish(mut self, stored: Option<StoredAt>) -> WorkVerdict {
        let mut payload = self.payload.take().expect("finishing takes the record");
        assert!(!payload.is_pending, "the final record is not pending");
        if let Some(stored) = stored {
            let status = StoredAt::Nowhere(stored.status());
            payload.response = stored;
            let record = payload.encode();
            if self.context.lease().admit_answer(record.len()) {
                return WorkVerdict::Done { payload: record };
            }
            payload.response = status;
        }
        WorkVerdict::Done { payload: payload.encode() }
    }

    /// Creates the record: a pending one, or the final one.
    fn record(&self, is_pending: bool) -> Arc<Record> {
        let payload = self.payload.clone().map(|payload| Payload { is_pending, ..payload });
        let payload = payload.map(|payload| payload.encode()).unwrap_or_default();
        record::new(self.context.lease(), true, payload)
    }
}

impl Drop for UnfinishedRecord {
    fn drop(&mut self) {
        if self.payload.is_some() {
            let lease = self.context.lease();
            let name = terms::name(lease.resource());
            let owed = OwedEnd::record(None, lease, &name, &self.record(false), self.retain);
            owed.detach(record::store_time(lease));
        }
    }
}
