//! The identity of a lease.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::resource::Resource;

/// The secret of one attempt, with which a client can renew and delete the key.
///
/// 128 random bits, fresh for every attempt. Never shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nonce([u8; 16]);

impl Nonce {
    /// A nonce of the given bytes; they must never have been used before.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 16];
        crate::random::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// From 32 hexadecimal digits.
    pub(crate) fn from_hex(digits: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        if digits.len() != 32 || !digits.is_ascii() {
            return None;
        }
        for (byte, at) in bytes.iter_mut().zip((0..32).step_by(2)) {
            *byte = u8::from_str_radix(&digits[at..at + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// 32 hexadecimal digits, as stored on the servers.
    pub fn to_hex(self) -> [u8; 32] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [0; 32];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        hex
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonce(..)")
    }
}

/// What all operations of one lease have in common.
#[derive(Debug)]
pub struct LeaseId {
    resource: Resource,
    nonce: Nonce,
    owner: Arc<str>,
    since: Duration,
    over: AtomicBool,
}

impl LeaseId {
    /// A lease of `owner` on `resource`, asked for at `since` (time since the Unix epoch, for
    /// people to read).
    pub fn new(resource: Resource, nonce: Nonce, owner: Arc<str>, since: Duration) -> Self {
        Self { resource, nonce, owner, since, over: AtomicBool::new(false) }
    }

    /// What is locked.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// The secret of this lease.
    pub fn nonce(&self) -> Nonce {
        self.nonce
    }

    /// The owner, as stored with the key for display.
    pub fn owner(&self) -> &Arc<str> {
        &self.owner
    }

    /// Time of the request on the wall clock, since the Unix epoch.
    pub fn since(&self) -> Duration {
        self.since
    }

    /// Whether the lease was given up: its release is sent, or about to be. From then on no other
    /// operation of it may be sent, not even again after a `NOSCRIPT`.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_never_shown() {
        let nonce = Nonce::from_bytes([0xab; 16]);
        assert_eq!(format!("{nonce:?}"), "Nonce(..)");
        assert_eq!(nonce.to_hex(), *b"abababababababababababababababab");
        assert_eq!(Nonce::from_hex("abababababababababababababababab"), Some(nonce));
        assert_eq!(Nonce::from_hex("abab"), None);
    }

    #[test]
    fn two_nonces_differ() {
        assert_ne!(Nonce::random().unwrap(), Nonce::random().unwrap());
    }
}
