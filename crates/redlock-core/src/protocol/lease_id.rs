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

/// The secret of one attempt, with which a client can renew and delete the key: 128 random bits, or over nodes
/// inside the process a number that follows such bits.
/// Never displayed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nonce([u8; 16]);

impl Nonce {
    /// Creates a nonce from bytes, which must not have been used before.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Parses 32 hexadecimal digits.
    pub fn from_hex(digits: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        if digits.len() != 32 || !digits.is_ascii() {
            return None;
        }
        for (byte, at) in bytes.iter_mut().zip((0..32).step_by(2)) {
            *byte = u8::from_str_radix(&digits[at..at + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// Returns 32 hexadecimal digits, as stored on the servers.
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

/// The identity of a lease, shared by all its operations.
#[derive(Debug)]
pub struct LeaseId {
    resource: Resource,
    nonce: Nonce,
    owner: Arc<str>,
    since: Duration,
    lingers: bool,
    is_shared: bool,
    single_token: Option<u64>,
    over: AtomicBool,
    wakes_none: AtomicBool,
    release_awaited: AtomicBool,
}

impl LeaseId {
    /// Creates the identity of a lease of `owner` on `resource`, requested at `since` (time since
    /// the Unix epoch, for display).
    pub fn new(resource: Resource, nonce: Nonce, owner: Arc<str>, since: Duration) -> Self {
        let [over, wakes_none, release_awaited] = [false; 3].map(AtomicBool::new);
        let (lingers, is_shared, single_token) = (false, false, None);
        Self {
            resource,
            nonce,
            owner,
            since,
            lingers,
            is_shared,
            single_token,
            over,
            wakes_none,
            release_awaited,
        }
    }

    /// Sets the only token of the lease, which is acquired as one of a name that is believed to be free. Its
    /// release expects the key as it was stored with this token.
    #[must_use]
    pub fn with_single_token(mut self, token: u64) -> Self {
        self.single_token = Some(token);
        self
    }

    /// Returns the only token of the lease, if its name was believed to be free.
    pub fn single_token(&self) -> Option<u64> {
        self.single_token
    }

    /// Sets whether the process may keep the lease after a release, for its next request. The nodes
    /// then report refused requests of others to the owner.
    #[must_use]
    pub fn lingering(mut self, lingers: bool) -> Self {
        self.lingers = lingers;
        self
    }

    /// Sets whether other shared leases may have the key beside this one.
    #[must_use]
    pub fn shared(mut self, is_shared: bool) -> Self {
        self.is_shared = is_shared;
        self
    }

    /// Returns whether other shared leases may have the key beside this one.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Returns whether nodes publish its release although no request was refused the key: for a
    /// slot, as a request waits for any slot of a name.
    pub fn is_always_awaited(&self) -> bool {
        self.resource.slot().is_some()
    }

    /// Returns the resource.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Returns the secret of this lease.
    pub fn nonce(&self) -> Nonce {
        self.nonce
    }

    /// Returns the owner, which is stored with the key for display.
    pub fn owner(&self) -> &Arc<str> {
        &self.owner
    }

    /// Returns the wall-clock time of the request, since the Unix epoch.
    pub fn since(&self) -> Duration {
        self.since
    }

    /// Returns whether the process may keep the lease after a release.
    pub fn lingers(&self) -> bool {
        self.lingers
    }

    /// Returns whether its release wakes no waiter: of an attempt that only the lead node granted, as the
    /// release of the lease that has the other nodes wakes them.
    pub fn wakes_none(&self) -> bool {
        self.wakes_none.load(Ordering::Acquire)
    }

    /// Returns whether the holder waits for the acknowledgement of the release.
    pub fn is_release_awaited(&self) -> bool {
        self.release_awaited.load(Ordering::Relaxed)
    }

    /// Records that the holder waits for the acknowledgement of the release.
    pub fn await_release(&self) {
        self.release_awaited.store(true, Ordering::Relaxed);
    }

    /// Makes the release wake no waiter. Called before the release is sent.
    #[doc(hidden)]
    pub fn wake_none(&self) {
        self.wakes_none.store(true, Ordering::Release);
    }

    /// Returns whether the lease has ended: its release was sent, or is about to be. From then on
    /// no other operation of the lease may be sent, not even again after a `NOSCRIPT`.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Marks the lease as ended. Called before its release is sent.
    #[doc(hidden)]
    pub fn end(&self) {
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
}
