//! The payload of a record: the first request with a key, and where its response is stored.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use http::StatusCode;

use crate::once::{Fingerprint, StoredResponse};

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
    /// Returns whether a record with this payload is final, although its writer may still hold the lock.
    pub(super) fn is_final(record: &[u8]) -> bool {
        Self::decode(record).is_none_or(|payload| !payload.is_pending)
    }

    /// Writes the format's version in a byte, the fingerprint, a byte for the place of the response (in
    /// upper case if pending), and the response or its status.
    pub(super) fn encode(&self) -> Arc<[u8]> {
        let (place, response) = match &self.response {
            StoredAt::Nowhere(status) => (b'n', Bytes::from_owner(status.as_u16().to_be_bytes())),
            StoredAt::InStore(status) => (b's', Bytes::from_owner(status.as_u16().to_be_bytes())),
            StoredAt::InRecord(response) => (b'h', response.encode()),
        };
        assert!(!self.is_pending || place != b'h', "a stored response is final");
        let place = if self.is_pending { place.to_ascii_uppercase() } else { place };
        [&[VERSION], &self.fingerprint.as_bytes()[..], &[place], &response].concat().into()
    }

    /// Returns `None` for other payloads, such as the empty payload of a record made by `mark_done`.
    pub(super) fn decode(record: &[u8]) -> Option<Self> {
        let (head, rest) = record.split_first_chunk::<{ Fingerprint::BYTES + 2 }>()?;
        let [VERSION, fingerprint @ .., place] = head else { return None };
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
        let fingerprint = Fingerprint::from_bytes(*fingerprint);
        Some(Self { fingerprint, response, is_pending: place.is_ascii_uppercase() })
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
