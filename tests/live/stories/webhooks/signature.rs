//! Signatures according to the Standard Webhooks specification.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::HeaderMap;
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::stories::Failure;

pub(crate) const ID: &str = "webhook-id";
pub(crate) const TIMESTAMP: &str = "webhook-timestamp";
pub(crate) const SIGNATURE: &str = "webhook-signature";

/// Maximum difference of a timestamp from the current time.
const TOLERANCE: Duration = Duration::from_secs(300);

/// The key that sender and receiver share.
#[derive(Clone)]
pub(crate) struct Key(Hmac<Sha256>);

#[derive(Debug, PartialEq)]
pub(crate) enum Refused {
    /// A header is missing or malformed.
    Malformed,
    Stale,
    WrongSignature,
}

impl Key {
    /// From a secret as senders show it: `whsec_` and base64.
    pub(crate) fn new(secret: &str) -> Result<Self, Failure> {
        let secret = secret.strip_prefix("whsec_").ok_or("no whsec_ secret")?;
        let key = BASE64.decode(secret)?;
        Ok(Self(Hmac::new_from_slice(&key).map_err(|error| error.to_string())?))
    }

    pub(crate) fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        let mac = self.mac(id, &timestamp.to_string(), body).finalize();
        format!("v1,{}", BASE64.encode(mac.into_bytes()))
    }

    pub(crate) fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), Refused> {
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let (Some(id), Some(timestamp), Some(signatures)) =
            (header(ID), header(TIMESTAMP), header(SIGNATURE))
        else {
            return Err(Refused::Malformed);
        };
        let seconds: u64 = timestamp.parse().map_err(|_| Refused::Malformed)?;
        if now().abs_diff(seconds) > TOLERANCE.as_secs() {
            return Err(Refused::Stale);
        }
        let mac = self.mac(id, timestamp, body);
        // There are several while the secret is replaced. The comparison takes constant time.
        let is_right = |signature: &str| {
            let given = signature.strip_prefix("v1,").and_then(|text| BASE64.decode(text).ok());
            given.is_some_and(|given| mac.clone().verify_slice(&given).is_ok())
        };
        if signatures.split(' ').any(is_right) { Ok(()) } else { Err(Refused::WrongSignature) }
    }

    fn mac(&self, id: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
        let head = format!("{id}.{timestamp}.");
        self.0.clone().chain_update(head).chain_update(body)
    }
}

/// Returns the time in seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
