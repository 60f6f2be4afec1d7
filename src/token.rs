use std::fmt;

/// How many consecutive tokens one lease reserves, for hand-offs inside its process.
pub(crate) const BLOCK: u64 = 256;
/// No node takes a token that lies further ahead of its clock than this, in µs.
pub(crate) const TOKEN_LEAD: u64 = 60_000_000;
/// Tokens stay below 2^53, so that JSON, JavaScript and Lua keep them exactly.
pub(crate) const TOKEN_LIMIT: u64 = 1 << 53;

/// A number that is greater than that of every lease of the resource that was completed before this
/// one was asked for, as long as a majority of the nodes keeps its fences.
///
/// Hand it to the system that owns the data along with each write, and let that system turn away
/// writes whose token is smaller than the largest it has seen: then a holder that was paused past
/// its validity can do no harm. Below 2^53, so that JSON, JavaScript and Lua keep it exactly.
///
/// Zero when the manager was built with `fencing(false)`.
///
/// Source of the technique: M. Kleppmann, *How to do distributed locking* (2016).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "config", derive(serde::Serialize, serde::Deserialize))]
pub struct FencingToken(u64);

impl FencingToken {
    /// A token of the given number, as it comes back from a store.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
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

/// The last token of a block of `len` tokens that starts at `first`: what a node stores as the fence.
pub(crate) const fn block_end(first: u64, len: u64) -> u64 {
    first.saturating_add(len - 1)
}
