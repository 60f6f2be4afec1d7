use std::{borrow::Cow, fmt};

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

use super::{
    RequestHead,
    names::Names,
    source::{Miss, sealed::Find},
};

/// Names replaced by their SHA-256. Made by [`Key::hashed`](super::Key::hashed).
#[derive(Clone, Copy, Debug)]
pub struct Hashed<S> {
    source: S,
}

impl<S> Hashed<S> {
    pub(super) const fn new(source: S) -> Self {
        Self { source }
    }
}

impl<S: Find> Find for Hashed<S> {
    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, Miss> {
        Ok(self.source.find(head)?.map(|name| hex(&Sha256::digest(name.as_bytes()))))
    }
}

/// Names replaced by their HMAC-SHA-256. Made by [`Key::hashed_with`](super::Key::hashed_with).
///
/// Source: H. Krawczyk, M. Bellare, R. Canetti, *HMAC: Keyed-Hashing for Message Authentication*
/// (RFC 2104).
#[derive(Clone)]
pub struct HashedWith<S> {
    source: S,
    keyed: Hmac<Sha256>,
}

impl<S> HashedWith<S> {
    pub(super) fn new(source: S, secret: &[u8]) -> Self {
        assert!(!secret.is_empty(), "the secret of a hashed key is empty");
        let keyed = Hmac::new_from_slice(secret).expect("HMAC takes secrets of any length");
        Self { source, keyed }
    }
}

impl<S: Find> Find for HashedWith<S> {
    fn find<'r>(&self, head: &RequestHead<'r>) -> Result<Names<'r>, Miss> {
        let hash = |name: Cow<'r, str>| {
            hex(&self.keyed.clone().chain_update(name.as_bytes()).finalize().into_bytes())
        };
        Ok(self.source.find(head)?.map(hash))
    }
}

/// Without the secret.
impl<S: fmt::Debug> fmt::Debug for HashedWith<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashedWith").field("source", &self.source).finish_non_exhaustive()
    }
}

fn hex<'r>(bytes: &[u8]) -> Cow<'r, str> {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
