//! A check of the values that a store keeps.

use super::worker::{decode, encode, token_text};

/// Reads bytes as a value. What is read is the same after it was written and read again.
pub(crate) fn stored(data: &[u8]) {
    let Ok(read) = decode(data.to_vec()) else { return };
    let again = [token_text(read.token).as_bytes(), &encode("key", &read.response)].concat();
    let again = decode(again).expect("a value");
    assert_eq!((again.token, again.response), (read.token, read.response));
}
