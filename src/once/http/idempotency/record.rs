use std::sync::Arc;

use bytes::{Buf, Bytes};
use http::StatusCode;

use crate::once::{Fingerprint, StoredResponse};

/// What the nodes keep of the first request with a key, and of its response.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct First {
    pub(super) fingerprint: Fingerprint,
    pub(super) response: Kept,
    /// The response is known, and whoever has it is about to keep it: where the lock is free, they
    /// never came to that. Only with [`Kept::Not`] and [`Kept::InStore`].
    pub(super) is_pending: bool,
}

/// Where its response is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kept {
    /// Nowhere: it was too large, or could not be read or put.
    Not(StatusCode),
    Here(StoredResponse),
    /// In a store, under the token of the record.
    InStore(StatusCode),
}

impl Kept {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Not(status) | Self::InStore(status) => *status,
            Self::Here(response) => response.status(),
        }
    }
}

const VERSION: u8 = 1;

impl First {
    /// The format's version in a byte, the fingerprint, a byte for where the response is (in upper
    /// case while that is still to come), and the response or its status.
    pub(super) fn encode(&self) -> Arc<[u8]> {
        let mut record = vec![VERSION];
        record.extend(self.fingerprint.as_bytes());
        match &self.response {
            Kept::Not(status) => {
                record.push(if self.is_pending { b'N' } else { b'n' });
                record.extend(status.as_u16().to_be_bytes());
            }
            Kept::Here(response) => {
                record.push(b'h');
                record.extend(response.encode());
            }
            Kept::InStore(status) => {
                record.push(if self.is_pending { b'S' } else { b's' });
                record.extend(status.as_u16().to_be_bytes());
            }
        }
        record.into()
    }

    /// `None` for what is no such record: one that a person has made, say.
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
            b'n' | b'N' => Kept::Not(status()?),
            b's' | b'S' => Kept::InStore(status()?),
            b'h' => Kept::Here(StoredResponse::decode(Bytes::copy_from_slice(rest)).ok()?),
            _ => return None,
        };
        let fingerprint = Fingerprint::from_bytes(fingerprint.try_into().ok()?);
        Some(Self { fingerprint, response, is_pending: place.is_ascii_uppercase() })
    }
}

#[cfg(test)]
mod tests {
    use http::Response;

    use super::*;
    use crate::once::StoredHeaders;

    fn firsts() -> Vec<First> {
        let (parts, ()) = Response::builder().header("etag", "x").body(()).unwrap().into_parts();
        let stored = StoredResponse::new(&parts, "\0\u{ff}".into(), &StoredHeaders::default());
        let places = [
            Kept::Not(StatusCode::CREATED),
            Kept::Here(stored),
            Kept::InStore(StatusCode::NOT_FOUND),
        ];
        let fingerprint = Fingerprint::from_bytes([7; 32]);
        let [not, here, stored] =
            places.map(|response| First { fingerprint, response, is_pending: false });
        let pending = [&not, &stored].map(|first| First { is_pending: true, ..first.clone() });
        [vec![not, here, stored], pending.into()].concat()
    }

    #[test]
    fn what_is_recorded_is_read_again() {
        for first in firsts() {
            assert_eq!(First::decode(&first.encode()), Some(first));
        }
    }

    #[test]
    fn the_format_stays_what_it_is_in_records_that_live_for_days() {
        let mut record = vec![1];
        record.extend([7; 32]);
        record.extend(*b"n\x00\xc9");
        assert_eq!(&*firsts()[0].encode(), record);
    }

    #[test]
    fn other_records_and_damaged_ones_are_none() {
        assert_eq!(First::decode(b""), None);
        for first in firsts() {
            let record = first.encode();
            for end in 0..record.len() {
                assert_eq!(First::decode(&record[..end]), None, "{end} bytes");
            }
            assert_eq!(First::decode(&[&record[..], &[0]].concat()), None);
            for (at, byte) in [(0, 2), (33, b'x')] {
                let mut other = record.to_vec();
                other[at] = byte;
                assert_eq!(First::decode(&other), None);
            }
        }
    }
}
