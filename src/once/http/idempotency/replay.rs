use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use pin_project::pin_project;

use super::record::{First, Kept};
use crate::{
    layer::http::RequestOutcome,
    once::{Fingerprint, ResponseStore, StoreError, StoredBy, StoredResponse, http::Refused},
    protocol::Record,
    token::FencingToken,
};

/// What a request whose key is done is answered.
pub(super) type Again = Result<Response<Bytes>, NotAgain>;

/// Why it is not answered as the first.
#[derive(Debug)]
pub(super) enum NotAgain {
    /// It is another request.
    Reused,
    NotKept(Option<StatusCode>),
    /// It is encoded in a way that the client does not accept.
    NotAcceptable,
    Failed(StoreError),
}

/// Its response, where it is not yet known.
#[pin_project]
pub(super) struct Fetching<St: ResponseStore> {
    #[pin]
    get: St::Get,
    token: FencingToken,
    status: StatusCode,
}

/// Either the answer, or how it is had.
pub(super) fn again<St: ResponseStore>(
    record: &Record,
    fingerprint: Fingerprint,
    store: Option<&(Arc<St>, Arc<str>)>,
) -> Result<Again, Fetching<St>> {
    let Some(first) = First::decode(&record.payload) else {
        return Ok(Err(NotAgain::NotKept(None)));
    };
    if first.fingerprint != fingerprint {
        return Ok(Err(NotAgain::Reused));
    }
    match (first.response, store) {
        (Kept::Here(response), _) => Ok(Ok(replay(&response))),
        (Kept::InStore(status), Some((store, key))) => {
            let token = FencingToken::new(record.lease.token);
            Err(Fetching { get: store.get(key), token, status })
        }
        (Kept::Not(status) | Kept::InStore(status), _) => Ok(Err(NotAgain::NotKept(Some(status)))),
    }
}

fn replay(stored: &StoredResponse) -> Response<Bytes> {
    let mut response = stored.to_response();
    let name = HeaderName::from_static("idempotency-replayed");
    response.headers_mut().insert(name, HeaderValue::from_static("true"));
    // It was kept, whatever its status.
    RequestOutcome::Done.mark(response)
}

impl<St: ResponseStore> Fetching<St> {
    pub(super) fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Again> {
        let this = self.project();
        Poll::Ready(match ready!(std::future::Future::poll(this.get, cx)) {
            // Another's is that of a holder who was overtaken, or whose record was lost.
            Ok(Some(StoredBy { token, response })) if token == *this.token => Ok(replay(&response)),
            Ok(_) => Err(NotAgain::NotKept(Some(*this.status))),
            Err(error) => Err(NotAgain::Failed(error)),
        })
    }
}

impl NotAgain {
    pub(super) const fn reason(&self) -> Refused<'_> {
        match self {
            Self::Reused => Refused::KeyReused,
            Self::NotKept(status) => Refused::NotKept { status: *status },
            Self::NotAcceptable => Refused::NotAcceptable,
            Self::Failed(error) => Refused::StoreFailed(error),
        }
    }
}
