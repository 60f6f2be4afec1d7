//! The response to a request whose key is done.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode};

use super::{
    capture::StoreEntry,
    payload::{Payload, StoredAt},
};
use crate::{
    once::{Fingerprint, StoreError, StoredResponse},
    protocol::Record,
    reject::{RejectReason, RequestOutcome},
    token::FencingToken,
};

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

/// Replays the response of a record, which may be in the store.
pub(super) async fn replay(
    record: &Record,
    fingerprint: Fingerprint,
    store: Option<StoreEntry>,
) -> Result<Response<Bytes>, ReplayError> {
    let Some(first) = Payload::decode(&record.payload) else {
        return Err(ReplayError::NotKept(None));
    };
    if first.fingerprint != fingerprint {
        return Err(ReplayError::Reused);
    }
    match (first.response, store) {
        (StoredAt::InRecord(response), _) => Ok(to_response(&response)),
        (StoredAt::InStore(status), Some(StoreEntry { store, key })) => {
            let stored = store.get(&key).await.map_err(ReplayError::Failed)?;
            // Another token is from a stale holder, or from one whose record was lost.
            let token = FencingToken::new(record.lease.token);
            match stored.filter(|stored| stored.token == token) {
                Some(stored) => Ok(to_response(&stored.response)),
                None => Err(ReplayError::NotKept(Some(status))),
            }
        }
        (StoredAt::Nowhere(status) | StoredAt::InStore(status), _) => {
            Err(ReplayError::NotKept(Some(status)))
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
