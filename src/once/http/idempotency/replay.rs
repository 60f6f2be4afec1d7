//! The response to a request whose key is done.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use pin_project::pin_project;

use super::{
    capture::StoreEntry,
    record::{Payload, StoredAt},
};
use crate::{
    once::{Fingerprint, ResponseStore, StoreError, StoredBy, StoredResponse},
    protocol::Record,
    reject::{RejectReason, RequestOutcome},
    token::FencingToken,
};

pub(super) type Replay = Result<Response<Bytes>, ReplayError>;

/// Why the first response is not replayed.
#[derive(Debug)]
pub(super) enum ReplayError {
    /// The request differs from the first.
    Reused,
    NotKept(Option<StatusCode>),
    /// The client does not accept the response's encoding.
    NotAcceptable,
    Failed(StoreError),
}

/// Reads the response from the store.
#[pin_project]
pub(super) struct StoreRead<St: ResponseStore> {
    #[pin]
    get: St::Get,
    token: FencingToken,
    status: StatusCode,
}

/// Replays the response of a record, or reads it from the store.
pub(super) fn replay<St: ResponseStore>(
    record: &Record,
    fingerprint: Fingerprint,
    store: Option<&StoreEntry<St>>,
) -> Result<Replay, StoreRead<St>> {
    let Some(first) = Payload::decode(&record.payload) else {
        return Ok(Err(ReplayError::NotKept(None)));
    };
    if first.fingerprint != fingerprint {
        return Ok(Err(ReplayError::Reused));
    }
    match (first.response, store) {
        (StoredAt::InRecord(response), _) => Ok(Ok(to_response(&response))),
        (StoredAt::InStore(status), Some(StoreEntry { store, key })) => {
            let token = FencingToken::new(record.lease.token);
            Err(StoreRead { get: store.get(key), token, status })
        }
        (StoredAt::Nowhere(status) | StoredAt::InStore(status), _) => {
            Ok(Err(ReplayError::NotKept(Some(status))))
        }
    }
}

fn to_response(stored: &StoredResponse) -> Response<Bytes> {
    let mut response = stored.to_response();
    let name = HeaderName::from_static("idempotency-replayed");
    response.headers_mut().insert(name, HeaderValue::from_static("true"));
    // Done, whatever its status.
    RequestOutcome::Done.mark(response)
}

impl<St: ResponseStore> StoreRead<St> {
    pub(super) fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Replay> {
        let this = self.project();
        Poll::Ready(match ready!(this.get.poll(cx)) {
            // A response of another token is that of a stale holder, or of one whose record was lost.
            Ok(Some(StoredBy { token, response })) if token == *this.token => {
                Ok(to_response(&response))
            }
            Ok(_) => Err(ReplayError::NotKept(Some(*this.status))),
            Err(error) => Err(ReplayError::Failed(error)),
        })
    }
}

impl ReplayError {
    pub(super) const fn reason(&self) -> RejectReason<'_> {
        match self {
            Self::Reused => RejectReason::KeyReused,
            Self::NotKept(status) => RejectReason::NotKept { status: *status },
            Self::NotAcceptable => RejectReason::NotAcceptable,
            Self::Failed(error) => RejectReason::StoreFailed(error),
        }
    }
}
