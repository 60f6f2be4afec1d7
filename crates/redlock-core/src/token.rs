//! Fencing tokens.

use std::fmt;

/// Number of tokens that a lease reserves, for hand-offs in its process; one that lingers may
/// reserve more.
pub const BLOCK: u64 = 256;
/// Maximum lead of a token before a node's clock, in µs.
pub const TOKEN_LEAD: u64 = 60_000_000;
/// Upper bound of tokens, which JSON, JavaScript and Lua represent exactly.
pub const TOKEN_LIMIT: u64 = 1 << 53;

/// A number greater than that of every grant of the resource that was completed before this one was
/// requested, while a majority of the nodes keeps its fences.
///
/// A grant that was handed on within its process, without a message to the nodes, has the next
/// number of a block. If locks overlap, because keys were deleted or clocks jumped, its number may
/// be smaller than that of another process's grant; then a resource that checks tokens refuses its
/// writes.
///
/// Send it with each write to the system that owns the data, and let that system refuse writes
/// whose token is smaller than the largest it has seen: then a holder that was paused past its
/// validity can do no harm. It is below 2^53, so that JSON, JavaScript and Lua represent it
/// exactly.
///
/// Zero for a manager with `fencing(false)`.
///
/// Source of the technique: M. Kleppmann, *How to do distributed locking* (2016).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FencingToken(u64);

impl FencingToken {
    /// Creates a token, as when it is read from a store.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

/// Returns the last token of a block, which a node stores as the fence.
pub const fn block_end(first: u64, len: u64) -> u64 {
    first.saturating_add(len - 1)
}
