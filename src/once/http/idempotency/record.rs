//! What the nodes store of the first request with a key, and of its response.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Buf, Bytes};
use http::StatusCode;

use crate::{
    guard::LockContext,
    lock::Stopping,
    once::{
        Fingerprint, StoredResponse,
        record::{Recording, record},
    },
    token::FencingToken,
};

/// The payload of a key's record.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Payload {
    pub(super) fingerprint: Fingerprint,
    pub(super) response: StoredAt,
    /// The holder has the response and is about to store it. If the lock is free, it never did. Only
    /// with [`StoredAt::Nowhere`] and [`StoredAt::InStore`].
    pub(super) is_pending: bool,
}

/// Where the response is stored.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum StoredAt {
    /// The response was too large, or could not be read or put.
    Nowhere(StatusCode),
    InRecord(StoredResponse),
    /// In the store, under the token of the record.
    InStore(StatusCode),
}

impl StoredAt {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Nowhere(status) | Self::InStore(status) => *status,
            Self::InRecord(response) => response.status(),
        }
    }
}

const VERSION: u8 = 1;

impl Payload {
    /// Writes the format's version in a byte, the fingerprint, a byte for the place of the response (in
    /// upper case if pending), and the response or its status.
    pub(super) fn encode(&self) -> Arc<[u8]> {
        let mut record = vec![VERSION];
        record.extend(self.fingerprint.as_bytes());
        match &self.response {
            StoredAt::Nowhere(status) => {
                record.push(if self.is_pending { b'N' } else { b'n' });
                record.extend(status.as_u16().to_be_bytes());
            }
            StoredAt::InRecord(response) => {
                record.push(b'h');
                record.extend(response.encode());
            }
            StoredAt::InStore(status) => {
                record.push(if self.is_pending { b'S' } else { b's' });
                record.extend(status.as_u16().to_be_bytes());
            }
        }
        record.into()
    }

    /// Returns `None` for other payloads, such as that of a record made by `mark_done`.
    pub(super) fn decode(record: &[u8]) -> Option<Self> {
        let (head, rest) = record.split_first_chunk::<{ Fingerprint::BYTES + 2 }>()?;
        let (version, fingerprint, place) = (head[0], &head[1..=Fingerprint::BYTES], head[33]);
        if version != VERSION {
            return None;
        }
        let status = || match rest.len() {
            2 => StatusCode::from_u16((&rest[..]).get_u16()).ok(),
            _ => None,
        };
        let response = match place {
            b'n' | b'N' => StoredAt::Nowhere(status()?),
            b's' | b'S' => StoredAt::InStore(status()?),
            b'h' => StoredAt::InRecord(StoredResponse::decode(Bytes::copy_from_slice(rest)).ok()?),
            _ => return None,
        };
        let fingerprint = Fingerprint::from_bytes(fingerprint.try_into().ok()?);
        Some(Self { fingerprint, response, is_pending: place.is_ascii_uppercase() })
    }
}

/// The record of a request whose response is not stored yet.
///
/// If storing takes time, a pending record is sent at once. If this is dropped before the end, its
/// record is sent before the release of the lock.
#[derive(Debug)]
pub(super) struct UnfinishedRecord {
    context: LockContext,
    retain: Duration,
    payload: Option<Payload>,
    pending: Option<PendingRecording>,
}

/// The pending record, and the stop signal of the lock.
#[derive(Debug)]
struct PendingRecording {
    /// `None` once it has ended.
    recording: Option<Recording>,
    stopping: Stopping,
}

impl UnfinishedRecord {
    pub(super) const fn new(context: LockContext, retain: Duration, payload: Payload) -> Self {
        Self { context, retain, payload: Some(payload), pending: None }
    }

    pub(super) fn token(&self) -> FencingToken {
        self.context.fencing_token()
    }

    /// Notes that the response is being put into the store.
    pub(super) fn set_in_store(&mut self) {
        self.pending = None;
        if let Some(payload) = &mut self.payload {
            payload.response = StoredAt::InStore(payload.response.status());
        }
    }

    /// Sends the pending record; call it while storing the response is pending. Ready when the lock is
    /// about to end: the response is then not stored, and a WARN is logged.
    pub(super) fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let pending = match &mut self.pending {
            Some(pending) => pending,
            none => {
                let recording = self.payload.clone().map(|payload| {
                    let payload = Payload { is_pending: true, ..payload };
                    send_record(&self.context, &payload, self.retain)
                });
                none.insert(PendingRecording { recording, stopping: self.context.stopping() })
            }
        };
        if let Some(recording) = &mut pending.recording
            && let Poll::Ready(recorded) = Pin::new(recording).poll(cx)
        {
            if let Err(error) = recorded {
                crate::log::debug!(
                    key = %self.context.resource(), %error,
                    "a request was answered, but too few nodes have stored its record so far"
                );
            }
            pending.recording = None;
        }
        std::task::ready!(Pin::new(&mut pending.stopping).poll(cx));
        crate::log::warn!(
            key = %self.context.resource(), token = self.token().get(),
            "a response was not stored within max_hold, or before the lock was lost: repetitions of the \
             request may be answered without it"
        );
        Poll::Ready(())
    }

    /// Returns the payload of the final record, which the caller stores. It holds the response of
    /// `stored`, if there is room for it.
    pub(super) fn finish(mut self, stored: Option<StoredAt>) -> Option<Arc<[u8]>> {
        let mut payload = self.payload.take()?;
        let Some(stored) = stored else { return Some(payload.encode()) };
        let status = StoredAt::Nowhere(stored.status());
        payload.response = stored;
        let record = payload.encode();
        let lease = self.context.lease();
        if lease.admit_answer(record.len()) {
            return Some(record);
        }
        payload.response = status;
        Some(payload.encode())
    }
}

/// Sends a record of `payload` at once.
fn send_record(context: &LockContext, payload: &Payload, retain: Duration) -> Recording {
    let lease = context.lease();
    Recording::start(Arc::clone(lease), record(lease, true, payload.encode()), retain)
}

impl Drop for UnfinishedRecord {
    fn drop(&mut self) {
        self.pending = None;
        if let Some(payload) = self.payload.take() {
            drop(send_record(&self.context, &payload, self.retain));
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Response;

    use super::*;
    use crate::once::StoredHeaders;

    fn payloads() -> Vec<Payload> {
        let (parts, ()) = Response::builder().header("etag", "x").body(()).unwrap().into_parts();
        let stored = StoredResponse::new(&parts, "\0\u{ff}".into(), &StoredHeaders::default());
        let places = [
            StoredAt::Nowhere(StatusCode::CREATED),
            StoredAt::InRecord(stored),
            StoredAt::InStore(StatusCode::NOT_FOUND),
        ];
        let fingerprint = Fingerprint::from_bytes([7; 32]);
        let [not, here, stored] =
            places.map(|response| Payload { fingerprint, response, is_pending: false });
        let pending =
            [&not, &stored].map(|payload| Payload { is_pending: true, ..payload.clone() });
        [vec![not, here, stored], pending.into()].concat()
    }

    #[test]
    fn what_is_recorded_is_read_again() {
        for payload in payloads() {
            assert_eq!(Payload::decode(&payload.encode()), Some(payload));
        }
    }

    #[test]
    fn status_is_known_in_each_place() {
        let statuses: Vec<_> =
            payloads().iter().map(|payload| payload.response.status().as_u16()).collect();
        assert_eq!(statuses, [201, 200, 404, 201, 404]);
    }

    #[test]
    fn format_is_stable() {
        let mut record = vec![1];
        record.extend([7; 32]);
        record.extend(*b"n\x00\xc9");
        assert_eq!(&*payloads()[0].encode(), record);
    }

    #[test]
    fn foreign_and_damaged_payloads_are_none() {
        assert_eq!(Payload::decode(b""), None);
        for payload in payloads() {
            let record = payload.encode();
            for end in 0..record.len() {
                assert_eq!(Payload::decode(&record[..end]), None, "{end} bytes");
            }
            assert_eq!(Payload::decode(&[&record[..], &[0]].concat()), None);
            for (at, byte) in [(0, 2), (33, b'x')] {
                let mut other = record.to_vec();
                other[at] = byte;
                assert_eq!(Payload::decode(&other), None);
            }
        }
    }
}
