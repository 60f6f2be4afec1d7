//! The value that a response is stored as: the token, a digest of its key, and the response.
//!
//! The digest tells a response from one of another key, such as a reply that came in late.

use std::{error::Error, sync::Arc};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::{
    once::{StoredBy, StoredResponse},
    token::FencingToken,
};

/// Length of a token: the decimal digits of the greatest.
pub(super) const TOKEN_DIGITS: usize = 20;
const DIGEST_BYTES: usize = 32;

/// The token as text. Texts of two tokens compare as the tokens do.
pub(super) fn token_text(token: FencingToken) -> String {
    format!("{:0TOKEN_DIGITS$}", token.get())
}

/// What follows the token.
pub(super) fn encode(key: &str, response: &StoredResponse) -> Vec<u8> {
    [&digest(key)[..], &response.encode()].concat()
}

/// Whether a value is none that was stored under this key.
pub(super) fn is_foreign(value: &[u8], key: &str) -> bool {
    let found = value.get(TOKEN_DIGITS..TOKEN_DIGITS + DIGEST_BYTES);
    found.is_none_or(|found| found != digest(key))
}

pub(super) fn decode(value: Vec<u8>) -> Result<StoredBy, Box<dyn Error + Send + Sync>> {
    let mut value = Bytes::from(value);
    if value.len() < TOKEN_DIGITS + DIGEST_BYTES {
        return Err("it is too short".into());
    }
    let token = value.split_to(TOKEN_DIGITS);
    let token = FencingToken::new(std::str::from_utf8(&token)?.parse()?);
    let response = StoredResponse::decode(value.split_off(DIGEST_BYTES))?;
    Ok(StoredBy { token, response: Arc::new(response) })
}

fn digest(key: &str) -> [u8; DIGEST_BYTES] {
    Sha256::digest(key.as_bytes()).into()
}
